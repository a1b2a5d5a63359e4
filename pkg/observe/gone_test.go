package observe

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// gone is a source whose node n1 has no Node object, and that has a snapshot.
type gone struct {
	*source
	node  *linstor.Node
	fails error
	asked []string
}

func (s *gone) View(context.Context, linstor.ViewOptions) (*linstor.View, error) {
	return &linstor.View{TakenAt: s.clock.Now(), Nodes: map[string]*linstor.Node{"n1": s.node}}, nil
}

func (s *gone) Snapshots(_ context.Context, nodes ...string) ([]linstor.Snapshot, error) {
	s.asked = append(s.asked, nodes...)
	return []linstor.Snapshot{{Name: "a/s", Nodes: nodes}}, s.fails
}

// TestSnapshotsOfGoneNodes: they are read once a node may be given up, or a human is asked whether it is.
func TestSnapshotsOfGoneNodes(t *testing.T) {
	hour := ptr.To(metav1.Duration{Duration: time.Hour})
	for _, tc := range []struct {
		name   string
		policy v1alpha1.NodeRemovalPolicy
		after  *metav1.Duration
		away   time.Duration
		spoil  func(*gone)
		node   bool // there is a Node object
		asked  bool
	}{
		{name: "for long", policy: v1alpha1.NodesRemove, away: 2 * time.Hour, asked: true},
		{name: "not for long", policy: v1alpha1.NodesRemove, away: time.Minute},
		{name: "not for long, and a human's word", policy: v1alpha1.NodesEvacuate, away: time.Minute, asked: true,
			spoil: func(s *gone) { s.node.Properties[remembered.DeclareLost] = "h-1" }},
		{name: "for as long as the spec says", policy: v1alpha1.NodesRemove, after: hour, away: time.Hour, asked: true},
		{name: "for long, and kept", policy: v1alpha1.NodesRetain, away: 2 * time.Hour},
		{name: "reached", policy: v1alpha1.NodesRemove, away: 2 * time.Hour,
			spoil: func(s *gone) { s.node.Status = linstor.StatusOnline }},
		{name: "not ours", policy: v1alpha1.NodesRemove, away: 2 * time.Hour,
			spoil: func(s *gone) { delete(s.node.Properties, linstor.PropNodeUID) }},
		{name: "unreadable", policy: v1alpha1.NodesRemove, away: 2 * time.Hour, asked: true,
			spoil: func(s *gone) { s.fails = errors.New("refused") }},
		{name: "well", policy: v1alpha1.NodesRemove, away: 2 * time.Hour, node: true},
		{name: "on another machine", policy: v1alpha1.NodesRetain, node: true, asked: true,
			spoil: func(s *gone) { s.node.Properties[remembered.SystemUUID] = "earlier" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := v1alpha1.StorageClusterSpec{Nodes: v1alpha1.NodesSpec{RemovalPolicy: tc.policy, LostAfter: tc.after}}
			objects := []client.Object{controllerPod()}
			if tc.node {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
				n.Status.NodeInfo.SystemUUID = "now"
				objects = append(objects, n)
			}
			b := newBench(t, spec, interceptor.Funcs{}, objects...)
			b.clock.SetTime(b.clock.Now().Add(100 * time.Hour))
			src := &gone{source: b.src, node: &linstor.Node{Name: "n1", Status: linstor.StatusOffline,
				Properties: map[string]string{linstor.PropNodeUID: "u",
					remembered.GoneSince: b.clock.Now().Add(-tc.away).UTC().Format(time.RFC3339)}}}
			if tc.spoil != nil {
				tc.spoil(src)
			}
			b.Linstor = src
			v := b.observe().Linstor.View
			if got := len(src.asked) > 0; got != tc.asked {
				t.Errorf("asked for %v", src.asked)
			}
			if known := tc.asked && src.fails == nil; v.KnowsSnapshots("N1") != known || len(v.SnapshotsOf("n1")) > 0 != known {
				t.Errorf("snapshots %v, known on %v", v.Snapshots, v.SnapshotsOn)
			}
		})
	}
}
