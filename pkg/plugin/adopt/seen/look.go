// Package seen reads what there is of Piraeus 2, in Kubernetes and in LINSTOR, and judges nothing. It asks for no
// value of a Secret.
package seen

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
)

// Seen is what was read.
type Seen struct {
	// Host is the API server's address, Namespace that of Piraeus.
	Host, Namespace string
	// Deployments and DaemonSets are those of the namespace.
	Deployments    []appsv1.Deployment
	DaemonSets     []appsv1.DaemonSet
	Clusters       []LinstorCluster
	Satellites     []Satellite
	Configurations []SatelliteConfiguration
	Connections    []NodeConnection
	// Webhooks are the configurations of those that judge Piraeus' objects.
	Webhooks []string
	Nodes    []corev1.Node
	// Volumes and Classes are those of LINSTOR's driver, Driver whether it is there.
	Volumes []corev1.PersistentVolume
	Classes []string
	Driver  bool
	// Lease is that of LINSTOR's controller; nil if there is none.
	Lease *coordinationv1.Lease
	// Secrets are those that Piraeus' objects name, and whether each is there. Their values are never asked for.
	Secrets map[string]bool
	// Backups are the Secrets that LINSTOR's image has kept its database in.
	Backups []metav1.PartialObjectMetadata
	DB      Database
	Linstor State
	// Ours reports whether there is a StorageCluster already.
	Ours bool
	// Unread says why something could not be read, by what it is. Nothing is concluded from what is missing there.
	Unread map[string]string

	definitions []metav1.PartialObjectMetadata
}

// Names that Piraeus gives.
const (
	// DriverName is that of LINSTOR's CSI driver.
	DriverName = "linstor.csi.linbit.com"
	// ControllerName is that of the Deployment, the Service and the Lease of LINSTOR's controller.
	ControllerName = "linstor-controller"
	// SatellitePrefix is what the name of a satellite's DaemonSet begins with.
	SatellitePrefix = "linstor-satellite."
	// BackupType is the type of Secrets with backups.
	BackupType = "piraeus.io/linstor-backup"
)

const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// unreadable notes what could not be read. An error means that there is no use in going on.
func (s *Seen) unreadable(ctx context.Context, c *access.Cluster, err error, resource, name string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.Unread[resource], _, _ = strings.Cut(c.Explain(err, "list", resource, name).Error(), "\n")
	return nil
}

// Look reads what Kubernetes has. Where it is found out that there is no Piraeus 2, that is an error.
func Look(ctx context.Context, c *access.Cluster, namespace string) (*Seen, error) {
	s := &Seen{Host: c.Host, Secrets: map[string]bool{}, Unread: map[string]string{}}
	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(access.CRD.GroupVersion().WithKind(access.CRD.Kind + "List"))
	if err := c.List(ctx, &list); err != nil {
		return nil, c.Explain(err, "list", definitions, "") // without them nobody knows what there is
	}
	s.definitions = list.Items
	if !s.defined("linstorclusters.piraeus.io") {
		if s.defined("linstorcontrollers.piraeus.linbit.com") {
			return nil, fmt.Errorf("the cluster at %s runs Piraeus 1, but only Piraeus 2 can be adopted; first upgrade as "+
				"described in the Piraeus documentation", c.Host)
		}
		return nil, fmt.Errorf("no Piraeus 2 installation was found in the cluster at %s: the CRD "+
			"linstorclusters.piraeus.io does not exist; specify a different cluster with --context", c.Host)
	}
	if err := s.findNamespace(ctx, c, namespace); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, *access.Cluster) error{s.lookAtPiraeus, s.lookAtKubernetes,
		s.lookAtSecrets, s.lookAtDatabase} {
		if err := step(ctx, c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Seen) defined(name string) bool {
	return slices.ContainsFunc(s.definitions, func(d metav1.PartialObjectMetadata) bool { return d.Name == name })
}

// IsOperator reports whether a Deployment is Piraeus' operator, or what makes the certificate of its webhook. Charts
// name them as their release is called, so it goes by the image that both have.
func IsOperator(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		image, _, _ := strings.Cut(c.Image, "@")
		image, _, _ = strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
		return image == "piraeus-operator"
	})
}

// findNamespace finds out where Piraeus' operator runs, and reads what runs there: its workloads are in the same one.
func (s *Seen) findNamespace(ctx context.Context, c *access.Cluster, given string) error {
	var all appsv1.DeploymentList
	if err := c.List(ctx, &all, client.InNamespace(given)); err != nil {
		err = c.Explain(err, "list", "deployments.apps", "in "+cmp.Or(given, "all namespaces"))
		return fmt.Errorf("find the Piraeus operator: %w; specify its namespace with --piraeus-namespace", err)
	}
	found := map[string]bool{}
	for i := range all.Items {
		if IsOperator(&all.Items[i]) {
			found[all.Items[i].Namespace] = true
		}
	}
	var names []string
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case len(names) > 1:
		return fmt.Errorf("found Piraeus operators in %s, but there can be only one; specify it with --piraeus-namespace",
			strings.Join(names, " and "))
	case len(names) == 1:
		s.Namespace = names[0]
	case given != "":
		s.Namespace = given // its operator may be gone, with what it has made left
	default:
		return errors.New("no Deployment with the image piraeus-operator was found: if the Piraeus operator was removed " +
			"but its workloads still exist, specify their namespace with --piraeus-namespace")
	}
	for i := range all.Items {
		if all.Items[i].Namespace == s.Namespace {
			s.Deployments = append(s.Deployments, all.Items[i])
		}
	}
	return nil
}

// lookAtPiraeus reads Piraeus' own objects.
func (s *Seen) lookAtPiraeus(ctx context.Context, c *access.Cluster) error {
	for _, from := range []struct {
		kind string
		into any
	}{{"LinstorCluster", &s.Clusters}, {"LinstorSatellite", &s.Satellites},
		{"LinstorSatelliteConfiguration", &s.Configurations}, {"LinstorNodeConnection", &s.Connections}} {
		resource := strings.ToLower(from.kind) + "s.piraeus.io"
		if !s.defined(resource) {
			continue // Piraeus before 2.2 has no connections
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(access.Piraeus.WithKind(from.kind + "List"))
		if err := c.List(ctx, list); err != nil {
			if err := s.unreadable(ctx, c, err, resource, ""); err != nil {
				return err
			}
			continue
		}
		objects := make([]map[string]any, 0, len(list.Items))
		for i := range list.Items {
			objects = append(objects, list.Items[i].Object)
		}
		data, err := json.Marshal(objects)
		if err == nil {
			err = json.Unmarshal(data, from.into)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", resource, err)
		}
	}
	return nil
}

// lookAtKubernetes reads what Kubernetes has of its own.
func (s *Seen) lookAtKubernetes(ctx context.Context, c *access.Cluster) error {
	var (
		daemonSets appsv1.DaemonSetList
		webhooks   admissionv1.ValidatingWebhookConfigurationList
		nodes      corev1.NodeList
		volumes    corev1.PersistentVolumeList
		classes    storagev1.StorageClassList
		drivers    storagev1.CSIDriverList
		leases     coordinationv1.LeaseList
	)
	for _, from := range []struct {
		resource string
		into     client.ObjectList
		options  []client.ListOption
	}{{"daemonsets.apps", &daemonSets, []client.ListOption{client.InNamespace(s.Namespace)}},
		{"validatingwebhookconfigurations.admissionregistration.k8s.io", &webhooks, nil}, {"nodes", &nodes, nil},
		{"persistentvolumes", &volumes, nil}, {"storageclasses.storage.k8s.io", &classes, nil},
		{"csidrivers.storage.k8s.io", &drivers, nil},
		{"leases.coordination.k8s.io", &leases, []client.ListOption{client.InNamespace(s.Namespace)}}} {
		if err := c.List(ctx, from.into, from.options...); err != nil {
			if err := s.unreadable(ctx, c, err, from.resource, ""); err != nil {
				return err
			}
		}
	}
	s.DaemonSets, s.Nodes = daemonSets.Items, nodes.Items
	s.Webhooks = webhooksOf(s.Namespace, webhooks.Items)
	for i := range volumes.Items {
		if csi := volumes.Items[i].Spec.CSI; csi != nil && csi.Driver == DriverName {
			s.Volumes = append(s.Volumes, volumes.Items[i])
		}
	}
	for i := range classes.Items {
		if classes.Items[i].Provisioner == DriverName {
			s.Classes = append(s.Classes, classes.Items[i].Name)
		}
	}
	s.Driver = slices.ContainsFunc(drivers.Items, func(d storagev1.CSIDriver) bool { return d.Name == DriverName })
	for i := range leases.Items {
		if leases.Items[i].Name == ControllerName {
			s.Lease = &leases.Items[i]
		}
	}
	return s.lookForOurs(ctx, c)
}

// webhooksOf are those that judge Piraeus' objects: without its operator nobody answers them, and every edit fails.
func webhooksOf(namespace string, all []admissionv1.ValidatingWebhookConfiguration) []string {
	var out []string
	for i := range all {
		if slices.ContainsFunc(all[i].Webhooks, func(w admissionv1.ValidatingWebhook) bool {
			return w.ClientConfig.Service != nil && w.ClientConfig.Service.Namespace == namespace &&
				slices.ContainsFunc(w.Rules, func(r admissionv1.RuleWithOperations) bool {
					return slices.Contains(r.APIGroups, access.Piraeus.Group)
				})
		}) {
			out = append(out, all[i].Name)
		}
	}
	return out
}

// lookForOurs finds out whether there is a StorageCluster: then this operator has a LINSTOR already.
func (s *Seen) lookForOurs(ctx context.Context, c *access.Cluster) error {
	if !s.defined(access.DefinitionName) {
		return nil
	}
	_, err := c.StorageCluster(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return s.unreadable(ctx, c, err, "storageclusters.storage.linstor.dev", "")
	}
	s.Ours = err == nil
	return nil
}

// lookAtSecrets finds out which of the named Secrets are there. The API server is asked for their metadata alone: what
// is in them is nobody's business here.
func (s *Seen) lookAtSecrets(ctx context.Context, c *access.Cluster) error {
	for _, name := range s.Named() {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := c.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret)
		if err != nil && !apierrors.IsNotFound(err) {
			if err := s.unreadable(ctx, c, err, "secrets", "in "+s.Namespace); err != nil {
				return err
			}
			continue
		}
		s.Secrets[name] = err == nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := c.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingFields{"type": BackupType})
	if err != nil {
		return s.unreadable(ctx, c, err, "secrets of type "+BackupType, "in "+s.Namespace)
	}
	s.Backups = list.Items
	return nil
}

// Named are the Secrets that Piraeus' objects name, by themselves or by its defaults.
func (s *Seen) Named() []string {
	var out []string
	for i := range s.Clusters {
		spec := &s.Clusters[i].Spec
		if spec.PassphraseSecret != "" {
			out = append(out, spec.PassphraseSecret)
		}
		if spec.InternalTLS != nil {
			out = append(out, cmp.Or(spec.InternalTLS.SecretName, "linstor-controller-internal-tls"))
		}
		if spec.APITLS != nil {
			out = append(out, cmp.Or(spec.APITLS.APISecretName, "linstor-api-tls"),
				cmp.Or(spec.APITLS.ClientSecret, "linstor-client-tls"))
		}
	}
	return out
}

// PoolProperties are what Piraeus' object of a node says of a pool.
func (s *Seen) PoolProperties(pool, node string) []Property {
	for i := range s.Satellites {
		of := &s.Satellites[i]
		if !strings.EqualFold(of.Name, node) {
			continue
		}
		for j := range of.Spec.StoragePools {
			if p := &of.Spec.StoragePools[j]; strings.EqualFold(p.Name, pool) {
				return p.Properties
			}
		}
	}
	return nil
}
