package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// aviary watches for canaries: values that are in Secrets, and must be nowhere else.
type aviary struct {
	*harness.Env
	mu sync.Mutex
	// forms are the texts that betray a canary, with its name.
	forms map[string]string
	found map[string]string
}

// newAviary starts a cluster whose operator is watched.
func newAviary(t *testing.T, ns []simcluster.NodeSpec) *aviary {
	t.Helper()
	t.Parallel()
	a := &aviary{Env: harness.StartAlone(t, ns), forms: map[string]string{}, found: map[string]string{}}
	for k := range a.Timing.Deadlines {
		a.Timing.Deadlines[k] = machine.Slow(deadline)
	}
	a.Lease = lease
	harness.TapLog(t, func(line string) { a.look("the operator's log", line) })
	a.Wrap = a.wrap
	t.Cleanup(func() { a.check(t) })
	return a
}

// canary is a value that nothing else has, with letters that are written otherwise in URLs and in JSON.
func (a *aviary) canary(name string) string {
	core := "Kanari" + hex.EncodeToString([]byte(name)) + "Vogel"
	value := core + ` +/"&ü`
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forms[core] = name
	// A text's base64 depends on where in a larger text it begins: the letters in the middle are the same in one of
	// three.
	for skip := range 3 {
		shifted := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + core))
		a.forms[shifted[4:len(shifted)-4]] = name + " in base64"
	}
	a.forms[hex.EncodeToString([]byte(core))] = name + " in hexadecimal"
	// Nor a plain hash, from which it could be guessed.
	sum := sha256.Sum256([]byte(value))
	a.forms[hex.EncodeToString(sum[:8])] = name + " as its SHA-256"
	return value
}

// look searches a text for canaries.
func (a *aviary) look(where, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for form, name := range a.forms {
		if i := strings.Index(text, form); i >= 0 {
			if key := where + ": " + name; a.found[key] == "" {
				a.found[key] = text[max(0, i-200):min(len(text), i+100)]
			}
		}
	}
}

// written are the Secrets that the operator writes: the configuration of LINSTOR's controller is the one place for the
// database's credentials, and certificates have their own for their keys.
func written() []string { return append(locks(), resources.ControllerConfigName) }

// wrap looks at everything that the operator writes to the API server: each version of the status, annotations, pod
// templates, ConfigMaps and ControllerRevisions, but for those Secrets.
func (a *aviary) wrap(c client.WithWatch) client.WithWatch {
	see := func(what string, o any) {
		text, err := json.Marshal(o)
		if err != nil {
			a.T.Errorf("encode %T: %v", o, err)
		}
		named, ok := o.(interface{ GetName() string })
		if ok {
			what += " " + named.GetName()
		}
		kinded, ok := o.(interface{ GetKind() string })
		if named != nil && ok && kinded.GetKind() == "Secret" && slices.Contains(written(), named.GetName()) {
			return
		}
		a.look("a write to Kubernetes: "+what, string(text))
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			see("create", o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			see("update", o)
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if data, err := p.Data(o); err == nil {
				a.look(fmt.Sprintf("a patch of %T %s", o, o.GetName()), string(data))
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			see("apply", o)
			return c.Apply(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			see(sub, o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

// check looks at what is left in the end, and reports.
func (a *aviary) check(t *testing.T) {
	for _, ev := range a.Events() {
		a.look("Event "+ev.Reason, ev.Note)
	}
	for _, r := range a.Sim.World().Requests() {
		a.look("a request to LINSTOR: "+r.Method+" "+r.Path, r.Path+" "+string(r.Body))
	}
	families, err := a.Metrics.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, f := range families {
		a.look("metric "+f.GetName(), f.String())
	}
	objects := dynamicClient(a.Env)
	for _, gvr := range kinds(a.Env) {
		if gvr.Resource == "secrets" {
			continue
		}
		list, err := objects.Resource(gvr).Namespace(v1alpha1.WorkloadNamespace).List(context.Background(),
			metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, o := range list.Items {
			a.look(gvr.Resource+" "+o.GetName(), encode(o.Object))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for where, text := range a.found {
		t.Errorf("%s: …%s…", where, text)
	}
	a.checkReads(t)
}

// checkReads: the operator's requests about Secrets are the ones that the canaries cover: its cache of the workloads'
// namespace, LINSTOR's backups, and the Secrets that it writes.
func (a *aviary) checkReads(t *testing.T) {
	requests, _ := a.Requests(0)
	seen := 0
	for _, r := range requests {
		if r.Resource != "secrets" {
			continue
		}
		seen++
		own := slices.Contains(written(), r.Name) && slices.Contains([]string{"patch", "create", "delete"}, r.Verb)
		listed := slices.Contains([]string{"list", "watch"}, r.Verb)
		if r.Namespace != v1alpha1.WorkloadNamespace || !own && !listed {
			t.Errorf("the operator does %s %s: no canary covers this Secret", r.Verb, r.RequestURI)
		}
	}
	if seen == 0 {
		t.Error("the audit log has no request about Secrets")
	}
}

// secret makes or changes a Secret.
func (a *aviary) secret(name string, kind corev1.SecretType, data map[string]string) {
	a.T.Helper()
	s := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Type: kind,
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: name}, StringData: data,
	}
	text, err := json.Marshal(s)
	if err != nil {
		a.T.Fatal(err)
	}
	a.Apply(string(text))
	injected("secrets: Secret given or changed")
}
