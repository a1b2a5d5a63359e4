package preflight

import (
	"context"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
)

// Seen is what was read of a cluster.
type Seen struct {
	// Host is the API server's address, Server its version.
	Host, Server string
	Nodes        []corev1.Node
	Namespaces   []corev1.Namespace
	Drivers      []storagev1.CSIDriver
	Classes      []storagev1.StorageClass
	Validating   []admissionv1.ValidatingWebhookConfiguration
	Mutating     []admissionv1.MutatingWebhookConfiguration
	// Definitions are the CustomResourceDefinitions.
	Definitions []metav1.PartialObjectMetadata
	// Administrator is true for a user who may do everything. Denied are the rights that an installation takes and
	// another one lacks.
	Administrator bool
	Denied        []string
	// Unread says why something could not be read, by its resource. Nothing is concluded from what is missing there.
	Unread map[string]string
}

// Resources, as RBAC calls them.
const (
	nodes       = "nodes"
	namespaces  = "namespaces"
	drivers     = "csidrivers.storage.k8s.io"
	classes     = "storageclasses.storage.k8s.io"
	validating  = "validatingwebhookconfigurations.admissionregistration.k8s.io"
	mutating    = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
	definitions = "customresourcedefinitions.apiextensions.k8s.io"
	reviews     = "selfsubjectaccessreviews.authorization.k8s.io"
)

// look reads all that is judged. What the user may not read is noted and left out; a server that does not answer at
// all is an error.
func look(ctx context.Context, c *access.Cluster) (*Seen, error) {
	s := &Seen{Host: c.Host, Unread: map[string]string{}}
	var err error
	if s.Server, err = c.Server(ctx); err != nil {
		return nil, c.Explain(err, "get", "/version", "")
	}
	var allNodes corev1.NodeList
	var allNamespaces corev1.NamespaceList
	var allDrivers storagev1.CSIDriverList
	var allClasses storagev1.StorageClassList
	var allValidating admissionv1.ValidatingWebhookConfigurationList
	var allMutating admissionv1.MutatingWebhookConfigurationList
	allDefinitions := metav1.PartialObjectMetadataList{}
	allDefinitions.SetGroupVersionKind(access.CRD.GroupVersion().WithKind(access.CRD.Kind + "List"))
	for _, list := range []struct {
		resource string
		into     client.ObjectList
	}{
		{nodes, &allNodes},
		{namespaces, &allNamespaces},
		{drivers, &allDrivers},
		{classes, &allClasses},
		{validating, &allValidating},
		{mutating, &allMutating},
		{definitions, &allDefinitions},
	} {
		if err := c.List(ctx, list.into); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			s.unread(list.resource, c.Explain(err, "list", list.resource, ""))
		}
	}
	s.Nodes, s.Namespaces, s.Drivers = allNodes.Items, allNamespaces.Items, allDrivers.Items
	s.Classes, s.Validating, s.Mutating = allClasses.Items, allValidating.Items, allMutating.Items
	s.Definitions = allDefinitions.Items
	return s, s.rights(ctx, c)
}

func (s *Seen) unread(resource string, why error) {
	s.Unread[resource], _, _ = strings.Cut(why.Error(), "\n")
}

// needed are rights that nobody but an administrator of the cluster has, and that the manifests take. Each is taken to
// create and to patch: server-side apply is a patch.
var needed = []authorizationv1.ResourceAttributes{
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Resource: "namespaces"},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
}

// rights finds out which of the needed rights the user lacks. Who may do everything lacks none.
func (s *Seen) rights(ctx context.Context, c *access.Cluster) error {
	s.Administrator = true
	all := authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}
	if ok, err := s.allowed(ctx, c, all); ok || err != nil {
		return err
	}
	s.Administrator = false
	for _, verb := range []string{"create", "patch"} {
		for _, right := range needed {
			right.Verb = verb
			ok, err := s.allowed(ctx, c, right)
			if err != nil {
				return err
			}
			if !ok && s.Unread[reviews] == "" {
				s.Denied = append(s.Denied, verb+" "+right.Resource)
			}
		}
	}
	return nil
}

// allowed asks the API server whether the user has a right.
func (s *Seen) allowed(ctx context.Context, c *access.Cluster,
	right authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
	err := c.Create(ctx, review)
	if err != nil && ctx.Err() == nil {
		s.unread(reviews, c.Explain(err, "create", reviews, ""))
		return false, nil
	}
	return review.Status.Allowed, err
}
