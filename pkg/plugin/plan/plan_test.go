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
		}
		return errors.Join(refusal, err)
	}}, plugintest.Healthy(3))
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
		"something":               {nil, changes, nil, exit.Done, "would be taken up"},
		"something, and asked":    {nil, changes, []string{"--exit-code"}, exit.WouldChange, "would be taken up"},
		"nothing, and asked":      {nil, nothing, []string{"--exit-code"}, exit.Done, ""},
		"refused by the operator": {nil, result.Plan{Outcome: result.Refused}, nil, exit.WouldBeRefused, "refused"},
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

// TestTheEditIsWhatKubectlApplyMakesOfIt: how it was applied before decides what a field means that is left out.
func TestTheEditIsWhatKubectlApplyMakesOfIt(t *testing.T) {
	b := newBench(t, nil, result.Plan{Outcome: result.Nothing})
	if code := root.Run(t.Context(), b.Env, []string{"plan", "-f", file(t, manifest)}); code != exit.Done ||
		strings.Join(b.sent, "; ") != string(types.ApplyPatchType)+" All kubectl" || !strings.Contains(b.given, "1.35.3") {
		t.Errorf("code %d, sent %v, given %s%s", code, b.sent, b.given, b.Err)
	}
	sc := &v1alpha1.StorageCluster{}
	if err := b.Client.Get(t.Context(), client.ObjectKey{Name: "linstor"}, sc); err != nil {
		t.Fatal(err)
	}
	sc.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"suspend":true}}`}
	if err := b.Client.Update(t.Context(), sc); err != nil {
		t.Fatal(err)
	}
	b.sent = nil
	if code := root.Run(t.Context(), b.Env, []string{"plan", "-f", file(t, manifest)}); code != exit.Done ||
		strings.Join(b.sent, "; ") != string(types.MergePatchType)+" All kubectl" ||
		!strings.Contains(b.given, `"suspend":null`) {
		t.Errorf("code %d, sent %v, given %s%s", code, b.sent, b.given, b.Err)
	}
	b.sent = nil
	if code := root.Run(t.Context(), b.Env, []string{"plan"}); code != exit.Done || len(b.sent) > 0 || b.given != "" {
		t.Errorf("the stored object: code %d, sent %v, given %s", code, b.sent, b.given)
	}
}

func TestManifests(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		code int
		want string
	}{
		"none":       {"kind: Namespace\n", exit.Usage, "has no StorageCluster"},
		"two":        {manifest + "---\n" + manifest, exit.Usage, "two StorageClusters"},
		"no name":    {"kind: StorageCluster\n", exit.Usage, "no name"},
		"not a YAML": {"{", exit.Failed, "read "},
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
