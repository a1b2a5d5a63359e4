package restclient

import (
	"slices"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// TestUnreported: a state that is missing, empty or a word of a later LINSTOR is not reported. It must not make a
// replica good, worthless or busy.
func TestUnreported(t *testing.T) {
	const drbd = `"layer_object":{"type":"DRBD","children":[{"type":"STORAGE"}]}`
	for name, tc := range map[string]struct {
		volumes, layers string
		states          []string
		local           bool
	}{
		"UpToDate":      {`[{"state":{"disk_state":"UpToDate"}}]`, drbd, []string{"UpToDate"}, false},
		"no state":      {`[{}]`, drbd, []string{""}, false},
		"an empty one":  {`[{"state":{}}]`, drbd, []string{""}, false},
		"DUnknown":      {`[{"state":{"disk_state":"DUnknown"}}]`, drbd, []string{"DUnknown"}, false},
		"a later word":  {`[{"state":{"disk_state":"Frobnicated"}}]`, drbd, []string{""}, false},
		"one of two":    {`[{},{"state":{"disk_state":"UpToDate"}}]`, drbd, []string{"", "UpToDate"}, false},
		"without DRBD":  {`[{}]`, `"layer_object":{"type":"STORAGE"}`, []string{""}, true},
		"LUKS, no DRBD": {`[{}]`, `"layer_object":{"type":"LUKS","children":[{"type":"STORAGE"}]}`, []string{""}, true},
		"no layers":     {`[{}]`, `"flags":[]`, []string{""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := threeNodes()
			server.answers["/v1/view/resources"] = `[{"name":"a","node_name":"n1",` + tc.layers + `,"volumes":` +
				tc.volumes + `}]`
			list, err := serve(t, server.ServeHTTP).Resources(t.Context(), linstor.ResourceQuery{})
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			if r := &list[0]; !slices.Equal(r.States, tc.states) || r.Local != tc.local {
				t.Errorf("states %q, local %t", r.States, r.Local)
			}
		})
	}
}

func TestNodeStatusUnreported(t *testing.T) {
	for body, want := range map[string]string{
		`{"name":"n1"}`:                                linstor.StatusUnknown,
		`{"name":"n1","connection_status":""}`:         linstor.StatusUnknown,
		`{"name":"n1","connection_status":"online"}`:   linstor.StatusOnline,
		`{"name":"n1","connection_status":"LATER_ON"}`: "LATER_ON",
	} {
		server := &canned{answers: map[string]string{"/v1/nodes/n1": body}}
		n, err := serve(t, server.ServeHTTP).Node(t.Context(), "n1")
		if err != nil || n.Status != want {
			t.Errorf("%s: %+v, %v", body, n, err)
		}
	}
}
