package preflight_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/preflight"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
)

// server answers questions about rights as it is told, and lists no kinds but those that the fake one knows.
func server(t *testing.T, allowed bool, list func(client.ObjectList) error) *plugintest.Server {
	t.Helper()
	s := plugintest.New(t, nil, plugintest.Faults{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review, ok := o.(*authorizationv1.SelfSubjectAccessReview)
			if !ok {
				return errors.New("it writes")
			}
			right := review.Spec.ResourceAttributes
			review.Status.Allowed = allowed || right.Verb != "*" && right.Resource != "clusterroles"
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, l client.ObjectList, _ ...client.ListOption) error {
			return list(l)
		},
	})
	return s
}

func readable(client.ObjectList) error { return nil }

func TestPreflight(t *testing.T) {
	unreadable := func(l client.ObjectList) error {
		if _, nodes := l.(*corev1.NodeList); nodes {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
		}
		return nil
	}
	for name, tc := range map[string]struct {
		allowed bool
		list    func(client.ObjectList) error
		args    string
		code    int
		says    string
	}{
		"no nodes":   {true, readable, "", exit.NotWell, "there are no Linux nodes"},
		"no rights":  {false, readable, "", exit.NotWell, "not allowed to create clusterroles, patch clusterroles"},
		"unreadable": {true, unreadable, "", exit.Done, "some data could not be read"},
		"wrong use":  {true, readable, "-o xml", exit.Usage, "--output must be json or yaml"},
		"argument":   {true, readable, "now", exit.Usage, "takes no argument"},
	} {
		s := server(t, tc.allowed, tc.list)
		code := root.Run(t.Context(), s.Env, append([]string{"preflight"}, strings.Fields(tc.args)...))
		said := strings.Join(strings.Fields(s.Out.String()+s.Err.String()), " ")
		if code != tc.code || !strings.Contains(said, tc.says) {
			t.Errorf("%s: code %d, want %d, %q: %s", name, code, tc.code, tc.says, said)
		}
	}
}

// TestStructure: what is printed for programs says the same in both forms.
func TestStructure(t *testing.T) {
	for format, read := range map[string]func([]byte, any) error{"json": json.Unmarshal,
		"yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) }} {
		s := server(t, true, readable)
		root.Run(t.Context(), s.Env, []string{"preflight", "-o", format})
		var got preflight.Findings
		if err := read(s.Out.Bytes(), &got); err != nil || got.Fit || got.State != "bad" || len(got.Items) < 9 {
			t.Errorf("%s: %v, %+v", format, err, got)
		}
	}
}
