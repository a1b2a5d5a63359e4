package nodes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

const good = `"volumes":[{"state":{"disk_state":"UpToDate"}}],` + linked

// linked connects a copy to those on the nodes that the tests use.
const linked = `"layer_object":{"type":"DRBD","drbd":{"connections":{"node-1":{"connected":true},` +
	`"node-2":{"connected":true},"node-3":{"connected":true},"node-4":{"connected":true}}}}`

const apart = `"volumes":[{"state":{"disk_state":"UpToDate"}}],"layer_object":{"type":"DRBD","drbd":{"connections":` +
	`{"node-2":{"connected":false,"message":"StandAlone"}}}}`

// TestGoodCopy: the copy elsewhere counts only if it is one that the operator would rely on.
func TestGoodCopy(t *testing.T) {
	const last = "no other node is known to have an up-to-date replica of pvc-1."
	for name, c := range map[string]struct{ elsewhere, want string }{
		"good":            {`"node_name":"node-1",` + good, "Each of these volumes also has an up-to-date replica on"},
		"other case":      {`"node_name":"NODE-1",` + good, "Each of these volumes also has an up-to-date replica on"},
		"split brain":     {`"node_name":"node-1",` + apart, last},
		"being deleted":   {`"node_name":"node-1","flags":["DELETE"],` + good, last},
		"losing its DRBD": {`"node_name":"node-1","flags":["DRBD_DELETE"],` + good, last},
		"being evacuated": {`"node_name":"node-1","flags":["EVACUATE"],` + good, last},
		"evicted":         {`"node_name":"node-1","flags":["EVICTED"],` + good, last},
		"switched off":    {`"node_name":"node-1","flags":["INACTIVE"],` + good, last},
		"created":         {`"node_name":"node-1","volumes":[{"state":{"disk_state":"Created"}}]`, last},
		"no state":        {`"node_name":"node-1"`, last},
		"one volume old": {`"node_name":"node-1","volumes":[{"state":{"disk_state":"UpToDate"}},
			{"state":{"disk_state":"Outdated"}}]`, last},
		"on a node that is kept":    {`"node_name":"node-3",` + good, last},
		"on a node that is offline": {`"node_name":"node-4",` + good, last},
		"on an evicted node":        {`"node_name":"node-5",` + good, last},
		"on a node that is unknown": {`"node_name":"node-6",` + good, last},
	} {
		s := server(t, nil, notices(), func(sc *v1alpha1.StorageCluster, _ *corev1.Node) {
			sc.Status.Nodes.Leaving = []v1alpha1.LeavingNode{{Name: "node-3", State: v1alpha1.LeavingRetained}}
			sc.Status.Nodes.LeavingCount = 1
		})
		list := `[[{"name":"pvc-1","node_name":"node-2",` + good + `},{"name":"PVC-1",` + c.elsewhere + `}]]`
		_, said := run(t, s, linstor(list, nil), "maintenance", "on", "node-2", "-y")
		if !strings.Contains(said, c.want) || strings.Contains(said, "Incomplete: the status names") {
			t.Errorf("%s: no %q in %s", name, c.want, said)
		}
	}
}

// TestWorthless: a copy that is known to be half written is not the last one where there is any other.
func TestWorthless(t *testing.T) {
	const half = `"volumes":[{"state":{"disk_state":"Inconsistent"}}]`
	for list, last := range map[string]bool{
		`[[{"name":"pvc-1","node_name":"node-2",` + half + `},{"name":"pvc-1","node_name":"node-1",` + half + `}]]`: false,
		`[[{"name":"pvc-1","node_name":"node-2",` + half + `}]]`:                                                    true,
	} {
		_, said := run(t, server(t, nil, notices()), linstor(list, nil), "maintenance", "on", "node-2", "-y")
		if got := strings.Contains(said, "LAST REPLICA"); got != last {
			t.Errorf("%s: a last copy %t: %s", list, got, said)
		}
	}
}

// TestErrorsForLists: what LINSTOR says in place of a list is no list without copies.
func TestErrorsForLists(t *testing.T) {
	for _, list := range []string{`[{"ret_code":-1,"message":"the controller is starting"}]`, `[[{"ret_code":-1}]]`,
		`[[{"name":"pvc-1"}]]`, `{}`, ``} {
		code, said := run(t, server(t, nil, notices()), linstor(list, nil), "maintenance", "on", "node-2", "-y")
		if code != exit.Done || strings.Contains(said, "does not have a replica") ||
			!strings.Contains(said, "Could not determine") {
			t.Errorf("%s: code %d: %s", list, code, said)
		}
	}
	_, said := run(t, server(t, nil, notices()), linstor(`[{"message":"the controller is starting"}]`, nil),
		"maintenance", "on", "node-2", "-y")
	expect(t, said, "an entry has no name: the controller is starting")
}

// TestManyVolumes: LINSTOR is asked about the node, and then about its volumes, some at a time.
func TestManyVolumes(t *testing.T) {
	var list []string
	for i := range 250 {
		list = append(list, fmt.Sprintf(`{"name":"pvc-%d","node_name":"node-2",%s}`, i, good))
		if i > 0 {
			list = append(list, fmt.Sprintf(`{"name":"pvc-%d","node_name":"node-1",%s}`, i, good))
		}
	}
	answer, calls := linstor("[["+strings.Join(list, ",")+"]]", nil), []string{}
	counting := func(ctx context.Context, args ...string) ([]byte, error) {
		calls = append(calls, fmt.Sprint(strings.Join(args[3:min(len(args), 6)], " "), " ", len(args)))
		return answer(ctx, args...)
	}
	_, said := run(t, server(t, nil, notices()), counting, "maintenance", "on", "node-2", "-y")
	expect(t, said, "250 volumes have a replica on node-2.", "up-to-date replica of pvc-0.")
	want := "resource list --nodes 7, node list 5, resource list --resources 106, resource list --resources 106, " +
		"resource list --resources 56"
	if got := strings.Join(calls, ", "); got != want {
		t.Errorf("asked for %s", got)
	}
}
