package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

const definitionName = "storageclusters.storage.linstor.dev"

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func definition(name string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// storageCluster makes a StorageCluster whose status says that there are volumes, and takes it away with the test.
func storageCluster(t *testing.T, spec v1alpha1.StorageClusterSpec, volumes *int32) *v1alpha1.StorageCluster {
	t.Helper()
	sc := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName}, Spec: spec}
	if err := admin.Create(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	setVolumes(t, sc, volumes)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		setVolumes(t, sc, nil)
		if err := client.IgnoreNotFound(admin.Delete(ctx, sc)); err != nil {
			t.Error(err)
		}
	})
	return sc
}

func setVolumes(t *testing.T, sc *v1alpha1.StorageCluster, volumes *int32) {
	t.Helper()
	var status any
	if volumes != nil {
		status = volumespec.VolumesStatus{Total: *volumes}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumes": status}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	if err := client.IgnoreNotFound(operator.Status().Patch(ctx, sc,
		client.RawPatch(types.MergePatchType, patch))); err != nil {
		t.Fatal(err)
	}
}

func TestProtection(t *testing.T) {
	two, none := int32(2), int32(0)
	sql := &v1alpha1.SQLDatabase{Host: "db.example.com", CredentialsSecret: "our-db"}
	for _, tc := range []struct {
		name    string
		object  client.Object
		spec    v1alpha1.StorageClusterSpec
		volumes *int32
		want    []string // parts of the refusal; none if it is allowed
	}{
		{"definition", definition(definitionName), v1alpha1.StorageClusterSpec{}, &two,
			[]string{"still has 2 volumes", "also deletes the StorageCluster",
				"kubectl annotate crd " + definitionName + " storage.linstor.dev/allow-deletion=true"}},
		{"the operator's namespace", namespace(v1alpha1.OperatorNamespace), v1alpha1.StorageClusterSpec{}, &two,
			[]string{"also deletes the operator", "kubectl annotate namespace linstor-operator "}},
		{"LINSTOR's namespace", namespace(v1alpha1.WorkloadNamespace), v1alpha1.StorageClusterSpec{}, &two,
			[]string{"ConfigMap linstor-claim", "all other Secrets", "Delete the volumes first",
				"kubectl annotate namespace linstor-storage "}},
		{"LINSTOR's namespace with Secrets", namespace(v1alpha1.WorkloadNamespace), v1alpha1.StorageClusterSpec{
			Controller: v1alpha1.ControllerSpec{PassphraseSecret: "our-passphrase"},
			Database:   v1alpha1.DatabaseSpec{PostgreSQL: sql},
		}, &two, []string{"Secret our-passphrase with the passphrase", "Secret our-db with the database credentials",
			"linstor-claim"}},
		{"MariaDB's Secret", namespace(v1alpha1.WorkloadNamespace), v1alpha1.StorageClusterSpec{
			Database: v1alpha1.DatabaseSpec{MariaDB: sql}}, &two,
			[]string{"Secret our-db with the database credentials"}},
		{"etcd's Secret", namespace(v1alpha1.WorkloadNamespace),
			v1alpha1.StorageClusterSpec{Version: "1.33.3", Database: v1alpha1.DatabaseSpec{
				Etcd: &v1alpha1.EtcdDatabase{Endpoints: []v1alpha1.EndpointURL{"http://etcd.example.com:2379"},
					CredentialsSecret: "our-etcd"}},
			}, &two, []string{"Secret our-etcd with the database credentials"}},
		{"the notes about etcd", namespace(v1alpha1.WorkloadNamespace),
			v1alpha1.StorageClusterSpec{Version: "1.33.3", Database: v1alpha1.DatabaseSpec{
				ManagedEtcd: &etcdspec.ManagedEtcd{Replicas: 3}},
			}, &two, []string{"ConfigMaps linstor-etcd and linstor-etcd-notes", "copy these ConfigMaps first"}},
		{"definition without volumes", definition(definitionName), v1alpha1.StorageClusterSpec{}, &none, nil},
		{"definition before the first look", definition(definitionName), v1alpha1.StorageClusterSpec{}, nil, nil},
		{"namespace without volumes", namespace(v1alpha1.WorkloadNamespace), v1alpha1.StorageClusterSpec{}, &none, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			storageCluster(t, tc.spec, tc.volumes)
			if err := poll(t.Context(), func(ctx context.Context) error {
				return says(admin.Delete(ctx, tc.object, client.DryRunAll), tc.want)
			}); err != nil {
				t.Error(err)
			}
			if tc.want == nil {
				return
			}
			allow(t, tc.object, `"false"`)
			if err := admin.Delete(t.Context(), tc.object, client.DryRunAll); !refused(err) {
				t.Errorf("allowed by an annotation that does not say true: %v", err)
			}
			allow(t, tc.object, `"true"`)
			if err := admin.Delete(t.Context(), tc.object, client.DryRunAll); err != nil {
				t.Errorf("refused in spite of the annotation: %v", err)
			}
			allow(t, tc.object, "null")
		})
	}
}

// says is nil if the answer is a policy's refusal with these parts, or, where there are none, if nothing was refused.
func says(answer error, parts []string) error {
	if len(parts) == 0 {
		return answer
	}
	if !refused(answer) {
		return fmt.Errorf("not refused by a policy: %w", answer)
	}
	for _, part := range parts {
		if !strings.Contains(answer.Error(), part) {
			return fmt.Errorf("the refusal lacks %q: %w", part, answer)
		}
	}
	return nil
}

func allow(t *testing.T, o client.Object, value string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"storage.linstor.dev/allow-deletion":`+value+`}}}`))
	if err := admin.Patch(t.Context(), o.DeepCopyObject().(client.Object), patch); err != nil {
		t.Fatal(err)
	}
}

// TestOtherDeletionsEnd deletes what the policies are not about, while there are volumes: nothing may hold up the
// controllers that finish these deletions.
func TestOtherDeletionsEnd(t *testing.T) {
	two := int32(2)
	storageCluster(t, v1alpha1.StorageClusterSpec{}, &two)
	for _, o := range []client.Object{namespace("somebody-elses"), definitionOf("others", "example.com")} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(t.Context(), o); err != nil {
			t.Error(err)
		}
		if err := poll(t.Context(), func(ctx context.Context) error { return gone(ctx, admin, o) }); err != nil {
			t.Error(err)
		}
	}
}

func gone(ctx context.Context, c client.Client, o client.Object) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)); !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is still there: %w", o.GetName(), err)
	}
	return nil
}

// createWithVolumes makes a StorageCluster whose status counts three volumes.
func createWithVolumes(ctx context.Context, c client.Client) error {
	sc := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterName}}
	if err := c.Create(ctx, sc); err != nil {
		return err
	}
	volumes := client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"volumes":{"total":3,"healthy":3,"degraded":0,"unavailable":0,"resyncing":0}}}`))
	return c.Status().Patch(ctx, sc, volumes)
}

// stay wants objects that nobody has begun to delete.
func stay(ctx context.Context, c client.Client, objects []client.Object) error {
	for _, o := range objects {
		live := o.DeepCopyObject().(client.Object)
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil || live.GetDeletionTimestamp() != nil {
			return fmt.Errorf("%s is deleted: %v", o.GetName(), err) //nolint:errorlint // nil while it is only being deleted
		}
	}
	return nil
}

// allowDeletion annotates objects as an administrator who means it.
func allowDeletion(ctx context.Context, c client.Client, objects []client.Object) error {
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"storage.linstor.dev/allow-deletion":"true"}}}`))
	for _, o := range objects {
		if err := c.Patch(ctx, o.DeepCopyObject().(client.Object), patch); err != nil {
			return err
		}
	}
	return nil
}

// TestDeleteManifests does what an administrator may do in haste: kubectl delete of both manifests, twice, while there
// are volumes. What was lost with them comes back when the manifests are applied again; with the annotation all goes.
func TestDeleteManifests(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := simcluster.Start(ctx, simcluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	install := func() {
		t.Helper()
		if err := c.ApplyFile(ctx, "../../deploy/crds", "../../deploy/operator.yaml",
			"../../deploy/protection.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	install()
	own, err := client.New(c.AdminConfig(), client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := createWithVolumes(ctx, own); err != nil {
		t.Fatal(err)
	}
	protected := []client.Object{namespace(v1alpha1.OperatorNamespace), namespace(v1alpha1.WorkloadNamespace),
		definition(definitionName)}
	for _, o := range protected {
		if err := poll(ctx,
			func(ctx context.Context) error { return acts("protection", own.Delete(ctx, o, client.DryRunAll)) }); err != nil {
			t.Fatal(err)
		}
	}
	manifests := []string{"delete", "--wait=false", "-f", "../../deploy/operator.yaml", "-f", "../../deploy/crds"}
	for _, time := range []string{"first", "second"} {
		out, err := c.Kubectl(ctx, manifests...)
		if err == nil || strings.Count(out+err.Error(), "still has 3 volumes") != len(protected) {
			t.Errorf("the %s kubectl delete: %v\n%s", time, err, out)
		}
		if err := stay(ctx, own, protected); err != nil {
			t.Fatalf("after the %s kubectl delete %v", time, err)
		}
	}
	install()
	if err := allowDeletion(ctx, own, protected); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Kubectl(ctx, append(manifests, "-f", "../../deploy/protection.yaml")...); err != nil {
		t.Errorf("refused in spite of the annotations: %v\n%s", err, out)
	}
	for _, o := range protected {
		if err := poll(ctx, func(ctx context.Context) error { return gone(ctx, own, o) }); err != nil {
			t.Error(err)
		}
	}
}
