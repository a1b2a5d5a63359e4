package operator_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
)

func TestReadManifest(t *testing.T) {
	const whole = `{"apiVersion":"storage.linstor.dev/v1alpha1","kind":"StorageCluster","metadata":{"name":"linstor"},` +
		`"spec":{"version":"1.35.3"}}`
	for name, tc := range map[string]struct{ text, want string }{
		"whole":         {whole, ""},
		"nothing":       {" \n", ""},
		"another kind":  {`{"kind":"Namespace"}`, "is not a StorageCluster"},
		"unknown field": {strings.Replace(whole, "version", "verzion", 1), "verzion"},
		"too large":     {strings.Repeat(" ", 5<<20), "larger than 4 MiB"},
	} {
		c, err := operator.ReadManifest(t.Context(), strings.NewReader(tc.text))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if wants := name == "whole"; (c != nil) != wants {
			t.Errorf("%s: %v", name, c)
		}
	}
}

// TestAManifestIsNotWaitedForForEver: a client that went away may leave the standard input open.
func TestAManifestIsNotWaitedForForEver(t *testing.T) {
	in, out := io.Pipe()
	t.Cleanup(func() { _ = out.Close() })
	late := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if _, err := operator.ReadManifest(ctx, in); !errors.Is(err, late) {
		t.Errorf("%v", err)
	}
}
