package migrating_test

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/migrating"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestTarget: whatever is in the database that the data goes to, before the first import, after it was only compared,
// and after an import was begun, on a server of another kind and of the same.
func TestTarget(t *testing.T) {
	known, strangers := []string{"N01", "n02"}, []string{"old1"}
	for _, tc := range []struct {
		in connection.Contents
		// other and same are what is done on a server of another kind, and of the same: not tried, only compared, tried.
		// I: the data is imported, C: it is only compared, R: that is refused.
		other, same string
	}{
		{connection.Contents{}, "III", "III"},
		{connection.Contents{Nodes: known}, "RRI", "CCC"},
		{connection.Contents{Nodes: strangers}, "RRR", "RRR"},
		{connection.Contents{Nodes: append(strangers, known...)}, "RRR", "CCC"},
		{connection.Contents{LocalID: "another"}, "RRI", "RRI"},
		{connection.Contents{LocalID: "another", Nodes: known}, "RRR", "RRR"},
		{connection.Contents{LocalID: "another", Nodes: strangers}, "RRR", "RRR"},
		{connection.Contents{LocalID: "local-id"}, "RRI", "CCC"},
		{connection.Contents{LocalID: "local-id", Nodes: known}, "RRI", "CCC"},
		{connection.Contents{LocalID: "local-id", Nodes: strangers}, "RRI", "CCC"},
	} {
		for kind, want := range map[string]string{"other": tc.other, "same": tc.same} {
			got := ""
			for _, mark := range []string{"", compared, begun} {
				r := newMove(t)
				if kind == "same" {
					r.atOtherAddress()
				}
				r.Claim(func(c *resources.ClaimData) { c.Moving = mark })
				r.Database.Contents = tc.in
				in, _ := r.Input()
				got += migrating.OnTarget(in.Snapshot)
			}
			if got != want {
				t.Errorf("%s kind, it holds [%s]: %s, want %s", kind, &tc.in, got, want)
			}
		}
	}
}
