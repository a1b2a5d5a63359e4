package deploy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// propertyObject is the name that LINSTOR gives the object with a property of that key (GenCrdCurrent.deriveKey).
func propertyObject(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

// TestRights asks the API server what the ServiceAccounts may do.
func TestRights(t *testing.T) {
	type attributes = authorizationv1.ResourceAttributes
	const work = v1alpha1.WorkloadNamespace
	for _, tc := range []struct {
		who  client.Client
		name string
		attributes
		want bool
	}{
		{operator, "operator", attributes{Verb: "patch", Group: "storage.linstor.dev", Resource: "storageclusters",
			Subresource: "status"}, true},
		{operator, "operator", attributes{Verb: "list", Namespace: work, Resource: "secrets"}, true},
		{operator, "operator", attributes{Verb: "update", Namespace: v1alpha1.OperatorNamespace,
			Group: "coordination.k8s.io", Resource: "leases"}, true},
		{operator, "operator", attributes{Verb: "create", Namespace: "default", Group: "events.k8s.io", Resource: "events"},
			true},
		{operator, "operator", attributes{Verb: "create", Group: "storage.linstor.dev", Resource: "storageclusters"}, false},
		{operator, "operator", attributes{Verb: "delete", Group: "storage.linstor.dev", Resource: "storageclusters"}, false},
		{operator, "operator", attributes{Verb: "get", Namespace: "kube-system", Resource: "secrets"}, false},
		{operator, "operator", attributes{Verb: "get", Namespace: v1alpha1.OperatorNamespace, Resource: "secrets"}, false},
		{operator, "operator", attributes{Verb: "create", Namespace: work, Resource: "serviceaccounts",
			Subresource: "token"}, false},
		{operator, "operator", attributes{Verb: "create", Namespace: work, Resource: "pods", Subresource: "exec"}, false},
		{operator, "operator", attributes{Verb: "create", Namespace: work, Resource: "pods"}, true},
		{operator, "operator", attributes{Verb: "create", Namespace: "default", Resource: "pods"}, false},
		{operator, "operator", attributes{Verb: "create", Namespace: "default", Resource: "persistentvolumeclaims"}, false},
		{operator, "operator", attributes{Verb: "list", Namespace: work, Resource: "events"}, true},
		{operator, "operator", attributes{Verb: "create", Namespace: "default", Group: "apps", Resource: "daemonsets"},
			false},
		{operator, "operator", attributes{Verb: "create", Group: rbacv1.GroupName, Resource: "clusterrolebindings"}, false},
		{operator, "operator", attributes{Verb: "create", Namespace: work, Group: rbacv1.GroupName, Resource: "roles"},
			false},
		{operator, "operator", attributes{Verb: "get", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
			false},
		{operator, "operator", attributes{Verb: "create", Group: "internal.linstor.linbit.com", Resource: "nodes"}, false},
		{operator, "operator", attributes{Verb: "get", Group: "internal.linstor.linbit.com", Resource: "propscontainers",
			Name: propertyObject("/CTRL:Cluster/LocalID")}, true},
		{operator, "operator", attributes{Verb: "get", Group: "internal.linstor.linbit.com", Resource: "propscontainers",
			Name: propertyObject("/CTRL:encrypted/masterkey")}, false},
		{operator, "operator", attributes{Verb: "list", Group: "internal.linstor.linbit.com", Resource: "propscontainers"},
			false},
		{operator, "operator", attributes{Verb: "patch", Group: "storage.k8s.io", Resource: "csidrivers",
			Name: resources.DriverName}, true},
		{operator, "operator", attributes{Verb: "delete", Group: "storage.k8s.io", Resource: "csidrivers",
			Name: "ebs.csi.aws.com"}, false},
		{operator, "operator", attributes{Verb: "patch", Group: "storage.k8s.io", Resource: "csinodes"}, false},
		{operator, "operator", attributes{Verb: "delete", Group: "storage.k8s.io", Resource: "storageclasses"}, true},
		{operator, "operator", attributes{Verb: "update", Group: "storage.k8s.io", Resource: "storageclasses"}, false},
		{operator, "operator", attributes{Verb: "delete", Group: "snapshot.storage.k8s.io",
			Resource: "volumesnapshotclasses"}, true},
		{operator, "operator", attributes{Verb: "delete", Group: "snapshot.storage.k8s.io",
			Resource: "volumesnapshotcontents"}, false},
		{operator, "operator", attributes{Verb: "delete", Namespace: work, Group: "snapshot.storage.k8s.io",
			Resource: "volumesnapshots"}, true},
		{operator, "operator", attributes{Verb: "delete", Namespace: "default", Group: "snapshot.storage.k8s.io",
			Resource: "volumesnapshots"}, false},
		{operator, "operator", attributes{Verb: "delete", Resource: "persistentvolumes"}, false},
		{linstor, "linstor", attributes{Verb: "update", Namespace: work, Group: "coordination.k8s.io", Resource: "leases",
			Name: resources.ControllerLease}, true},
		{linstor, "linstor", attributes{Verb: "deletecollection", Group: "internal.linstor.linbit.com",
			Resource: "propscontainers"}, true},
		{linstor, "linstor", attributes{Verb: "update", Namespace: work, Group: "coordination.k8s.io", Resource: "leases",
			Name: "other"}, false},
		{linstor, "linstor", attributes{Verb: "list", Namespace: work, Resource: "secrets"}, false},
		{linstor, "linstor", attributes{Verb: "get", Namespace: "kube-system", Resource: "secrets"}, false},
		{linstor, "linstor", attributes{Verb: "patch", Resource: "nodes"}, false},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &tc.attributes}}
		if err := tc.who.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != tc.want {
			t.Errorf("%s may %+v: %t, want %t", tc.name, tc.attributes, review.Status.Allowed, tc.want)
		}
	}
}

// TestOperatorIsAdmitted checks that its pods fit the level restricted of their namespace.
func TestOperatorIsAdmitted(t *testing.T) {
	err := poll(t.Context(), func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := admin.Get(ctx, client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: operatorName},
			d); err != nil {
			return err
		}
		if d.Status.AvailableReplicas != 2 {
			return fmt.Errorf("status is %+v", d.Status)
		}
		return countsCriticalPods(ctx, 2)
	})
	if err != nil {
		t.Error(err)
	}
}

// countsCriticalPods passes when the quota, which exists so that these pods are admitted everywhere, speaks of them.
func countsCriticalPods(ctx context.Context, want int64) error {
	q := &corev1.ResourceQuota{}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: "critical-pods"},
		q); err != nil {
		return err
	}
	if q.Status.Used.Pods().Value() != want {
		return fmt.Errorf("the quota counts %v", q.Status.Used)
	}
	return nil
}

// TestRolesForPeople checks what comes of the aggregation labels.
func TestRolesForPeople(t *testing.T) {
	verbs := func(ctx context.Context, role string) ([]string, error) {
		r := &rbacv1.ClusterRole{}
		if err := admin.Get(ctx, client.ObjectKey{Name: role}, r); err != nil {
			return nil, err
		}
		var out []string
		for _, rule := range r.Rules {
			if slices.Contains(rule.APIGroups, v1alpha1.GroupVersion.Group) {
				out = append(out, rule.Verbs...)
			}
		}
		slices.Sort(out)
		return slices.Compact(out), nil
	}
	for _, role := range []string{"view", "edit", "admin"} {
		err := poll(t.Context(), func(ctx context.Context) error {
			got, err := verbs(ctx, role)
			if err == nil && !slices.Equal(got, []string{"get", "list", "watch"}) {
				err = fmt.Errorf("role %s has %v on StorageClusters", role, got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
