package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// drifted is an object of the operator's, a change that somebody makes by hand, and how it shows that the change is
// gone.
type drifted struct {
	object  client.Object
	edit    func(client.Object)
	restore func(client.Object) bool
}

func drift() []drifted {
	in := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: name}
	}
	config := func(o client.Object) {
		for k := range o.(*corev1.ConfigMap).Data {
			o.(*corev1.ConfigMap).Data[k] = "# edited"
		}
	}
	configOK := func(o client.Object) bool {
		for _, v := range o.(*corev1.ConfigMap).Data {
			if v == "# edited" {
				return false
			}
		}
		return len(o.(*corev1.ConfigMap).Data) > 0
	}
	return []drifted{
		{&appsv1.DaemonSet{ObjectMeta: in(resources.SatelliteName)},
			func(o client.Object) {
				o.(*appsv1.DaemonSet).Spec.Template.Spec.Containers[0].Image = "example.com/edited"
			},
			func(o client.Object) bool {
				return o.(*appsv1.DaemonSet).Spec.Template.Spec.Containers[0].Image != "example.com/edited"
			}},
		{&appsv1.Deployment{ObjectMeta: in(resources.ControllerName)},
			func(o client.Object) { o.(*appsv1.Deployment).Spec.Replicas = new(int32) },
			func(o client.Object) bool { return *o.(*appsv1.Deployment).Spec.Replicas == 1 }},
		{&corev1.Service{ObjectMeta: in(resources.ControllerName)},
			func(o client.Object) { o.(*corev1.Service).Spec.Ports[0].Port = 1234 },
			func(o client.Object) bool { return o.(*corev1.Service).Spec.Ports[0].Port == resources.ControllerPort }},
		{&corev1.ConfigMap{ObjectMeta: in(resources.ControllerConfigName)}, config, configOK},
		{&corev1.ConfigMap{ObjectMeta: in(resources.SatelliteConfigName)}, config, configOK},
	}
}

func TestDriftIsPutRight(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	c := e.WaitPhase(v1alpha1.PhaseReady)
	var loaders appsv1.DaemonSetList
	if err := e.Client().List(e.Ctx, &loaders,
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentModuleLoader}); err != nil ||
		len(loaders.Items) != 1 {
		t.Fatalf("%d module loaders (%v), want 1", len(loaders.Items), err)
	}
	objects := append(drift(),
		drifted{object: &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
			Name: loaders.Items[0].Name}}},
		drifted{object: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace,
			Name: c.Status.Target}}})
	for _, d := range objects {
		what := fmt.Sprintf("%T %s", d.object, d.object.GetName())
		key := client.ObjectKeyFromObject(d.object)
		if err := e.Client().Get(e.Ctx, key, d.object); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if d.edit != nil {
			e.Eventually(what+" is edited", func() error {
				if err := e.Client().Get(e.Ctx, key, d.object); err != nil {
					return err
				}
				d.edit(d.object)
				return e.Client().Update(e.Ctx, d.object)
			})
			e.Eventually(what+" is put right", func() error {
				if err := e.Client().Get(e.Ctx, key, d.object); err != nil {
					return err
				}
				if !d.restore(d.object) {
					return errors.New("it is still as it was edited")
				}
				return nil
			})
		}
		was := d.object.GetUID()
		if err := e.Client().Delete(e.Ctx, d.object); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		e.Eventually(what+" is made again", func() error {
			err := e.Client().Get(e.Ctx, key, d.object)
			if err == nil && d.object.GetUID() == was {
				err = errors.New("it is still being deleted")
			}
			return err
		})
		e.WaitStatus("all nodes after "+what+" came back", func(s *v1alpha1.StorageClusterStatus) bool {
			return s.Phase == v1alpha1.PhaseReady && s.Nodes.Summary == "3/3"
		})
	}
}

func TestControllerThatDiesIsDegradedFirst(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Timing.Escalate = machine.Slow(time.Minute)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)

	e.Sim.Faults().SetCrash(resources.ControllerContainer, "", "java.lang.OutOfMemoryError: Java heap space")
	c := e.WaitPhase(v1alpha1.PhaseDegraded)
	if got := harness.Condition(c, conditions.Available); got != "False/ControllerUnreachable" {
		t.Errorf("Available is %s", got)
	}
	if c.Status.Nodes.Summary != "3/3" {
		t.Errorf("nodes %s: what LINSTOR said last must stay while it does not answer", c.Status.Nodes.Summary)
	}
	e.Sim.Faults().SetCrash(resources.ControllerContainer, "", "")
	c = e.WaitPhase(v1alpha1.PhaseReady)
	for _, h := range e.Steps(c) {
		if h.To == v1alpha1.PhaseHumanIntervention {
			t.Errorf("a human was asked: %+v", h)
		}
	}
}
