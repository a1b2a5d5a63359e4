package disks_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
)

// TestCommand: what the operator says is shown, and the exit code says whether the edit would be refused.
func TestCommand(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "m.yaml")
	text := "apiVersion: storage.linstor.dev/v1alpha1\nkind: StorageCluster\nmetadata: {name: linstor}\nspec: {}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupKind{Group: "storage.linstor.dev", Kind: "StorageCluster"}
	refused := &result.Disks{Of: result.Edit, Refusals: []result.Refusal{{By: "operator", Message: "unknown version"}}}
	for _, tc := range []struct {
		name, args string
		says       any
		refuses    error
		code       int
		out, err   string
		// edited is true if the operator is asked about another object than the stored one.
		edited bool
	}{
		{name: "stored", says: mixed(), out: "4 nodes, 10 disks: 2 in a pool"},
		{name: "a node", args: "node-1", says: mixed(), out: "✔ /dev/nvme0n1"},
		{name: "two nodes", args: "node-4 node-1", says: mixed(), out: "2 nodes, 2 disks"},
		{name: "no such node", args: "node-9", says: mixed(), code: exit.Failed, err: "node node-9 is not part of the"},
		{name: "json", args: "-o json node-2", says: mixed(), out: `"fate": "NeedsAnswer"`},
		{name: "xml", args: "-o xml", says: mixed(), code: exit.Usage, err: "json or yaml"},
		{name: "an edit", args: "-f " + manifest, says: mixed(), out: "4 nodes", edited: true},
		{name: "an edit that the operator refuses", args: "-f " + manifest, says: refused, code: exit.WouldBeRefused,
			out: "✘ rejected by operator: unknown version", edited: true},
		{name: "an edit that the API server refuses", args: "-f " + manifest + " node-1", says: mixed(),
			refuses: apierrors.NewInvalid(kind, "linstor", nil), code: exit.WouldBeRefused, out: "✘ rejected by API server"},
		{name: "no file", args: "-f " + manifest + "x", says: mixed(), code: exit.Failed, err: "no such file"},
		{name: "no list", says: map[string]string{}, code: exit.Failed, err: "not a list of disks"},
		{name: "an error", says: errors.New("no pod is ready"), code: exit.Failed, err: "no pod is ready"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := plugintest.New(t, nil, plugintest.Faults{Patch: func(context.Context, client.WithWatch, client.Object,
				client.Patch, ...client.PatchOption) error {
				return tc.refuses
			}}, plugintest.Healthy(3))
			s.Env.Width = 120
			given := ""
			s.Cluster(t).Disks = func(_ context.Context, manifest []byte) ([]byte, error) {
				given = string(manifest)
				if err, failed := tc.says.(error); failed {
					return nil, err
				}
				return json.Marshal(tc.says)
			}
			code := root.Run(t.Context(), s.Env, append([]string{"disks"}, strings.Fields(tc.args)...))
			if code != tc.code || !strings.Contains(s.Out.String(), tc.out) || !strings.Contains(s.Err.String(), tc.err) {
				t.Errorf("code %d: %s%s", code, s.Out, s.Err)
			}
			if tc.edited != strings.Contains(given, "StorageCluster") {
				t.Errorf("the operator was asked about %s", given)
			}
		})
	}
}
