package preflight

import (
	"context"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
	// Denied are the rights that an installation takes and the user lacks.
	Denied []string
	// Unread says what could not be read, and why.
	Unread []string
}

// look reads all that is judged. What the user may not read is noted and left out; a server that does not answer at
// all is an error.
func look(ctx context.Context, c *access.Cluster) (*Seen, error) {
	s := &Seen{Host: c.Host}
	var err error
	if s.Server, err = c.Server(ctx); err != nil {
		return nil, c.Explain(err, "get", "/version", "")
	}
	var nodes corev1.NodeList
	var namespaces corev1.NamespaceList
	var drivers storagev1.CSIDriverList
	var classes storagev1.StorageClassList
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	definitions := metav1.PartialObjectMetadataList{}
	definitions.SetGroupVersionKind(access.CRD.GroupVersion().WithKind(access.CRD.Kind + "List"))
	for _, list := range []struct {
		resource string
		into     client.ObjectList
	}{
		{"nodes", &nodes},
		{"namespaces", &namespaces},
		{"csidrivers.storage.k8s.io", &drivers},
		{"storageclasses.storage.k8s.io", &classes},
		{"validatingwebhookconfigurations.admissionregistration.k8s.io", &validating},
		{"mutatingwebhookconfigurations.admissionregistration.k8s.io", &mutating},
		{"customresourcedefinitions.apiextensions.k8s.io", &definitions},
	} {
		if err := c.List(ctx, list.into); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			text, _, _ := strings.Cut(c.Explain(err, "list", list.resource, "").Error(), "\n")
			s.Unread = append(s.Unread, text)
		}
	}
	s.Nodes, s.Namespaces, s.Drivers, s.Classes = nodes.Items, namespaces.Items, drivers.Items, classes.Items
	s.Validating, s.Mutating, s.Definitions = validating.Items, mutating.Items, definitions.Items
	return s, s.rights(ctx, c)
}

// needed are rights that nobody but an administrator of the cluster has, and that the manifests take.
var needed = []authorizationv1.ResourceAttributes{
	{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Verb: "create", Resource: "namespaces"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
	{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
}

// rights finds out which of the needed rights the user lacks.
func (s *Seen) rights(ctx context.Context, c *access.Cluster) error {
	for i := range needed {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &needed[i]}}
		if err := c.Create(ctx, review); err != nil {
			if meta.IsNoMatchError(err) || ctx.Err() != nil {
				return c.Explain(err, "create", "selfsubjectaccessreviews.authorization.k8s.io", "")
			}
			s.Unread = append(s.Unread, "your rights: "+err.Error())
			return nil
		}
		if !review.Status.Allowed {
			s.Denied = append(s.Denied, needed[i].Verb+" "+needed[i].Resource)
		}
	}
	return nil
}
