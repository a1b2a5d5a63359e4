package netcom_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

var made = tlssecret.Ref{Secret: "s", Leaf: "leaf", Trust: "trust"}

func lock(annotations *map[string]string) { *annotations = netcomtls.Kind.Annotate(made, *annotations) }

// world is a plain cluster that runs, with the spec's mode as it is now.
func world(t *testing.T, mode tlsspec.Mode) *clustertest.World {
	t.Helper()
	w := clustertest.NewWorld(t, 2)
	w.Cluster.Spec.TLS.Mode = mode
	w.Accept()
	return w
}

func lockSatellites(w *clustertest.World) {
	for _, ds := range w.Kube.DaemonSets {
		if ds.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentSatellite {
			lock(&ds.Spec.Template.Annotations)
		}
	}
}

func lockController(w *clustertest.World) {
	lock(&w.Kube.Deployments[resources.ControllerName].Spec.Template.Annotations)
	for _, p := range w.Kube.ControllerPods {
		lock(&p.Annotations)
	}
}

// hangs leaves a plain pod of the controller that is being deleted beside a locked one.
func hangs(w *clustertest.World) {
	old := w.Kube.ControllerPods[0].DeepCopy()
	old.DeletionTimestamp = &metav1.Time{Time: w.Now}
	lockController(w)
	w.Kube.ControllerPods = append(w.Kube.ControllerPods, old)
}

// overTLS makes LINSTOR connect to a satellite with TLS.
func overTLS(w *clustertest.World, node string) {
	i := &w.Node(node).Interfaces[0]
	i.Port, i.TLS = netcomtls.Port, true
}

func notReady(w *clustertest.World) {
	for _, p := range w.Kube.ControllerPods {
		p.Status.Conditions = nil
	}
}

// TestConnections is the order in which a cluster is switched.
func TestConnections(t *testing.T) {
	for name, tc := range map[string]struct {
		mode                  tlsspec.Mode
		spoil                 func(*clustertest.World)
		controller, satellite bool
	}{
		"nobody wants it":       {tlsspec.Disabled, func(*clustertest.World) {}, false, false},
		"on: the controller":    {tlsspec.Managed, func(*clustertest.World) {}, true, false},
		"on: satellites follow": {tlsspec.Managed, lockController, true, true},
		"on: the controller has its stores, and is not ready": {tlsspec.Managed, func(w *clustertest.World) {
			lockController(w)
			notReady(w)
		}, true, false},
		"on: the controller of before may still answer": {tlsspec.Managed, func(w *clustertest.World) {
			old := w.Kube.ControllerPods[0].DeepCopy()
			lockController(w)
			w.Kube.ControllerPods = append(w.Kube.ControllerPods, old)
		}, true, false},
		"on: what has begun goes on": {tlsspec.Managed, func(w *clustertest.World) {
			lockController(w)
			lockSatellites(w)
			w.Kube.ControllerPods = nil
		}, true, true},
		"a new cluster": {tlsspec.Managed, func(w *clustertest.World) {
			w.Kube.ControllerPods, w.Kube.Deployments = nil, map[string]*appsv1.Deployment{}
			w.Kube.DaemonSets = map[string]*appsv1.DaemonSet{}
		}, true, true},
		"a new cluster, whose controller starts": {tlsspec.Managed, func(w *clustertest.World) {
			lockController(w)
			notReady(w)
			w.Kube.DaemonSets = map[string]*appsv1.DaemonSet{}
		}, true, true},
		"satellites run, and there is no controller": {tlsspec.Managed, func(w *clustertest.World) {
			w.Kube.ControllerPods, w.Kube.Deployments = nil, map[string]*appsv1.Deployment{}
		}, true, false},
		"a plain controller, and no satellites": {tlsspec.Managed, func(w *clustertest.World) {
			w.Kube.DaemonSets = map[string]*appsv1.DaemonSet{}
		}, true, false},
		"off: satellites first": {tlsspec.Disabled, func(w *clustertest.World) {
			lockController(w)
			lockSatellites(w)
		}, true, false},
		"off: a satellite of before runs": {tlsspec.Disabled, func(w *clustertest.World) {
			lockController(w)
			lock(&w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Annotations)
		}, true, false},
		"off: one of before hides behind another": {tlsspec.Disabled, func(w *clustertest.World) {
			lockController(w)
			p := w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].DeepCopy()
			lock(&p.Annotations)
			w.Kube.Hidden = append(w.Kube.Hidden, p)
		}, true, false},
		"off: LINSTOR connects to one so": {tlsspec.Disabled, func(w *clustertest.World) {
			lockController(w)
			overTLS(w, "n02")
		}, true, false},
		"off: LINSTOR does not answer": {tlsspec.Disabled, func(w *clustertest.World) {
			lockController(w)
			w.Linstor.View = nil
		}, true, false},
		"off: LINSTOR connects so to a node that is none of Kubernetes": {tlsspec.Disabled, func(w *clustertest.World) {
			lockController(w)
			w.Linstor.View.Nodes["elsewhere"] = &linstor.Node{Name: "elsewhere", Interfaces: []linstor.Interface{
				{Name: "default", Port: netcomtls.Port, TLS: true}}}
		}, false, false},
		"off: an interface that is none of the operator's": {tlsspec.Disabled, func(w *clustertest.World) {
			lockController(w)
			w.Node("n02").Interfaces = append(w.Node("n02").Interfaces,
				linstor.Interface{Name: "mine", Port: netcomtls.Port, TLS: true})
		}, false, false},
		"off: the controller is gone, and satellites of before run": {tlsspec.Disabled, func(w *clustertest.World) {
			lock(&w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"].Annotations)
			w.Kube.ControllerPods, w.Kube.Deployments = nil, map[string]*appsv1.Deployment{}
		}, true, false},
		"off: a plain controller, and satellites of before run": {tlsspec.Disabled, lockSatellites, true, false},
		"off: what was restored says so": {tlsspec.Disabled, func(w *clustertest.World) {
			overTLS(w, "n02")
		}, false, false},
		"on: a plain controller has failed": {tlsspec.Managed, func(w *clustertest.World) {
			old := w.Kube.ControllerPods[0].DeepCopy()
			old.Status.Phase = corev1.PodFailed
			lockController(w)
			w.Kube.ControllerPods = append(w.Kube.ControllerPods, old)
		}, true, true},
		"on: a plain controller hangs on a dead node": {tlsspec.Managed, hangs, true, true},
		"on: a plain controller ends, and no other one is ready": {tlsspec.Managed, func(w *clustertest.World) {
			hangs(w)
			notReady(w)
		}, true, false},
		"off: the controller last": {tlsspec.Disabled, lockController, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, tc.mode)
			tc.spoil(w)
			c := netcom.Connections(&w.Snapshot().Facts)
			if c.Controller.Locked() != tc.controller || c.Satellite.Locked() != tc.satellite {
				t.Errorf("controller %t, satellites %t", c.Controller.Locked(), c.Satellite.Locked())
			}
		})
	}
}

// TestMissing: nobody is made with a certificate that is not there.
func TestMissing(t *testing.T) {
	w := world(t, tlsspec.Managed)
	f := &w.Snapshot().Facts
	if netcom.Missing(f, netcomtls.Controller) == "" || netcom.Missing(f, netcomtls.Satellite) != "" {
		t.Errorf("controller %q, satellites %q", netcom.Missing(f, netcomtls.Controller),
			netcom.Missing(f, netcomtls.Satellite))
	}
	lockController(w)
	if f = &w.Snapshot().Facts; netcom.Missing(f, netcomtls.Satellite) == "" {
		t.Error("satellites lack nothing, although there is no Secret")
	}
	w = world(t, tlsspec.Disabled)
	if why := netcom.Missing(&w.Snapshot().Facts, netcomtls.Controller, netcomtls.Satellite); why != "" {
		t.Error(why)
	}
}

// TestLocked: what a pod was made with is in its annotation alone.
func TestLocked(t *testing.T) {
	p := &corev1.Pod{}
	if netcom.Locked(p) {
		t.Error("a pod without annotation")
	}
	lock(&p.Annotations)
	if !netcom.Locked(p) {
		t.Error("a pod with annotation")
	}
}
