// Package access is how the plugin reaches the cluster: it reads and writes through one client, and its errors say
// what is wrong, where, and what to do.
package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Owner is the field manager of what the plugin writes.
const Owner = "kubectl-linstor"

// Cluster is the Kubernetes cluster that the flags name.
type Cluster struct {
	client.Client
	// Logs opens the log of a container.
	Logs func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error)
	// Plan has an operator judge a StorageCluster as the API server would store it, nil for the stored one, and returns
	// what it printed.
	Plan func(ctx context.Context, manifest []byte) ([]byte, error)
	// Disks has an operator judge the disks of all nodes by the rules of such a StorageCluster, in the same way.
	Disks func(ctx context.Context, manifest []byte) ([]byte, error)
	// Server asks the API server for its version.
	Server func(ctx context.Context) (string, error)
	// Host is the API server's address.
	Host string
}

// scheme has the few kinds that the plugin reads, and scopes says which of them have no namespace. Both are known
// beforehand, so that no command asks the API server first what it serves.
var (
	scheme = newScheme()
	mapper = newMapper()
)

// CRD is the kind of the StorageCluster's own definition, which is read as it is stored.
var CRD = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Piraeus is the group of the objects that Piraeus' operator 2 acts on.
var Piraeus = schema.GroupVersion{Group: "piraeus.io", Version: "v1"}

// LinstorTables is the group in which LINSTOR keeps its tables where its database is Kubernetes.
const LinstorTables = "internal.linstor.linbit.com"

// tables knows LINSTOR's tables beside the kinds that were added. Their versions are those of LINSTOR's releases,
// which no list could have beforehand; a kind's name in lower case is that of its resource, and none has a namespace.
type tables struct{ *meta.DefaultRESTMapper }

// RESTMapping overrides that of the embedded mapper.
func (m tables) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Group != LinstorTables || len(versions) == 0 {
		return m.DefaultRESTMapper.RESTMapping(kind, versions...)
	}
	version := schema.GroupVersion{Group: kind.Group, Version: versions[0]}
	return &meta.RESTMapping{GroupVersionKind: version.WithKind(kind.Kind), Scope: meta.RESTScopeRoot,
		Resource: version.WithResource(strings.ToLower(kind.Kind))}, nil
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme,
		coordinationv1.AddToScheme, storagev1.AddToScheme, admissionv1.AddToScheme, authorizationv1.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // these are compiled in
		}
	}
	return s
}

func newMapper() meta.RESTMapper {
	m := tables{meta.NewDefaultRESTMapper(nil)}
	m.Add(v1alpha1.GroupVersion.WithKind("StorageCluster"), meta.RESTScopeRoot)
	m.Add(CRD, meta.RESTScopeRoot)
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Node"),
		corev1.SchemeGroupVersion.WithKind("Namespace"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
		storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"),
		admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
		admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
	} {
		m.Add(kind, meta.RESTScopeRoot)
	}
	for _, kind := range []string{"LinstorCluster", "LinstorSatellite", "LinstorSatelliteConfiguration",
		"LinstorNodeConnection"} {
		m.Add(Piraeus.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"Pod", "Event", "ConfigMap", "Secret"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Deployment", "DaemonSet", "ControllerRevision"} {
		m.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	return m
}

// Scheme is that of the client, for tests with a client of their own.
func Scheme() *runtime.Scheme { return scheme }

// Open makes the client for the cluster that the flags name. Nothing is asked yet.
func Open(configFlags *genericclioptions.ConfigFlags, plugin string) (*Cluster, error) {
	config, err := configFlags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig: %w; specify a cluster with --kubeconfig or --context", err)
	}
	config.UserAgent = Owner + "/" + plugin
	config.QPS, config.Burst = 50, 100 // a report reads a log for each container
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	logs := func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		return core.Pods(namespace).GetLogs(pod, o).Stream(ctx)
	}
	server := func(ctx context.Context) (string, error) {
		data, err := core.RESTClient().Get().AbsPath("/version").DoRaw(ctx)
		var v version.Info
		if err == nil {
			err = json.Unmarshal(data, &v)
		}
		return v.GitVersion, err
	}
	cluster := &Cluster{Client: c, Logs: logs, Server: server, Host: config.Host}
	ask := func(question string) func(context.Context, []byte) ([]byte, error) {
		return func(ctx context.Context, manifest []byte) ([]byte, error) {
			return cluster.askInPod(ctx, configFlags, question, manifest)
		}
	}
	cluster.Plan, cluster.Disks = ask(questionPlan), ask(questionDisks)
	return cluster, nil
}

// StorageCluster reads the one StorageCluster.
func (c *Cluster) StorageCluster(ctx context.Context) (*v1alpha1.StorageCluster, error) {
	sc := &v1alpha1.StorageCluster{}
	err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, sc)
	if err != nil {
		return nil, c.Explain(err, "get", "storageclusters.storage.linstor.dev", v1alpha1.ClusterName)
	}
	return sc, nil
}

// Annotate writes one annotation, or removes it where the value is nil, and changes nothing else. The object must be
// as it was read: a conflict is an error for which [apierrors.IsConflict] holds.
func (c *Cluster) Annotate(ctx context.Context, o client.Object, key string, value *string) error {
	return c.Merge(ctx, o, map[string]any{"metadata": map[string]any{
		"resourceVersion": o.GetResourceVersion(), "annotations": map[string]any{key: value}}})
}

// Merge applies a merge patch to an object. One that names a resourceVersion is refused if the object has another.
func (c *Cluster) Merge(ctx context.Context, o client.Object, patch map[string]any, opts ...client.PatchOption) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("marshal the patch: %w", err)
	}
	resource, name := ResourceOf(o), o.GetName()
	opts = append(opts, client.FieldOwner(Owner))
	if err := c.Patch(ctx, o, client.RawPatch(types.MergePatchType, data), opts...); err != nil {
		return c.Explain(err, "patch", resource, name)
	}
	return nil
}

// ResourceOf is what Kubernetes calls the objects of a kind, as RBAC does.
func ResourceOf(o client.Object) string {
	switch o.(type) {
	case *v1alpha1.StorageCluster:
		return "storageclusters.storage.linstor.dev"
	case *corev1.Node:
		return "nodes"
	default:
		return fmt.Sprintf("%T", o)
	}
}

// Explain says what an error of the API server means for whoever typed the command. It wraps the error.
func (c *Cluster) Explain(err error, verb, resource, name string) error {
	what := resource
	if name != "" {
		what += " " + name
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case apierrors.IsNotFound(err) && notServed(err) || meta.IsNoMatchError(err):
		return fmt.Errorf("the cluster at %[2]s does not serve %[1]s: install the operator (kubectl apply "+
			"--server-side -f deploy/crds), or specify a different cluster with --context: %[3]w", resource, c.Host, err)
	case apierrors.IsNotFound(err) && resource == "storageclusters.storage.linstor.dev":
		return fmt.Errorf("no StorageCluster exists in the cluster at %s: create one (see deploy/samples), or specify "+
			"a different cluster with --context: %w", c.Host, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("not allowed to %s %s: ask a cluster administrator for this permission: %w", verb, what, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster at %s rejected the credentials in the kubeconfig: %w", c.Host, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s %s: the object has changed in the meantime: %w", verb, what, err)
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return fmt.Errorf("%s %s at %s: %w; is this the right cluster (--context, --kubeconfig)?", verb, what, c.Host, err)
	default:
		return fmt.Errorf("%s %s: %w", verb, what, err)
	}
}

// notServed tells the answer to a request for an unknown resource from that for an unknown object: only the first is
// none of the API server's own making.
func notServed(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Poll looks again and again until it is done, or the time is over.
func Poll(ctx context.Context, every time.Duration, done func(context.Context) (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Await looks at the StorageCluster again and again until it is done, or the time is over. A look that fails does not
// end it: API servers restart, and connections break. Only where no later look can do better, because the object is
// gone or may not be read, does it end.
func (c *Cluster) Await(ctx context.Context, every time.Duration,
	done func(context.Context, *v1alpha1.StorageCluster) (bool, error)) error {
	var failed error
	err := Poll(ctx, every, func(ctx context.Context) (bool, error) {
		sc, err := c.StorageCluster(ctx)
		if failed = err; err == nil {
			return done(ctx, sc)
		}
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return false, err
		}
		return false, nil
	})
	if failed != nil && errors.Is(err, context.DeadlineExceeded) && !errors.Is(failed, context.DeadlineExceeded) {
		return fmt.Errorf("%w; the last attempt to read the StorageCluster failed: %w", err, failed)
	}
	return err
}
