package difference

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
)

// TestTakenAddresses: what counts is who has an address of the backup now. A node that is gone, and whose address no
// machine has, is none.
func TestTakenAddresses(t *testing.T) {
	l := &export.Layout{Addresses: []export.Address{{Node: "n1", Address: "10.0.0.1"}, {Node: "N2", Address: "FD00::2"},
		{Node: "n2", Address: "10.0.0.2"}, {Node: "n3", Address: "10.0.0.3"}, {Node: "n3", Address: "10.1.0.3"}}}
	for name, tc := range map[string]struct {
		machines map[string][]string
		want     []TakenAddress
	}{
		"as in the backup": {machines: map[string][]string{"n1": {"10.0.0.1"}, "n2": {"10.0.0.2", "fd00::2"},
			"n3": {"10.0.0.3"}}},
		"a node is gone, and a new one has another address": {machines: map[string][]string{"n7": {"10.0.0.7"}}},
		"a new one has the address of a node that is gone": {machines: map[string][]string{"n7": {"10.0.0.7", "10.0.0.3"}},
			want: []TakenAddress{{"10.0.0.3", "n3", "n7"}}},
		"of one whose Node is there": {machines: map[string][]string{"n3": {"10.0.0.3"}, "n7": {"10.0.0.3"}},
			want: []TakenAddress{{"10.0.0.3", "n3", "n7"}}},
		"a second interface, and IPv6 in another form": {machines: map[string][]string{"n7": {"10.1.0.3", "fd00:0::2"}},
			want: []TakenAddress{{"10.1.0.3", "n3", "n7"}, {"fd00::2", "N2", "n7"}}},
		"two have exchanged theirs": {machines: map[string][]string{"n1": {"10.0.0.2"}, "n2": {"10.0.0.1"}},
			want: []TakenAddress{{"10.0.0.2", "n2", "n1"}, {"10.0.0.1", "n1", "n2"}}},
		"the same address twice": {machines: map[string][]string{"n7": {"10.0.0.3", "10.0.0.3"}},
			want: []TakenAddress{{"10.0.0.3", "n3", "n7"}}},
		"no address": {machines: map[string][]string{"n7": {"", "<none>"}}},
	} {
		if d := cmp.Diff(tc.want, TakenAddresses(l, tc.machines)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	// The backup has the address for the machine itself as well.
	l.Addresses = append(l.Addresses, export.Address{Node: "n7", Address: "10.0.0.3"})
	if got := TakenAddresses(l, map[string][]string{"n7": {"10.0.0.3"}}); got != nil {
		t.Errorf("%+v", got)
	}
}
