package registration_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/registration"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const beforeAutoplace = remembered.Before + linstor.PropAutoplace

// A node that is registered beside a CSI driver that runs takes no volumes until the driver knows it.
func TestANodeIsRegisteredClosedBesideADriver(t *testing.T) {
	running := func(pods int32) func(*clustertest.World) {
		return func(w *clustertest.World) {
			d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: pods}}
			w.Kube.Deployments[resources.DriverControllerName] = d
		}
	}
	closed := func(before string) map[string]string {
		return map[string]string{linstor.PropAutoplace: "false", beforeAutoplace: before,
			remembered.Fresh: remembered.Stamp(clustertest.Begin)}
	}
	for _, tc := range []struct {
		name  string
		spec  map[string]string
		spoil func(*clustertest.World)
		want  map[string]string
	}{
		{name: "no driver", spoil: func(*clustertest.World) {}, want: map[string]string{}},
		{name: "a driver without pods", spoil: running(0), want: map[string]string{}},
		{name: "a driver", spoil: running(1), want: closed(registration.WasUnset)},
		{name: "a driver, and the spec opens the node", spec: map[string]string{linstor.PropAutoplace: "true"},
			spoil: running(1), want: closed("true")},
		{name: "a driver, and the spec closes the node", spec: map[string]string{linstor.PropAutoplace: "no"},
			spoil: running(1), want: map[string]string{linstor.PropAutoplace: "no"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			w.Cluster.Spec.Nodes.Properties = tc.spec
			w.Accept()
			tc.spoil(w)
			delete(w.Linstor.View.Nodes, "n02")
			s := w.Snapshot()
			r := registration.WantedRegistration(s, s.MemberByName("n02"))
			got := map[string]string{}
			for _, key := range []string{linstor.PropAutoplace, beforeAutoplace, remembered.Fresh} {
				if value, set := r.Create.Properties[key]; set {
					got[key] = value
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
			w.Now = w.Now.Add(time.Minute)
			s = w.Snapshot()
			if later := registration.WantedRegistration(s, s.MemberByName("n02")); later.Digest() != r.Digest() {
				t.Error("a minute later it is another task")
			}
		})
	}
}

// It is opened again after a minute and a half, and what the spec or somebody else says of it holds again.
func TestANodeIsOpenedOnceTheDriverKnowsIt(t *testing.T) {
	const opened = "node n01 set  del AutoplaceTarget," + beforeAutoplace + "," + remembered.Fresh
	for _, tc := range []struct {
		name  string
		after time.Duration
		spoil func(*clustertest.World)
		want  string
	}{
		{name: "too early", after: 89 * time.Second},
		{name: "late enough", after: 90 * time.Second, want: opened},
		{name: "a clock that was set back", after: -time.Second, want: opened},
		{name: "no time at all", after: time.Second, want: opened, spoil: func(w *clustertest.World) {
			w.Node("n01").Properties[remembered.Fresh] = "yes"
		}},
		{name: "cordoned meanwhile", after: 2 * time.Minute, want: "node n01 set  del " + remembered.Fresh,
			spoil: func(w *clustertest.World) { w.KubeNode("n01").Spec.Unschedulable = true }},
		{name: "somebody opened it", after: 2 * time.Minute,
			want:  "node n01 set  del " + beforeAutoplace + "," + remembered.Fresh,
			spoil: func(w *clustertest.World) { w.Node("n01").Properties[linstor.PropAutoplace] = "true" }},
		{name: "somebody opened it too early", after: time.Second, want: "node n01 set AutoplaceTarget=false del ",
			spoil: func(w *clustertest.World) { w.Node("n01").Properties[linstor.PropAutoplace] = "true" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 3)
			n := w.Node("n01")
			n.Properties[linstor.PropAutoplace], n.Properties[beforeAutoplace] = "false", registration.WasUnset
			n.Properties[remembered.Fresh] = remembered.Stamp(clustertest.Begin)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			w.Now = clustertest.Begin.Add(tc.after)
			in, r := w.Input()
			r.Now = w.Linstor.View
			if err := registration.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
				if err := r.Run(t, "placement/n01"); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(want, r.Calls); d != "" || tc.want == "" && len(r.Queued) > 0 {
				t.Errorf("%s; tasks %v", d, r.Keys())
			}
		})
	}
}
