package plan_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plan"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

const manifest = `
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: storage.linstor.dev/v1alpha1
kind: StorageCluster
metadata: {name: linstor}
spec: {version: 1.35.3}
`

// bench is a fake API server with an operator behind it.
type bench struct {
	*plugintest.Server
	// sent are the patches, as "type dry-run manager".
	sent []string
	// given is what the operator was asked about.
	given string
}

// newBench has an API server that answers dry runs with an error, and an operator that says this.
func newBench(t *testing.T, refusal error, says any) *bench {
	t.Helper()
	return newBenchWith(t, refusal, says, plugintest.Healthy(3))
}

func newBenchWith(t *testing.T, refusal error, says any, stored ...client.Object) *bench {
	t.Helper()
	b := &bench{}
	b.Server = plugintest.New(t, nil, plugintest.Faults{Patch: func(_ context.Context, _ client.WithWatch,
		o client.Object, patch client.Patch, opts ...client.PatchOption) error {
		options := (&client.PatchOptions{}).ApplyOptions(opts)
		b.sent = append(b.sent, string(patch.Type())+" "+strings.Join(options.DryRun, "")+" "+options.FieldManager)
		data, err := patch.Data(o)
		fields := map[string]any{}
		if u, ok := o.(*unstructured.Unstructured); ok && err == nil && refusal == nil {
			err = json.Unmarshal(data, &fields)
			maps.Copy(u.Object, fields)
			u.SetName("linstor") // a patch need not have it
			u.Object["status"] = map[string]any{"laterField": true}
		}
		return errors.Join(refusal, err)
	}}, stored...)
	c := b.Cluster(t)
	c.Plan = func(_ context.Context, manifest []byte) ([]byte, error) {
		b.given = string(manifest)
		if err, failed := says.(error); failed {
			return nil, err
		}
		return json.Marshal(says)
	}
	return b
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	kind := schema.GroupKind{Group: "storage.linstor.dev", Kind: "StorageCluster"}
	wrong := field.ErrorList{field.Invalid(field.NewPath("spec", "nodes"), 1, "no")}
	invalid := apierrors.NewInvalid(kind, "linstor", wrong)
	resource := schema.GroupResource{Group: "storage.linstor.dev", Resource: "storageclusters"}
	noRight := apierrors.NewForbidden(resource, "linstor", errors.New(`User "u" cannot patch resource "storageclusters"`))
	policy := apierrors.NewForbidden(resource, "linstor", errors.New("ValidatingAdmissionPolicy denied the request"))
	nothing, changes := result.Plan{Outcome: result.Nothing}, result.Plan{Outcome: result.Changes}
	for name, tc := range map[string]struct {
		refusal error
		says    any
		args    []string
		code    int
		want    string
	}{
		"nothing":                 {nil, nothing, nil, exit.Done, "nothing would change"},
		"something":               {nil, changes, nil, exit.Done, "would be accepted"},
		"something, and asked":    {nil, changes, []string{"--exit-code"}, exit.WouldChange, "would be accepted"},
		"nothing, and asked":      {nil, nothing, []string{"--exit-code"}, exit.Done, ""},
		"refused by the operator": {nil, result.Plan{Outcome: result.Refused}, nil, exit.WouldBeRefused, "rejected"},
		"invalid":                 {invalid, nothing, nil, exit.WouldBeRefused, "spec.nodes"},
		"refused by a policy":     {policy, nothing, nil, exit.WouldBeRefused, "denied"},
		"no right":                {noRight, nothing, nil, exit.Failed, "not allowed to patch"},
		"no operator":             {nil, errors.New("no pod of the operator"), nil, exit.Failed, "no pod of the operator"},
		"another answer":          {nil, "hello", nil, exit.Failed, "same version"},
		"json":                    {nil, changes, []string{"-o", "json"}, exit.Done, `"outcome": "Changes"`},
		"yaml":                    {nil, changes, []string{"-o", "yaml"}, exit.Done, "outcome: Changes"},
		"another output":          {nil, changes, []string{"-o", "wide"}, exit.Usage, "json or yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.refusal, tc.says)
			args := append([]string{"plan", "-f", file(t, manifest)}, tc.args...)
			code := root.Run(t.Context(), b.Env, args)
			if said := b.Out.String() + b.Err.String(); code != tc.code || !strings.Contains(said, tc.want) {
				t.Errorf("code %d: %s", code, said)
			}
			for _, sent := range b.sent {
				if !strings.Contains(sent, " All kubectl") {
					t.Errorf("not a dry run: %s", sent)
				}
			}
		})
	}
}

// plans runs plan with the manifest.
func (b *bench) plans(t *testing.T, args ...string) (code int) {
	t.Helper()
	b.sent, b.given = nil, ""
	b.Out.Reset()
	b.Err.Reset()
	return root.Run(t.Context(), b.Env, append([]string{"plan", "-f", file(t, manifest)}, args...))
}

// TestTheEditIsWhatKubectlApplyMakesOfIt: without --server-side, other managers of a field are no conflict.
func TestTheEditIsWhatKubectlApplyMakesOfIt(t *testing.T) {
	b := newBench(t, nil, result.Plan{Outcome: result.Nothing})
	merge, apply := string(types.MergePatchType)+" All ", string(types.ApplyPatchType)+" All "
	expect := func(what, sent, given string, args ...string) {
		t.Helper()
		if code := b.plans(t, args...); code != exit.Done || strings.Join(b.sent, "; ") != sent ||
			!strings.Contains(b.given, given) {
			t.Errorf("%s: code %d, sent %v, given %s%s", what, code, b.sent, b.given, b.Err)
		}
	}
	expect("nobody has applied it", merge+"kubectl", "1.35.3")
	if strings.Contains(b.given, "null") {
		t.Errorf("a field is removed that no manifest had: %s", b.given)
	}
	expect("server-side", apply+"kubectl", "1.35.3", "--server-side")
	expect("another manager", apply+"argo", "1.35.3", "--server-side", "--field-manager=argo", "--force-conflicts")
	sc := &v1alpha1.StorageCluster{}
	if err := b.Client.Get(t.Context(), client.ObjectKey{Name: "linstor"}, sc); err != nil {
		t.Fatal(err)
	}
	sc.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"suspend":true}}`}
	if err := b.Client.Update(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	expect("applied before", merge+"kubectl", `"suspend":null`)
	b.sent, b.given = nil, ""
	if code := root.Run(t.Context(), b.Env, []string{"plan"}); code != exit.Done || len(b.sent) > 0 || b.given != "" {
		t.Errorf("the stored object: code %d, sent %v, given %s", code, b.sent, b.given)
	}
}

// TestFlagsWithoutEffect are wrong use: whoever gives them believes that they do something.
func TestFlagsWithoutEffect(t *testing.T) {
	for _, flag := range []string{"--field-manager=argo", "--force-conflicts"} {
		b := newBench(t, nil, result.Plan{Outcome: result.Nothing})
		if code := b.plans(t, flag); code != exit.Usage || !strings.Contains(b.Err.String(), "--server-side") ||
			len(b.sent) > 0 {
			t.Errorf("%s: code %d, sent %v: %s", flag, code, b.sent, b.Err)
		}
	}
}

// TestWhatTheOperatorIsGiven: it may be of another version, and not know all that the API server stores.
func TestWhatTheOperatorIsGiven(t *testing.T) {
	text := strings.Replace(manifest, "{name: linstor}",
		"{name: linstor, annotations: {storage.linstor.dev/backup: now, other: x}}", 1)
	b := newBench(t, nil, result.Plan{Outcome: result.Nothing})
	if code := root.Run(t.Context(), b.Env, []string{"plan", "-f", file(t, text)}); code != exit.Done {
		t.Fatal(b.Err)
	}
	want := `{"apiVersion":"storage.linstor.dev/v1alpha1","kind":"StorageCluster","metadata":{"annotations":` +
		`{"storage.linstor.dev/backup":"now"},"name":"linstor"},"spec":{"version":"1.35.3"}}`
	if b.given != want {
		t.Errorf("%s", b.given)
	}
}

// TestARefusalOfANewObject is not one of an edit.
func TestARefusalOfANewObject(t *testing.T) {
	kind := schema.GroupKind{Group: "storage.linstor.dev", Kind: "StorageCluster"}
	b := newBenchWith(t, apierrors.NewInvalid(kind, "linstor", nil), nil)
	if code := b.plans(t); code != exit.WouldBeRefused ||
		!strings.Contains(b.Out.String(), "the new object would be rejected") {
		t.Errorf("code %d: %s%s", code, b.Out, b.Err)
	}
	if strings.Join(b.sent, "; ") != string(types.ApplyPatchType)+" All kubectl" {
		t.Errorf("%v", b.sent)
	}
}

// TestAnUnknownField is named, without the whole object that the API server puts before it.
func TestAnUnknownField(t *testing.T) {
	kind := schema.GroupKind{Group: "storage.linstor.dev", Kind: "StorageCluster"}
	object := field.Invalid(field.NewPath("patch"), strings.Repeat("object", 100),
		`strict decoding error: unknown field "spec.verzion"`)
	b := newBench(t, apierrors.NewInvalid(kind, "linstor", field.ErrorList{object}), nil)
	if code := b.plans(t); code != exit.WouldBeRefused || strings.Contains(b.Out.String(), "object") ||
		!strings.Contains(b.Out.String(), "field  spec.verzion") {
		t.Errorf("code %d: %s%s", code, b.Out, b.Err)
	}
}

// TestASuspendedOperator takes nothing up, and the first line says so.
func TestASuspendedOperator(t *testing.T) {
	b := newBench(t, nil, result.Plan{Outcome: result.Changes, Of: result.Edit, Suspended: true})
	if code := b.plans(t); code != exit.Done || !strings.Contains(b.Out.String(), "once suspend is false again") {
		t.Errorf("code %d: %s%s", code, b.Out, b.Err)
	}
}

func TestManifests(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		code int
		want string
	}{
		"none":       {"kind: Namespace\n", exit.Usage, "contains no StorageCluster"},
		"two":        {manifest + "---\n" + manifest, exit.Usage, "more than one StorageCluster"},
		"no name":    {"kind: StorageCluster\n", exit.Usage, "no name"},
		"not a YAML": {"{", exit.Failed, "read "},
		"too large":  {manifest + strings.Repeat("#\n", 3<<20), exit.Usage, "exceeds the limit of 4 MiB"},
	} {
		b := newBench(t, nil, result.Plan{Outcome: result.Nothing})
		code := root.Run(t.Context(), b.Env, []string{"plan", "-f", file(t, tc.text)})
		if !strings.Contains(b.Err.String(), tc.want) || code != tc.code {
			t.Errorf("%s: code %d: %s", name, code, b.Err)
		}
	}
}

// TestTimeout: an operator that says nothing is not waited for without an end.
func TestTimeout(t *testing.T) {
	b := newBench(t, nil, nil)
	b.Cluster(t).Plan = func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	code := root.Run(t.Context(), b.Env, []string{"plan", "--timeout", time.Millisecond.String()})
	if code != exit.Failed || !strings.Contains(b.Err.String(), "deadline") {
		t.Errorf("code %d: %s", code, b.Err)
	}
}

// full is a plan with something of all.
func full() *result.Plan {
	long := strings.Repeat("word ", 30)
	return &result.Plan{Outcome: result.Changes, Of: result.Edit, Phase: "Ready",
		Fields: []result.Field{
			{Path: "nodes.satellite.resources.limits", To: map[string]any{"cpu": "1"}, Class: "Rolling",
				From: []any{1.5, map[string]any{"first": strings.Repeat("x", 30), "second": strings.Repeat("y", 30)}},
				When: "at the next step", Effect: "the satellites are restarted, a few at a time"},
			{Path: "storagePools[ssd].properties", From: map[string]any{"k": long}, Class: "AtNextAssess", When: long,
				Effect: long},
		},
		Phases: []result.Phase{{Name: "Assessing", Why: "the spec changed"}, {Name: "Satellites"}, {Name: "Ready"}},
		Holds: []result.Hold{{Reason: "DeviceApproval", Message: long,
			Options: []result.Option{{Answer: "approve", Does: long}}}},
		Unknown: []string{long}, Notes: []string{long},
	}
}

// TestLinesFit: no line is wider than the terminal, and nothing is coloured where there is none.
func TestLinesFit(t *testing.T) {
	for _, width := range []int{80, 120} {
		for _, line := range plan.Lines(full(), tree.Style{Width: width}) {
			if utf8.RuneCountInString(line) > width || strings.Contains(line, "\x1b") {
				t.Errorf("%d: %q", width, line)
			}
		}
	}
	text := strings.Join(plan.Lines(full(), tree.Style{Width: 80, Colour: true}), "\n")
	if !strings.Contains(text, "\x1b[") {
		t.Error("no colours on a terminal")
	}
}
