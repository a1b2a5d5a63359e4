package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// Owned lists the objects with the operator's label in the workloads' namespace, as "Kind/name", pods left out.
func (a *Administrator) Owned() []string {
	a.T.Helper()
	var out []string
	for kind, list := range map[string]client.ObjectList{
		"DaemonSet": &appsv1.DaemonSetList{}, "Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{},
		"ConfigMap": &corev1.ConfigMapList{}, "Secret": &corev1.SecretList{},
		"ControllerRevision": &appsv1.ControllerRevisionList{}, "CSIDriver": &storagev1.CSIDriverList{},
		"StorageClass": &storagev1.StorageClassList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
	} {
		for _, o := range a.Objects(list) {
			name := o.Name
			// A workload's own revisions are named after it and are not ours.
			if kind == "ControllerRevision" {
				if o.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentRevision {
					continue
				}
				name = "accepted"
			}
			out = append(out, kind+"/"+name)
		}
	}
	for _, o := range a.snapshotClasses() {
		out = append(out, "VolumeSnapshotClass/"+o.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// snapshotClasses are the operator's VolumeSnapshotClasses; none where Kubernetes does not serve them.
func (a *Administrator) snapshotClasses() []metav1.ObjectMeta {
	a.T.Helper()
	if err := a.Client().List(a.Ctx, &snapshotv1.VolumeSnapshotClassList{}); meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) {
		return nil
	}
	return a.Objects(&snapshotv1.VolumeSnapshotClassList{})
}

// Objects lists the operator's objects of one kind.
func (a *Administrator) Objects(list client.ObjectList) []metav1.ObjectMeta {
	a.T.Helper()
	err := a.Client().List(a.Ctx, list, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.HasLabels{v1alpha1.LabelCluster})
	if err != nil {
		a.T.Fatal(err)
	}
	var out []metav1.ObjectMeta
	_ = forEach(list, func(o client.Object) {
		out = append(out, metav1.ObjectMeta{Name: o.GetName(), Labels: o.GetLabels(), UID: o.GetUID(),
			DeletionTimestamp: o.GetDeletionTimestamp()})
	})
	return out
}

// MemberLabels lists the nodes that carry a label of the operator's.
func (a *Administrator) MemberLabels() []string {
	a.T.Helper()
	var list corev1.NodeList
	if err := a.Client().List(a.Ctx, &list); err != nil {
		a.T.Fatal(err)
	}
	var out []string
	for _, n := range list.Items {
		for k := range n.Labels {
			if strings.HasPrefix(k, v1alpha1.Prefix) {
				out = append(out, n.Name+" "+k)
			}
		}
	}
	return out
}

// LetDelete takes the policy away that refuses to delete a cluster with volumes, as a deletion that began just before
// the volume was made would pass it.
func (a *Administrator) LetDelete() {
	a.T.Helper()
	b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "storagecluster-deletion"}}
	if err := client.IgnoreNotFound(a.Client().Delete(a.Ctx, b)); err != nil {
		a.T.Fatal(err)
	}
}

// NoPods is an error while a pod of ours is on a node that is ready.
func (a *Administrator) NoPods() error {
	var pods corev1.PodList
	if err := a.Client().List(a.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if invariants.NodeReady(a.Node(p.Spec.NodeName)) {
			return fmt.Errorf("pod %s is still there", p.Name)
		}
	}
	return nil
}

// WaitReleased waits until the operator has let the StorageCluster go. With a foreground deletion, Kubernetes' own
// finalizer may be left.
func (a *Administrator) WaitReleased() {
	a.T.Helper()
	a.Eventually("the operator lets the StorageCluster go", func() error {
		c := &v1alpha1.StorageCluster{}
		err := a.Client().Get(a.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case slices.Contains(c.Finalizers, v1alpha1.Finalizer):
			return fmt.Errorf("%s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
}

// WaitCollected waits for the garbage collector's part of a foreground deletion. It looks for new kinds of objects
// every 30 seconds only, so the first deletion after the start takes that long.
func (a *Administrator) WaitCollected() {
	a.T.Helper()
	late := machine.After(3 * a.Patience)
	for {
		err := a.Client().Get(a.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, &v1alpha1.StorageCluster{})
		if apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-late:
			a.T.Fatalf("the StorageCluster is not gone: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// forEach calls f for each item of a list.
func forEach(list client.ObjectList, f func(client.Object)) error {
	return meta.EachListItem(list, func(o runtime.Object) error {
		if o, ok := o.(client.Object); ok {
			f(o)
		}
		return nil
	})
}

// PodsOf is an error unless a component has so many pods.
func PodsOf(a *Administrator, component string, want int) error {
	var pods corev1.PodList
	if err := a.Client().List(a.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: component}); err != nil {
		return err
	}
	if n := len(pods.Items); n != want {
		return fmt.Errorf("%s has %d pods, want %d", component, n, want)
	}
	return nil
}

// ControllerStopped is an error unless LINSTOR's controller is away, with its Deployment.
func ControllerStopped(a *Administrator) error {
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ControllerName}
	err := a.Client().Get(a.Ctx, key, &appsv1.Deployment{})
	if err == nil {
		return fmt.Errorf("there is a Deployment of LINSTOR's controller")
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	return PodsOf(a, v1alpha1.ComponentController, 0)
}
