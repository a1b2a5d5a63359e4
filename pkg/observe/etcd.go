package observe

import (
	"context"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/pace"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
)

// etcd looks at the etcd that the operator runs; nil if it is to run none. The members are asked once nobody is just
// changing them, after what the nodes have was read, and not again before something has changed or the time has come.
func (o *Observer) etcd(ctx context.Context, f *cluster.Facts) *etcd.Known {
	if f.Target == nil || f.Target.Spec.Database.ManagedEtcd == nil {
		o.members = nil
		return nil
	}
	facts, known := managedetcd.Facts(f)
	if known.Err != nil {
		return known
	}
	state := o.Tasks.State(etcd.Task)
	if last := o.members; last != nil {
		poll := pace.Poll(f.Timing, last.UnderWay())
		ended := state.DoneAt.After(last.At) || state.FailedAt.After(last.At)
		young := f.Now.Sub(last.At) < poll && !ended && etcd.Same(last.Facts, facts)
		if state.Running || state.Queued || young {
			again := *last
			again.Asked, again.Answers = false, known.Answers
			return &again
		}
	}
	facts.Look = api.LookAll(ctx, o.Etcd, facts.Ask()...)
	looked := etcd.Look(facts)
	looked.Image, looked.Answers, looked.Heard = known.Image, known.Answers, known.Answers.Last
	o.members = looked
	return looked
}
