package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// etcdScenario: members of the etcd that the operator runs are added and removed, whoever dies meanwhile, also at the
// calls to etcd itself. Members have names and IDs of their own in each round, and which one stays at last is chance.
func etcdScenario() scenario {
	scale := func(n int32) func(*harness.Env) {
		return func(e *harness.Env) {
			e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Database.ManagedEtcd.Replicas = n })
		}
	}
	return scenario{
		name: "etcd", nodes: 3, etcd: true,
		// A learner that was at work already is given up after this time, and its node gets none for a day.
		tune: func(t *cluster.Timing) { t.NodeGone = machine.Slow(time.Minute) },
		begin: func(e *harness.Env) {
			apply("  version: 1.33.3\n  database: {managedEtcd: {replicas: 1}}" + harness.ThinPool)(e)
			e.Eventually("one member", func() error { return members(1)(e) })
		},
		steps: []step{
			{name: "grow", do: scale(3), done: members(3)},
			{name: "shrink", do: scale(1), done: members(1)},
		},
	}
}

// members is nil once the cluster is Ready on so many members, and nothing is left to be done about them.
func members(n int32) func(*harness.Env) error {
	return func(e *harness.Env) error {
		st := e.Get().Status.Etcd
		switch {
		case st == nil:
			return errors.New("nothing is known of etcd")
		case st.Replicas != n || st.Step != "rest" || len(st.Members) != int(n) ||
			slices.ContainsFunc(st.Members, func(m etcdspec.EtcdMember) bool { return !m.Healthy }):
			return fmt.Errorf("%+v", st)
		}
		return ready("3/3", "3/3")(e)
	}
}

// tappedEtcd stands between an operator and members of etcd.
type tappedEtcd struct {
	api.API
	life *life
}

func (l *life) wrapEtcd(a api.API) api.API { return tappedEtcd{a, l} }

// write sends a change, unless the operator ends before it.
func (t tappedEtcd) write(ctx context.Context, what string, send func(context.Context) error) error {
	end, how, err := t.life.admit(&write{what: "etcd " + what})
	if err != nil {
		return err
	}
	err = send(context.WithoutCancel(ctx)) // it arrives, whoever dies meanwhile
	if end == nil {
		return err
	}
	defer end()
	if how == lost {
		return syscall.ECONNRESET
	}
	return err
}

// AddLearner implements api.API.
func (t tappedEtcd) AddLearner(ctx context.Context, endpoint, peerURL string) error {
	return t.write(ctx, "add a learner", func(ctx context.Context) error {
		return t.API.AddLearner(ctx, endpoint, peerURL)
	})
}

// Promote implements api.API.
func (t tappedEtcd) Promote(ctx context.Context, endpoint string, id view.ID) error {
	return t.write(ctx, "promote", func(ctx context.Context) error { return t.API.Promote(ctx, endpoint, id) })
}

// Remove implements api.API.
func (t tappedEtcd) Remove(ctx context.Context, endpoint string, id view.ID) error {
	return t.write(ctx, "remove", func(ctx context.Context) error { return t.API.Remove(ctx, endpoint, id) })
}

// MoveLeader implements api.API.
func (t tappedEtcd) MoveLeader(ctx context.Context, endpoint string, id view.ID) error {
	return t.write(ctx, "move the leader", func(ctx context.Context) error { return t.API.MoveLeader(ctx, endpoint, id) })
}
