package deploy

import (
	"context"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
)

// refused reports whether an admission policy, not RBAC, said no.
func refused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

func forbidden(err error) bool { return apierrors.IsForbidden(err) && !refused(err) }

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.WorkloadNamespace,
		Labels: labels}}
}

func definitionOf(plural, group string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.TrimSuffix(plural, "s"),
				Kind: "Probe"},
			Scope: apiextensionsv1.ClusterScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// TestExpressionsHaveTypes checks what the API server says about the policies' expressions.
func TestExpressionsHaveTypes(t *testing.T) {
	var policies admissionv1.ValidatingAdmissionPolicyList
	if err := admin.List(t.Context(), &policies); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for i := range policies.Items {
		p := &policies.Items[i]
		if !strings.HasPrefix(p.Name, "storagecluster-") && !strings.HasPrefix(p.Name, "linstor-") {
			continue
		}
		checked++
		if err := poll(t.Context(), func(ctx context.Context) error {
			return admin.Get(ctx, client.ObjectKeyFromObject(p), p)
		}); err != nil {
			t.Fatal(err)
		}
		if p.Status.TypeChecking == nil {
			t.Errorf("policy %s was not checked", p.Name)
			continue
		}
		for _, w := range p.Status.TypeChecking.ExpressionWarnings {
			t.Errorf("policy %s, %s: %s", p.Name, w.FieldRef, w.Warning)
		}
	}
	if checked != 8 {
		t.Errorf("%d policies", checked)
	}
}

func TestOperatorOnNodes(t *testing.T) {
	const ours, theirs = "storage.linstor.dev/probe", "example.com/probe"
	for _, tc := range []struct {
		name   string
		change func(n *corev1.Node)
		want   string // the refusal; "" if allowed
	}{
		{"add our label", func(n *corev1.Node) { n.Labels[ours] = "x" }, ""},
		{"change our label", func(n *corev1.Node) { n.Labels[ours] = "y" }, ""},
		{"remove our label", func(n *corev1.Node) { delete(n.Labels, ours) }, ""},
		{"add our annotation", func(n *corev1.Node) { n.Annotations = map[string]string{ours: "x", theirs: "theirs"} }, ""},
		{"remove our annotation", func(n *corev1.Node) { delete(n.Annotations, ours) }, ""},
		{"add a label", func(n *corev1.Node) { n.Labels["example.com/other"] = "x" }, "labels"},
		{"add a label that looks like ours", func(n *corev1.Node) { n.Labels["storage.linstor.dev.example.com/x"] = "x" },
			"labels"},
		{"change a label", func(n *corev1.Node) { n.Labels[theirs] = "changed" }, "labels"},
		{"remove a label", func(n *corev1.Node) { delete(n.Labels, theirs) }, "labels"},
		{"remove all labels", func(n *corev1.Node) { n.Labels = nil }, "labels"},
		{"add an annotation", func(n *corev1.Node) { n.Annotations["example.com/other"] = "x" }, "annotations"},
		{"change an annotation", func(n *corev1.Node) { n.Annotations[theirs] = "changed" }, "annotations"},
		{"remove an annotation", func(n *corev1.Node) { delete(n.Annotations, theirs) }, "annotations"},
		{"cordon", func(n *corev1.Node) { n.Spec.Unschedulable = true }, "spec"},
		{"taint", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute})
		}, "spec"},
		{"finalizer", func(n *corev1.Node) { n.Finalizers = append(n.Finalizers, "example.com/x") }, "finalizers"},
		{"owner", func(n *corev1.Node) {
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "default", UID: "x"}}
		}, "owner"},
		{"our label and a taint", func(n *corev1.Node) {
			n.Labels[ours] = "z"
			n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoSchedule"}}
		}, "spec"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{}
			if err := admin.Get(t.Context(), client.ObjectKey{Name: "n1"}, node); err != nil {
				t.Fatal(err)
			}
			if node.Labels[theirs] == "" || node.Annotations[theirs] == "" {
				before := node.DeepCopy()
				node.Labels[theirs] = "theirs"
				node.Annotations = map[string]string{theirs: "theirs", ours: "x"}
				node.Labels[ours] = "x"
				if err := admin.Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
					t.Fatal(err)
				}
			}
			before := node.DeepCopy()
			tc.change(node)
			err := operator.Patch(t.Context(), node, client.MergeFrom(before))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (!refused(err) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error is %v, want a refusal that names %q", err, tc.want)
			}
		})
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	if err := operator.Delete(t.Context(), node); !forbidden(err) {
		t.Errorf("deleting a Node: %v", err)
	}
	if err := operator.Status().Patch(t.Context(), node,
		client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"x"}}`))); !forbidden(err) {
		t.Errorf("changing a Node's status: %v", err)
	}
}

func TestOperatorOnObjects(t *testing.T) {
	ctx := t.Context()
	ours := map[string]string{v1alpha1.LabelCluster: v1alpha1.ClusterName}
	theirs := configMap("theirs", map[string]string{"app": "x"})
	if err := admin.Create(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(ctx), theirs) })

	if err := operator.Create(ctx, configMap("unlabelled", nil)); !refused(err) {
		t.Errorf("creating without the label: %v", err)
	}
	before := theirs.DeepCopy()
	theirs.Data = map[string]string{"x": "y"}
	if err := operator.Patch(ctx, theirs, client.MergeFrom(before)); !refused(err) ||
		!strings.Contains(err.Error(), "does not own configmaps/theirs") {
		t.Errorf("changing what is not ours: %v", err)
	}
	theirs.Labels = map[string]string{v1alpha1.LabelCluster: v1alpha1.ClusterName}
	if err := operator.Patch(ctx, theirs, client.MergeFrom(before)); !refused(err) {
		t.Errorf("labelling what is not ours: %v", err)
	}
	if err := operator.Delete(ctx, theirs); !refused(err) || !strings.Contains(err.Error(), "hand it over") {
		t.Errorf("deleting what is not ours: %v", err)
	}
	mine := configMap("mine", ours)
	if err := operator.Create(ctx, mine); err != nil {
		t.Fatal(err)
	}
	before = mine.DeepCopy()
	mine.Labels = nil
	if err := operator.Patch(ctx, mine, client.MergeFrom(before)); !refused(err) {
		t.Errorf("taking the label off: %v", err)
	}
	if err := operator.Delete(ctx, before); err != nil {
		t.Errorf("deleting what is ours: %v", err)
	}
	for _, account := range []string{"default", ""} {
		if err := operator.Create(ctx, workload(account), client.DryRunAll); !refused(err) {
			t.Errorf("pods as ServiceAccount %q: %v", account, err)
		}
	}
}

func TestOperatorOnDrivers(t *testing.T) {
	ctx := t.Context()
	for _, other := range []client.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: resources.DriverName}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, Provisioner: resources.DriverName},
		&snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Driver: resources.DriverName,
			DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete},
		&snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "mine"},
			Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{
				PersistentVolumeClaimName: ptr.To("mine")}}},
	} {
		if err := admin.Create(ctx, other); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(ctx), other) })
		if err := operator.Delete(ctx, other); !refused(err) || !strings.Contains(err.Error(), "hand it over") {
			t.Errorf("deleting somebody else's %T: %v", other, err)
		}
	}
}

// canaryPod is a pod as the operator makes it to try a volume.
func canaryPod(t *testing.T, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	release, _ := catalogue.Embedded().Release(catalogue.Embedded().Newest())
	p := controlledByNobody(canary.Pod(resources.Params{Cluster: v1alpha1.ClusterName,
		Spec: &v1alpha1.StorageClusterSpec{}, Release: release}, &v1alpha1.StorageCluster{}, "fast"))
	change(p)
	return p
}

// TestOperatorOnPods: the operator makes no pods but those that try volumes, guard nodes, or take, compare and restore
// backups, and deletes only its own.
func TestOperatorOnPods(t *testing.T) {
	ctx := t.Context()
	token := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string // the refusal; "" if allowed
	}{
		{"as it is built", func(*corev1.Pod) {}, ""},
		{"without a label", func(p *corev1.Pod) { p.Labels = nil },
			"drain-guard, backup, backup-comparison or database-restore"},
		{"a satellite", func(p *corev1.Pod) { p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentSatellite },
			"drain-guard, backup, backup-comparison or database-restore"},
		{"a drain guard", func(p *corev1.Pod) { p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentDrainGuard }, ""},
		{"a backup", func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentBackup
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s3"}}
		}, ""},
		{"a backup with a disk of the host", func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentBackup
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}, "unprivileged pods"},
		{"a backup that is restored first", func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentBackup
			p.Spec.InitContainers = []corev1.Container{*p.Spec.Containers[0].DeepCopy()}
			p.Spec.InitContainers[0].Name = "restore-test"
		}, ""},
		{"a backup that gains privileges first", func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentBackup
			p.Spec.InitContainers = []corev1.Container{{Name: "a", Image: "a"}}
		}, "unprivileged pods"},
		{"a restore", func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentRestore
			p.Spec.ServiceAccountName = resources.ControllerName
			p.Spec.Volumes[0].VolumeSource = token
		}, ""},
		{"a restore with a disk of the host", func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentRestore
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}, "unprivileged pods"},
		{"a restore with the token in all containers", func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentRestore
			p.Spec.ServiceAccountName, p.Spec.AutomountServiceAccountToken = resources.ControllerName, nil
		}, "automountServiceAccountToken set to false"},
		{"a backup as the controller", func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentBackup
			p.Spec.ServiceAccountName = resources.ControllerName
		}, "ServiceAccount linstor-canary"},
		{"a backup with a token", func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelComponent] = v1alpha1.ComponentBackup
			p.Spec.Volumes[0].VolumeSource = token
		}, "unprivileged pods"},
		{"a canary with a container before it", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{*p.Spec.Containers[0].DeepCopy()}
			p.Spec.InitContainers[0].Name = "a"
		}, "unprivileged pods"},
		{"a canary with a Secret", func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s3"}}
		}, "unprivileged pods"},
		{"as the controller", func(p *corev1.Pod) { p.Spec.ServiceAccountName = resources.ControllerName },
			"ServiceAccount linstor-canary"},
		{"with a token", func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil },
			"automountServiceAccountToken set to false"},
		{"with a disk of the host", func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}, "unprivileged pods"},
		{"on the host's network", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "unprivileged pods"},
		{"that may gain privileges", func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = nil },
			"unprivileged pods"},
	} {
		err := operator.Create(ctx, canaryPod(t, tc.change), client.DryRunAll)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: refused: %v", tc.name, err)
		case tc.want != "" && (!refused(err) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: error is %v, want a refusal that names %q", tc.name, err, tc.want)
		}
	}
	theirs := canaryPod(t, func(p *corev1.Pod) { p.Labels = nil })
	if err := admin.Create(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(ctx), theirs) })
	if err := operator.Delete(ctx, theirs); !refused(err) {
		t.Errorf("deleting somebody else's pod: %v", err)
	}
}

// TestACanaryIsRestricted: the namespace of the operator itself, which asks for the level restricted, would admit it.
func TestACanaryIsRestricted(t *testing.T) {
	p := canaryPod(t, func(p *corev1.Pod) {
		p.Namespace, p.Spec.ServiceAccountName = v1alpha1.OperatorNamespace, operatorName
	})
	if err := admin.Create(t.Context(), p, client.DryRunAll); err != nil {
		t.Error(err)
	}
}

func TestDeletionWithVolumes(t *testing.T) {
	ctx := t.Context()
	for _, tc := range []struct {
		name    string
		volumes *int32
		refused string
	}{
		{"not looked yet", nil, ""}, {"none", ptr.To(int32(0)), ""},
		{"one", ptr.To(int32(1)), "still has 1 volume:"}, {"two", ptr.To(int32(2)), "still has 2 volumes:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sc := storageCluster(t, v1alpha1.StorageClusterSpec{}, tc.volumes)
			if tc.refused == "" {
				if err := admin.Delete(ctx, sc); err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err := says(admin.Delete(ctx, sc), []string{tc.refused, "spec.suspend"}); err != nil {
				t.Error(err)
			}
			if err := admin.DeleteAllOf(ctx, &v1alpha1.StorageCluster{}); !refused(err) {
				t.Errorf("deleting all: %v", err)
			}
			setVolumes(t, sc, nil)
			if err := admin.Delete(ctx, sc); err != nil {
				t.Errorf("refused without volumes: %v", err)
			}
		})
	}
}

func TestLinstorOnDefinitions(t *testing.T) {
	ctx := t.Context()
	own := definitionOf("probes", "internal.linstor.linbit.com")
	if err := linstor.Create(ctx, own); err != nil {
		t.Fatal(err)
	}
	before := own.DeepCopy()
	own.Labels = map[string]string{"x": "y"}
	if err := linstor.Patch(ctx, own, client.MergeFrom(before)); err != nil {
		t.Errorf("changing its own: %v", err)
	}
	if err := linstor.Delete(ctx, own); err != nil {
		t.Errorf("deleting its own: %v", err)
	}
	if err := linstor.Create(ctx, definitionOf("probes", "example.com")); !refused(err) {
		t.Errorf("creating another group's: %v", err)
	}
	ours := &apiextensionsv1.CustomResourceDefinition{}
	if err := linstor.Get(ctx, client.ObjectKey{Name: "storageclusters." + v1alpha1.GroupVersion.Group},
		ours); err != nil {
		t.Fatal(err)
	}
	before = ours.DeepCopy()
	ours.Labels = map[string]string{"x": "y"}
	if err := linstor.Patch(ctx, ours, client.MergeFrom(before)); !refused(err) {
		t.Errorf("changing another group's: %v", err)
	}
	if err := linstor.Delete(ctx, before); !refused(err) {
		t.Errorf("deleting another group's: %v", err)
	}
}
