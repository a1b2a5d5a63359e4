package show_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
)

func run(t *testing.T, s *plugintest.Server, args ...string) int {
	t.Helper()
	s.Out.Reset()
	s.Err.Reset()
	return root.Run(t.Context(), s.Env, append([]string{"status"}, args...))
}

func TestStatus(t *testing.T) {
	s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Held(),
		plugintest.Warning("w", "NodeLeaving", "node-9 leaves", time.Minute))
	if code := run(t, s); code != exit.Done ||
		!strings.Contains(s.Out.String(), "kubectl linstor resume h-b2f074 retry") ||
		!strings.Contains(s.Out.String(), "NodeLeaving") {
		t.Errorf("code %d: %s%s", code, s.Out, s.Err)
	}
	if strings.Contains(s.Out.String(), "\x1b") {
		t.Error("colours, though there is no terminal")
	}
	if code := run(t, s, "--exit-code"); code != exit.NotWell || s.Err.Len() > 0 {
		t.Errorf("code %d: %s", code, s.Err)
	}
	well := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Healthy(3))
	if code := run(t, well, "--exit-code"); code != exit.Done {
		t.Errorf("code %d of a cluster that is well: %s", code, well.Out)
	}
}

func TestColour(t *testing.T) {
	s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Held())
	s.Env.Colour = true
	if run(t, s); !strings.Contains(s.Out.String(), "\x1b[31m") {
		t.Error("no colours on a terminal")
	}
	if run(t, s, "--no-color"); strings.Contains(s.Out.String(), "\x1b") {
		t.Error("colours in spite of --no-color")
	}
}

func TestStructure(t *testing.T) {
	s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Held())
	for format, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal, "yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) }} {
		var v statusview.View
		if code := run(t, s, "-o", format); code != exit.Done || decode(s.Out.Bytes(), &v) != nil {
			t.Fatalf("%s: code %d: %s", format, code, s.Out)
		}
		if v.Phase != v1alpha1.PhaseHumanIntervention || v.Well || len(v.Holds) != 2 || len(v.Sections) < 5 ||
			v.Holds[0].Options[1].Annotate == "" {
			t.Errorf("%s: %+v", format, v)
		}
	}
	if code := run(t, s, "-o", "wide"); code != exit.Usage || !strings.Contains(s.Err.String(), "json or yaml") {
		t.Errorf("code %d: %s", code, s.Err)
	}
}

// TestErrors: each says what is wrong and what to do.
func TestErrors(t *testing.T) {
	resource := schema.GroupResource{Group: "storage.linstor.dev", Resource: "storageclusters"}
	for name, c := range map[string]struct {
		err   error
		wants []string
	}{
		"no definition": {apierrors.NewGenericServerResponse(404, "get", resource, "linstor", "404 page not found", 0, true),
			[]string{"install the operator", "https://127.0.0.1:6443", "--context"}},
		"no object": {apierrors.NewNotFound(resource, "linstor"), []string{"no StorageCluster exists", "deploy/samples"}},
		"forbidden": {apierrors.NewForbidden(resource, "linstor", nil),
			[]string{"not allowed to get storageclusters.storage.linstor.dev linstor", "ask a cluster administrator"}},
		"unauthorized": {apierrors.NewUnauthorized("Unauthorized"), []string{"credentials in the kubeconfig"}},
	} {
		faults := plugintest.Faults{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
			...client.GetOption) error {
			return c.err
		}}
		s := plugintest.New(t, nil, faults)
		if code := run(t, s); code != exit.Failed {
			t.Errorf("%s: code %d", name, code)
		}
		for _, want := range c.wants {
			if !strings.Contains(s.Err.String(), want) {
				t.Errorf("%s: no %q in %s", name, want, s.Err)
			}
		}
	}
}

// TestPartly: whoever may not list Nodes sees the rest.
func TestPartly(t *testing.T) {
	faults := plugintest.Faults{List: func(context.Context, client.WithWatch, client.ObjectList,
		...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	}}
	s := plugintest.New(t, nil, faults, plugintest.Healthy(3))
	if code := run(t, s); code != exit.Done ||
		!strings.Contains(s.Out.String(), "Incomplete: not allowed to list nodes") {
		t.Errorf("code %d: %s", code, s.Out)
	}
}

// TestLeaseUnread: whoever may not read the operator's Lease does not know whether all of it is old.
func TestLeaseUnread(t *testing.T) {
	faults := plugintest.Faults{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
		opts ...client.GetOption) error {
		if _, ok := o.(*coordinationv1.Lease); ok {
			return apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, key.Name, nil)
		}
		return c.Get(ctx, key, o, opts...)
	}}
	s := plugintest.New(t, nil, faults, plugintest.Healthy(3))
	code := run(t, s, "--exit-code")
	said := strings.Join(strings.Fields(s.Out.String()), " ")
	if code != exit.NotWell || !strings.Contains(said, "Incomplete: not allowed to get leases.coordination.k8s.io") ||
		!strings.Contains(said, "? Operator") {
		t.Errorf("code %d: %s", code, s.Out)
	}
}

// TestPipe: with COLUMNS exported, as some shells do, a pipe is still no terminal to clear.
func TestPipe(t *testing.T) {
	for terminal, want := range map[bool]bool{false: false, true: true} {
		synctest.Test(t, func(t *testing.T) {
			s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Healthy(3))
			s.Env.Width, s.Env.Interactive, s.Env.Terminal, s.Env.Every = 80, true, terminal, time.Second
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			root.Run(ctx, s.Env, []string{"status", "--watch"})
			if got := strings.Contains(s.Out.String(), "\x1b[2J"); got != want {
				t.Errorf("a terminal %t: cleared %t", terminal, got)
			}
		})
	}
}

// TestWatch: the picture is shown again when it is another one, and only then.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Healthy(3))
		s.Env.Every = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int)
		go func() { done <- root.Run(ctx, s.Env, []string{"status", "--watch"}) }()
		pictures := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(s.Out.String(), "StorageCluster/linstor"); got != want {
				t.Fatalf("%d pictures, want %d: %s%s", got, want, s.Out, s.Err)
			}
		}
		pictures(1)
		<-time.After(30500 * time.Millisecond)
		pictures(1)
		sc := &v1alpha1.StorageCluster{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, sc); err != nil {
			t.Fatal(err)
		}
		sc.Status = plugintest.Degraded().Status
		if err := s.Client.Status().Update(ctx, sc); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		pictures(2)
		cancel()
		if code := <-done; code != exit.Done {
			t.Errorf("code %d after Ctrl-C: %s", code, s.Err)
		}
	})
	s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Healthy(3))
	if code := run(t, s, "--watch", "-o", "json"); code != exit.Usage {
		t.Errorf("code %d", code)
	}
}
