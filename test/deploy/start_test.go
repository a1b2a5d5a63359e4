package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestStart brings up a LINSTOR cluster of the builders' objects alone, with the operator's rights: module, controller
// and satellites must get ready on the nodes that carry the labels, and nowhere else.
func TestStart(t *testing.T) {
	for name, spec := range map[string]v1alpha1.StorageClusterSpec{
		"default":             {},
		"pod network and sql": specs()["pod network, sql"],
	} {
		t.Run(name, func(t *testing.T) { startCluster(t, spec) })
	}
}

func startCluster(t *testing.T, spec v1alpha1.StorageClusterSpec) {
	ctx := t.Context()
	kept := context.WithoutCancel(ctx)
	secrets := []client.Object{
		secret("passphrase", map[string]string{"MASTER_PASSPHRASE": "example"}),
		secret("db", map[string]string{"username": "linstor", "password": "example"}),
	}
	for _, s := range secrets {
		if err := admin.Create(ctx, s); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(kept, s) })
	}
	loader := catalogue.Embedded().LoaderFor("Ubuntu 24.04.2 LTS")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	label(t, node, fmt.Sprintf(`{%q:%q,%q:%q}`, v1alpha1.LabelMember, v1alpha1.ClusterName, v1alpha1.LabelOS, loader.Key))
	t.Cleanup(func() {
		for _, o := range objects(t, spec) {
			if err := operator.Delete(kept, o); err != nil {
				t.Errorf("delete %s: %v", o.GetName(), err)
			}
		}
		// The next cluster must not meet pods of this one.
		if err := poll(kept, noPods); err != nil {
			t.Error(err)
		}
	})
	for _, o := range objects(t, spec) {
		applied(t, o)
	}

	for _, daemonSet := range []string{resources.ModuleLoaderName(loader.Key), resources.SatelliteName} {
		if err := poll(ctx, func(ctx context.Context) error { return readyOnOneNode(ctx, daemonSet) }); err != nil {
			t.Errorf("DaemonSet %s: %v", daemonSet, err)
		}
	}
	if err := poll(ctx, controllerAnswers); err != nil {
		t.Error(err)
	}
	lease := &coordinationv1.Lease{}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ControllerLease},
		lease); err != nil {
		t.Errorf("the controller does not hold its Lease: %v", err)
	}
	if v := cluster.World().Violations(); len(v) != 0 {
		t.Errorf("LINSTOR was misused: %v", v)
	}
	label(t, node, fmt.Sprintf(`{%q:null,%q:null}`, v1alpha1.LabelMember, v1alpha1.LabelOS))
}

func secret(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.WorkloadNamespace},
		StringData: data}
}

func label(t *testing.T, node *corev1.Node, labels string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":`+labels+`}}`))
	if err := operator.Patch(t.Context(), node.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
}

func noPods(ctx context.Context) error {
	var pods corev1.PodList
	if err := admin.List(ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		return err
	}
	if len(pods.Items) != 0 {
		return fmt.Errorf("%d pods are left", len(pods.Items))
	}
	return nil
}

func readyOnOneNode(ctx context.Context, name string) error {
	d := &appsv1.DaemonSet{}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: name}, d); err != nil {
		return err
	}
	if d.Status.DesiredNumberScheduled == 1 && d.Status.NumberReady == 1 {
		return nil
	}
	var pods corev1.PodList
	if err := admin.List(ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
		return err
	}
	var why []string
	for i := range pods.Items {
		status, err := json.Marshal(pods.Items[i].Status)
		if err != nil {
			return err
		}
		why = append(why, string(status))
	}
	return fmt.Errorf("%d of %d pods are ready: %s", d.Status.NumberReady, d.Status.DesiredNumberScheduled, why)
}

// controllerAnswers passes when the Deployment is available and LINSTOR says that it is of the catalogue's newest
// version.
func controllerAnswers(ctx context.Context) error {
	d := &appsv1.Deployment{}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ControllerName},
		d); err != nil {
		return err
	}
	if d.Status.AvailableReplicas != 1 {
		return fmt.Errorf("the controller's status is %+v", d.Status)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cluster.LinstorURL()+"/v1/controller/version", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var got struct{ Version string }
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		return err
	}
	if got.Version != catalogue.Embedded().Newest() {
		return fmt.Errorf("LINSTOR is of version %q", got.Version)
	}
	return nil
}
