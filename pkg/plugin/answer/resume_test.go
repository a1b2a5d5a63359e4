package answer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
)

// operator follows the answer when it is written, as the real one does: another phase, no hold, no annotation. It
// notes what was answered.
func operator(tokens *[]string, follow func(*v1alpha1.StorageCluster)) plugintest.Faults {
	return plugintest.Faults{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if err := c.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			sc := &v1alpha1.StorageCluster{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), sc); err != nil {
				return err
			}
			*tokens = append(*tokens, sc.Annotations[v1alpha1.AnnotationResume])
			if follow == nil {
				return nil
			}
			follow(sc)
			if err := c.Status().Update(ctx, sc.DeepCopy()); err != nil {
				return err
			}
			fresh := &v1alpha1.StorageCluster{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), fresh); err != nil {
				return err
			}
			fresh.Annotations = sc.Annotations
			return c.Update(ctx, fresh)
		},
	}
}

// ends lets the cluster's hold end.
func ends(sc *v1alpha1.StorageCluster) {
	ended := v1alpha1.Transition{From: v1alpha1.PhaseHumanIntervention, To: v1alpha1.PhaseAssessing,
		Message: fmt.Sprintf("hold h-b2f074 was resumed with %s", strings.TrimPrefix(
			sc.Annotations[v1alpha1.AnnotationResume], "h-b2f074:"))}
	sc.Status.History = append(sc.Status.History, ended)
	byItself(sc)
}

// byItself lets it end without anybody's answer.
func byItself(sc *v1alpha1.StorageCluster) {
	sc.Status.Hold, sc.Status.Phase, sc.Status.Message = nil, v1alpha1.PhaseStoragePools, "1 of 3 nodes have their pools"
	delete(sc.Annotations, v1alpha1.AnnotationResume)
}

func typed(s string) *string { return &s }

func TestResume(t *testing.T) {
	for name, c := range map[string]struct {
		args   string
		typed  *string
		follow func(*v1alpha1.StorageCluster)
		code   int
		token  string
		says   []string
	}{
		"yes on the terminal": {"h-b2f074 skip", typed("y\n"), ends, exit.Done, "h-b2f074:skip", []string{
			"skip continues without this pool on the listed nodes until the pool's spec entry changes or another " +
				"disk matches.",
			"Resume with skip? [y/N]",
			"Hold h-b2f074 was resumed with skip.", "The phase is StoragePools: 1 of 3 nodes have their pools",
			"Open holds: h-0a11ce (DeviceApproval)"}},
		"no on the terminal":    {"h-b2f074 skip", typed("n\n"), ends, exit.Refused, "", []string{"nothing was changed"}},
		"return alone is no":    {"h-b2f074 skip", typed("\n"), ends, exit.Refused, "", nil},
		"no terminal":           {"h-b2f074 skip", nil, ends, exit.Failed, "", []string{"use --yes"}},
		"no terminal, with yes": {"h-b2f074 retry -y", nil, ends, exit.Done, "h-b2f074:retry", nil},
		"some nodes": {"h-b2f074 skip@node-3 -y", nil, func(sc *v1alpha1.StorageCluster) {
			sc.Status.Hold.Nodes, sc.Status.Hold.Count = []string{"node-2"}, 1
			delete(sc.Annotations, v1alpha1.AnnotationResume)
		}, exit.Done, "h-b2f074:skip@node-3", []string{"This applies to 1 node of the hold: node-3.",
			"Hold h-b2f074 has ended for node-3."}},
		"it ends by itself": {"h-b2f074 skip -y", nil, byItself, exit.Done, "h-b2f074:skip", []string{
			"Hold h-b2f074 has ended. The phase is StoragePools"}},
		"the operator is away": {"h-b2f074 retry -y --timeout 50ms", nil, nil, exit.Failed, "h-b2f074:retry", []string{
			"did not act on the annotation within 50ms", "storage.linstor.dev/resume-"}},
		"disks are named": {"h-0a11ce approve", typed("n\n"), nil, exit.Refused, "", []string{
			"node-1, /dev/sdc, serial ZA000001", "OVERWRITES them"}},
		"not offered":  {"h-b2f074 approve -y", nil, nil, exit.Failed, "", []string{"options: retry, skip, use-existing"}},
		"wrong use":    {"a b c", nil, nil, exit.Usage, "", []string{"takes at most two arguments, got 3", "Usage:"}},
		"list":         {"", nil, nil, exit.Done, "", []string{"Hold h-b2f074", "kubectl linstor resume h-0a11ce approve"}},
		"list of one":  {"h-0a11ce", nil, nil, exit.Done, "", []string{"Hold h-0a11ce"}},
		"unknown flag": {"--now", nil, nil, exit.Usage, "", []string{"unknown flag", "Usage:"}},
	} {
		t.Run(name, func(t *testing.T) {
			var tokens []string
			s := plugintest.New(t, c.typed, operator(&tokens, c.follow), plugintest.Held())
			code := root.Run(t.Context(), s.Env, append([]string{"resume"}, strings.Fields(c.args)...))
			said := strings.Join(strings.Fields(s.Out.String()+" "+s.Err.String()), " ")
			if code != c.code || strings.Join(tokens, " ") != c.token {
				t.Errorf("code %d, answered %q; it said %s", code, tokens, said)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in %s", want, said)
				}
			}
		})
	}
}

// TestSuspended: nobody would follow the answer.
func TestSuspended(t *testing.T) {
	sc := plugintest.Held()
	sc.Spec.Suspend = true
	s := plugintest.New(t, nil, plugintest.Faults{}, sc)
	if code := root.Run(t.Context(), s.Env, []string{"resume", "h-b2f074", "retry", "-y"}); code != exit.Failed ||
		!strings.Contains(s.Err.String(), "spec.suspend") {
		t.Errorf("code %d: %s", code, s.Err)
	}
}

// TestChangedMeanwhile: the hold asks something else by the time that the user has said yes.
func TestChangedMeanwhile(t *testing.T) {
	reads := 0
	faults := plugintest.Faults{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
		opts ...client.GetOption) error {
		if err := c.Get(ctx, key, o, opts...); err != nil {
			return err
		}
		if sc, ok := o.(*v1alpha1.StorageCluster); ok {
			if reads++; reads > 1 {
				sc.Status.Hold.Nodes = []string{"node-1", "node-2", "node-3"}
			}
		}
		return nil
	}}
	s := plugintest.New(t, nil, faults, plugintest.Held())
	if code := root.Run(t.Context(), s.Env, []string{"resume", "h-b2f074", "skip", "-y"}); code != exit.Failed ||
		!strings.Contains(s.Err.String(), "has changed in the meantime") {
		t.Errorf("code %d: %s", code, s.Err)
	}
}

// TestConflict: the operator writes the object in between; the answer is written to what it is then.
func TestConflict(t *testing.T) {
	var tokens []string
	faults, patches := operator(&tokens, ends), 0
	patch := faults.Patch
	faults.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
		opts ...client.PatchOption) error {
		if patches++; patches < 3 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "storageclusters"}, o.GetName(), nil)
		}
		return patch(ctx, c, o, p, opts...)
	}
	s := plugintest.New(t, nil, faults, plugintest.Held())
	if code := root.Run(t.Context(), s.Env, []string{"resume", "h-b2f074", "retry", "-y"}); code != exit.Done ||
		patches != 3 || len(tokens) != 1 {
		t.Errorf("code %d after %d writes, answered %q: %s", code, patches, tokens, s.Err)
	}
}

// TestStale: an answer is never written to an object that has changed since the hold was looked at.
func TestStale(t *testing.T) {
	var tokens []string
	faults, reads, patches := operator(&tokens, ends), 0, 0
	patch := faults.Patch
	faults.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
		opts ...client.PatchOption) error {
		patches++
		return patch(ctx, c, o, p, opts...)
	}
	faults.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
		opts ...client.GetOption) error {
		if err := c.Get(ctx, key, o, opts...); err != nil {
			return err
		}
		if reads++; reads != 2 {
			return nil
		}
		other := &v1alpha1.StorageCluster{}
		if err := c.Get(ctx, key, other); err != nil {
			return err
		}
		other.Labels = map[string]string{"somebody": "else"}
		return c.Update(ctx, other)
	}
	s := plugintest.New(t, nil, faults, plugintest.Held())
	if code := root.Run(t.Context(), s.Env, []string{"resume", "h-b2f074", "retry", "-y"}); code != exit.Done ||
		patches != 2 || len(tokens) != 1 {
		t.Errorf("code %d after %d writes, answered %q: %s", code, patches, tokens, s.Err)
	}
}

// TestIgnored: the operator says why it does not follow the answer; what it said of an earlier one is no matter.
func TestIgnored(t *testing.T) {
	event := func(name, note string) *corev1.Event {
		return plugintest.Warning(name, "ResumeIgnored", note, time.Minute)
	}
	var tokens []string
	faults := operator(&tokens, nil)
	patch := faults.Patch
	faults.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
		opts ...client.PatchOption) error {
		if err := c.Create(ctx, event("new", "no open hold has the id h-b2f074 (none is open)")); err != nil {
			return err
		}
		return patch(ctx, c, o, p, opts...)
	}
	s := plugintest.New(t, nil, faults, plugintest.Held(), event("old", "hold h-b2f074 has no option"))
	if code := root.Run(t.Context(), s.Env, []string{"resume", "h-b2f074", "retry", "-y"}); code != exit.Failed ||
		!strings.Contains(s.Err.String(), "ignored the annotation: no open hold") {
		t.Errorf("code %d: %s", code, s.Err)
	}
}

// TestForbidden: the error names the right that is missing.
func TestForbidden(t *testing.T) {
	faults := plugintest.Faults{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch,
		...client.PatchOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "storage.linstor.dev", Resource: "storageclusters"},
			v1alpha1.ClusterName, nil)
	}}
	s := plugintest.New(t, nil, faults, plugintest.Held())
	code := root.Run(t.Context(), s.Env, []string{"resume", "h-b2f074", "retry", "-y"})
	if want := "not allowed to patch storageclusters.storage.linstor.dev linstor"; code != exit.Failed ||
		!strings.Contains(s.Err.String(), want) {
		t.Errorf("code %d: %s", code, s.Err)
	}
}

// TestCompletion offers what the status does.
func TestCompletion(t *testing.T) {
	s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Held())
	for args, want := range map[string]string{"": "h-0a11ce", "h-b2f074": "use-existing"} {
		s.Out.Reset()
		call := append(append([]string{"__complete", "resume"}, strings.Fields(args)...), "")
		if code := root.Run(t.Context(), s.Env, call); code != exit.Done || !strings.Contains(s.Out.String(), want) {
			t.Errorf("after %q: code %d: %s", args, code, s.Out)
		}
	}
}
