package plugintest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
)

// Server is a fake API server, and a user in front of it.
type Server struct {
	// Env is the plugin's, which reads the terminal's input from In.
	Env *access.Env
	// Out and Err are what the plugin printed.
	Out, Err *bytes.Buffer
	// Client is for the test itself.
	Client client.WithWatch
}

// Faults make the API server refuse; nil for none.
type Faults = interceptor.Funcs

// New starts a fake API server with these objects. What is typed is the terminal's input; nil for no terminal.
func New(t *testing.T, typed *string, faults Faults, objects ...client.Object) *Server {
	t.Helper()
	plain := fake.NewClientBuilder().WithScheme(access.Scheme()).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.StorageCluster{}).
		WithIndex(&corev1.Event{}, "involvedObject.kind", func(o client.Object) []string {
			if e, ok := o.(*corev1.Event); ok {
				return []string{e.InvolvedObject.Kind}
			}
			return nil
		}).
		WithIndex(&corev1.Node{}, "spec.unschedulable", func(o client.Object) []string {
			if n, ok := o.(*corev1.Node); ok && n.Spec.Unschedulable {
				return []string{"true"}
			}
			return nil
		}).Build()
	s := &Server{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}, Client: plain}
	streams := access.Streams{}
	streams.IOStreams = genericclioptions.IOStreams{In: strings.NewReader(""), Out: s.Out, ErrOut: s.Err}
	if typed != nil {
		streams.In, streams.Interactive = strings.NewReader(*typed), true
	}
	s.Env = access.NewEnv(streams, "v0.0.0-test")
	s.Env.Now = func() time.Time { return Now }
	s.Env.Every = 5 * time.Millisecond
	c := &access.Cluster{Client: interceptor.NewClient(plain, faults), Host: "https://127.0.0.1:6443"}
	c.Logs = func(_ context.Context, _, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(pod + "/" + o.Container + ": a line\n")), nil
	}
	c.Server = func(context.Context) (string, error) { return "v1.37.2", nil }
	s.Env.Connect = func() (*access.Cluster, error) { return c, nil }
	return s
}

// Cluster is the plugin's access.
func (s *Server) Cluster(t *testing.T) *access.Cluster {
	t.Helper()
	c, err := s.Env.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
