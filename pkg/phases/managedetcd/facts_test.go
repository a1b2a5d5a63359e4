package managedetcd_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/managedetcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// TestEditedDaemonSet: what somebody has changed of a member's DaemonSet is written again, by the step that wrote it.
// What is to change in the member's turn is left alone.
func TestEditedDaemonSet(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   func(*appsv1.DaemonSet)
		spoil  func(*rig)
		edited bool
		// unknown is an operator that does not know its own image.
		unknown bool
	}{
		"as it was written": {edit: func(*appsv1.DaemonSet) {}},
		"another image": {edit: func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.Containers[0].Image = "example.com/etcd:v9"
		}, edited: true},
		"replaced at once": {edit: func(ds *appsv1.DaemonSet) {
			ds.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
		}, edited: true},
		"the settings are others now": {edit: func(*appsv1.DaemonSet) {}, spoil: func(r *rig) {
			r.Cluster.Spec.Images.PullSecrets = []string{"pull"}
			r.Accept()
		}},
		"the operator's image is not known": {edit: func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.Containers[0].Image = "example.com/etcd:v9"
		}, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			look := func() (membership.Facts, *etcd.Known) {
				f := r.Snapshot().Facts
				f.OperatorImage = "registry.example.com/operator:v1" // as in work
				if tc.unknown {
					f.OperatorImage = ""
				}
				return managedetcd.Facts(&f)
			}
			facts, _ := look()
			c := member("n01")
			c.Revision = facts.Revision
			order, err := etcdmember.Order(c)
			if err != nil {
				t.Fatal(err)
			}
			r.configMap(etcdmember.Orders, "7", map[string]string{"n01": order})
			r.KubeNode("n01").Labels[pods.Label] = c.Name
			r.known.Decision.Step, r.known.Decision.Configuration = membership.Place, c
			r.known.Decision.Spot.Node, r.known.Decision.Spot.UID, r.known.Decision.Spot.ConfigVersion = "n01", "uid-n01", "7"
			_, w, err := r.work()
			if err != nil || len(w.Applied) != 1 {
				t.Fatalf("%v: %v", err, w.Calls)
			}
			ds := w.Applied[0].(*appsv1.DaemonSet)
			tc.edit(ds)
			r.Kube.DaemonSets[ds.Name] = ds
			if tc.spoil != nil {
				tc.spoil(&r)
			}
			facts, known := look()
			site := facts.Sites["n01"]
			if known.Err != nil || site.Template == nil || site.Edited != tc.edited || !site.Has(c) {
				t.Fatalf("%v: %+v", known.Err, site)
			}
			if calls, _, err := r.work(); tc.edited && (err != nil || calls[0] != "apply DaemonSet/"+ds.Name) {
				t.Errorf("%v: %v", err, calls)
			}
		})
	}
}
