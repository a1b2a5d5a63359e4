package root_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
)

// TestUse: wrong use is told on the error stream, with what is right.
func TestUse(t *testing.T) {
	for args, c := range map[string]struct {
		code     int
		out, err string
	}{
		"":                         {exit.Usage, "", "no command specified"},
		"completion":               {exit.Usage, "", `unknown command "completion"`},
		"nonsense":                 {exit.Usage, "", `unknown command "nonsense"; available commands: adopt, backup,`},
		"status now":               {exit.Usage, "", `"kubectl linstor status" takes no arguments, got 1`},
		"status --colour":          {exit.Usage, "", "unknown flag: --colour"},
		"evacuate":                 {exit.Usage, "", "takes one argument, got 0"},
		"--help":                   {exit.Done, "kubectl linstor [command]", ""},
		"resume --help":            {exit.Done, "kubectl linstor resume [[HOLD] OPTION[@NODE,...]]", ""},
		"version --client":         {exit.Done, "v0.0.0-test", ""},
		"help":                     {exit.Done, "evacuate", ""},
		"status --kubeconfig a -h": {exit.Done, "--context", ""},
	} {
		s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Healthy(3))
		code := root.Run(t.Context(), s.Env, strings.Fields(args))
		if code != c.code || !strings.Contains(s.Out.String(), c.out) || !strings.Contains(s.Err.String(), c.err) {
			t.Errorf("%q: code %d\nout: %s\nerr: %s", args, code, s.Out, s.Err)
		}
		if code == exit.Usage && (!strings.Contains(s.Err.String(), "Usage:") || s.Out.Len() > 0) {
			t.Errorf("%q: the usage is not on the error stream", args)
		}
	}
}

// TestVersion says what can be read, and that the rest cannot.
func TestVersion(t *testing.T) {
	s := plugintest.New(t, nil, plugintest.Faults{}, plugintest.Healthy(3))
	code := root.Run(t.Context(), s.Env, []string{"version"})
	for _, want := range []string{"plugin      v0.0.0-test", "linstor     1.35.3", "kubernetes  v1.37.2 at https://",
		"crd         unknown: ", "Deployment storagecluster-operator not found"} {
		if !strings.Contains(s.Out.String(), want) {
			t.Errorf("no %q in %s", want, s.Out)
		}
	}
	if code != exit.Failed { // there is no definition
		t.Errorf("code %d", code)
	}
}

func TestInterrupted(t *testing.T) {
	faults := plugintest.Faults{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
		...client.GetOption) error {
		return context.Canceled
	}}
	s := plugintest.New(t, nil, faults)
	if code := root.Run(t.Context(), s.Env, []string{"status"}); code != exit.Failed ||
		!strings.Contains(s.Err.String(), "interrupted") {
		t.Errorf("code %d: %s", code, s.Err)
	}
}

// TestHostileWords: what a server says in an error, or stands in an image's name, cannot move the cursor.
func TestHostileWords(t *testing.T) {
	const evil = "\x1b]0;title\x07\u009b1m"
	faults := plugintest.Faults{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.Join(errors.New("first"+evil), errors.New("second"+evil))
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if list, ok := l.(*appsv1.DeploymentList); ok {
				d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "storagecluster-operator"}}
				d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "operator" + evil}}
				list.Items = append(list.Items, d)
				return nil
			}
			return c.List(ctx, l, opts...)
		}}
	for _, command := range []string{"status", "version", "status " + evil} {
		s := plugintest.New(t, nil, faults)
		root.Run(t.Context(), s.Env, strings.Split(command, " "))
		if said := s.Out.String() + s.Err.String(); strings.ContainsAny(said, "\x1b\x07\u009b") || said == "" {
			t.Errorf("%s: %q", command, said)
		}
	}
}
