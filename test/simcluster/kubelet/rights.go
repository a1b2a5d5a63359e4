package kubelet

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// databaseRights are what LINSTOR does with its database in Kubernetes objects: it creates its
// CustomResourceDefinitions when it migrates, and deletes some (1.35), and reads and writes their instances. A restore
// for a LINSTOR of before deletes all of them.
var databaseRights = []authorizationv1.ResourceAttributes{
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Verb: "list"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Verb: "create"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Verb: "update"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Verb: "delete"},
	{Group: "internal.linstor.linbit.com", Resource: "nodes", Verb: "list"},
	{Group: "internal.linstor.linbit.com", Resource: "nodes", Verb: "create"},
	{Group: "internal.linstor.linbit.com", Resource: "nodes", Verb: "update"},
	{Group: "internal.linstor.linbit.com", Resource: "nodes", Verb: "delete"},
}

// checkDatabaseRights fails as LINSTOR would when the pod's ServiceAccount may not use the Kubernetes database.
func (d *Driver) checkDatabaseRights(ctx context.Context, pod *corev1.Pod) error {
	for _, right := range databaseRights {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: serviceAccountUser(pod), Groups: serviceAccountGroups(pod), ResourceAttributes: &right,
		}}
		answer, err := d.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask for the rights of %s: %w", review.Spec.User, err)
		}
		if !answer.Status.Allowed {
			return fmt.Errorf("%s.%s is forbidden: User %q cannot %s resource %q in API group %q at the cluster scope",
				right.Resource, right.Group, review.Spec.User, right.Verb, right.Resource, right.Group)
		}
	}
	return nil
}
