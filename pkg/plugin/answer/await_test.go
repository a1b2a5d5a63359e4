package answer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
)

// resume answers the hold of a held cluster.
func resume(t *testing.T, s *plugintest.Server, args ...string) (int, string) {
	t.Helper()
	code := root.Run(t.Context(), s.Env, append([]string{"resume", "h-b2f074", "retry", "-y"}, args...))
	return code, strings.Join(strings.Fields(s.Out.String()+" "+s.Err.String()), " ")
}

// TestToldByAnEvent: the phase may have gone on before anybody looked.
func TestToldByAnEvent(t *testing.T) {
	var tokens []string
	event := plugintest.Warning("e", "Assessing", "HumanIntervention → Assessing: hold h-b2f074 was resumed with retry",
		time.Second)
	s := plugintest.New(t, nil, operator(&tokens, byItself), plugintest.Held(), event)
	if code, said := resume(t, s); code != exit.Done || !strings.Contains(said, "was resumed with retry.") {
		t.Errorf("code %d: %s", code, said)
	}
}

// TestColleague: another answer, or a suspension, that came while the user was asked is not written over.
func TestColleague(t *testing.T) {
	for name, c := range map[string]struct {
		before string
		change func(*v1alpha1.StorageCluster)
		code   int
		says   string
	}{
		"another answer": {"", func(sc *v1alpha1.StorageCluster) {
			sc.Annotations = map[string]string{v1alpha1.AnnotationResume: "h-b2f074:skip"}
		}, exit.Failed, `the resume annotation was set to "h-b2f074:skip" in the meantime`},
		"one in place of that which was shown": {"h-000000:skip", func(sc *v1alpha1.StorageCluster) {
			sc.Annotations = map[string]string{v1alpha1.AnnotationResume: "h-b2f074:skip"}
		}, exit.Failed, `the resume annotation was set to "h-b2f074:skip" in the meantime`},
		"suspended": {"", func(sc *v1alpha1.StorageCluster) { sc.Spec.Suspend = true }, exit.Failed, "spec.suspend is set"},
		"the one that was shown": {"h-000000:skip", func(*v1alpha1.StorageCluster) {}, exit.Done,
			`This replaces the annotation value "h-000000:skip"`},
	} {
		var tokens []string
		faults, reads := operator(&tokens, ends), 0
		faults.Get = func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			sc := &v1alpha1.StorageCluster{}
			if reads++; reads == 2 {
				if err := w.Get(ctx, key, sc); err != nil {
					return err
				}
				c.change(sc)
				if err := w.Update(ctx, sc); err != nil {
					return err
				}
			}
			return w.Get(ctx, key, o, opts...)
		}
		held := plugintest.Held()
		if c.before != "" {
			held.Annotations = map[string]string{v1alpha1.AnnotationResume: c.before}
		}
		s := plugintest.New(t, nil, faults, held)
		code, said := resume(t, s)
		if code != c.code || !strings.Contains(said, c.says) || (len(tokens) > 0) != (code == exit.Done) {
			t.Errorf("%s: code %d, answered %q: %s", name, code, tokens, said)
		}
	}
}

// TestBrokenConnection: looks that fail do not end the wait; where none can succeed any more, it says what stays.
func TestBrokenConnection(t *testing.T) {
	resource := schema.GroupResource{Group: "storage.linstor.dev", Resource: "storageclusters"}
	for name, c := range map[string]struct {
		fault error
		times int
		code  int
		says  string
	}{
		"a restart": {apierrors.NewServiceUnavailable("it restarts"), 3, exit.Done, "was resumed with retry"},
		"it stays away": {apierrors.NewServiceUnavailable("it restarts"), 1000, exit.Failed,
			"get storageclusters.storage.linstor.dev linstor: it restarts"},
		"no right any more": {apierrors.NewForbidden(resource, v1alpha1.ClusterName, nil), 1, exit.Failed,
			"The annotation remains"},
	} {
		var tokens []string
		faults := operator(&tokens, ends)
		faults.Get = func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if len(tokens) > 0 && c.times > 0 {
				c.times--
				return c.fault
			}
			return w.Get(ctx, key, o, opts...)
		}
		s := plugintest.New(t, nil, faults, plugintest.Held())
		if code, said := resume(t, s, "--timeout", "200ms"); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: code %d: %s", name, code, said)
		}
	}
}
