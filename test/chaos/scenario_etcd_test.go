package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
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

// lookAtEtcd says how many members there are, if all that is kept of them says the same, and takes them out of the
// cluster's status.
func lookAtEtcd(e *harness.Env, c *v1alpha1.StorageCluster, state map[string]any) error {
	st := c.Status.Etcd
	if st == nil {
		return nil
	}
	c.Status.Etcd = nil
	var orders corev1.ConfigMap
	var sets appsv1.DaemonSetList
	var nodes corev1.NodeList
	if err := errors.Join(e.Client().Get(e.Ctx, workload(etcdmember.Orders), &orders),
		e.Client().List(e.Ctx, &nodes, client.HasLabels{pods.Label}),
		e.Client().List(e.Ctx, &sets, client.MatchingLabels{v1alpha1.LabelComponent: etcdmember.Component})); err != nil {
		return err
	}
	placed := map[string][]string{"status": nil, "orders": slices.Sorted(maps.Keys(orders.Data)), "DaemonSets": nil,
		"labels": nil}
	for _, m := range st.Members {
		placed["status"] = append(placed["status"], m.Node)
	}
	for i := range sets.Items {
		placed["DaemonSets"] = append(placed["DaemonSets"], etcdmember.NodeOf(&sets.Items[i]))
	}
	for i := range nodes.Items {
		placed["labels"] = append(placed["labels"], nodes.Items[i].Name)
	}
	for _, names := range placed {
		if slices.Sort(names); !slices.Equal(names, placed["orders"]) {
			return fmt.Errorf("members are on different nodes: %v", placed)
		}
	}
	state["etcd"] = fmt.Sprintf("%s, %d members, %d with a vote", st.Step, len(st.Members), st.Replicas)
	return nil
}

// ofMembers reports whether an object is about members of etcd, which are counted. Of other objects it takes away the
// hashes that follow from where members are.
func ofMembers(c *v1alpha1.StorageCluster, o map[string]any) bool {
	if c.Spec.Database.ManagedEtcd == nil {
		return false
	}
	meta, _ := o["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	if kind := labels[v1alpha1.LabelComponent]; kind == etcdmember.Component || kind == etcdmember.SurveyComponent ||
		meta["name"] == etcdmember.Orders || meta["name"] == etcdmember.Notes {
		return true
	}
	withoutHashes(o)
	return false
}

func withoutHashes(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			withoutHashes(e)
		}
	case map[string]any:
		for _, hash := range []string{resources.AnnotationConfigHash, resources.AnnotationTemplateHash,
			resources.AnnotationSpecHash} {
			delete(v, hash)
		}
		for _, e := range v {
			withoutHashes(e)
		}
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
