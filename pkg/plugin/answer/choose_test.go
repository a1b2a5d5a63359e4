package answer

import (
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
)

// only is a status with a single hold.
func only() *v1alpha1.StorageClusterStatus {
	st := &plugintest.Held().Status
	st.NodeHolds = nil
	return st
}

func TestChoose(t *testing.T) {
	both := &plugintest.Held().Status
	for name, c := range map[string]struct {
		status *v1alpha1.StorageClusterStatus
		args   string
		nodes  []string
		token  string
		fails  string // part of the error
	}{
		"the only hold":          {only(), "retry", nil, "h-b2f074:retry", ""},
		"by its id":              {both, "h-b2f074 skip", nil, "h-b2f074:skip", ""},
		"a hold of nodes":        {both, "h-0a11ce approve", nil, "h-0a11ce:approve", ""},
		"as the annotation":      {both, "h-0a11ce:approve", nil, "h-0a11ce:approve", ""},
		"some nodes":             {both, "h-b2f074 skip@node-3", nil, "h-b2f074:skip@node-3", ""},
		"some nodes by the flag": {both, "h-b2f074:skip", []string{"node-3", "node-2"}, "h-b2f074:skip@node-2,node-3", ""},
		"a node twice":           {only(), "skip@node-2,node-2", nil, "h-b2f074:skip@node-2", ""},
		"blanks":                 {only(), "skip@node-2,\u00a0node-3", nil, "h-b2f074:skip@node-2,node-3", ""},
		"several holds": {both, "retry", nil, "",
			"2 holds are open; specify one: h-b2f074 (DeviceNotEmpty), h-0a11ce (DeviceApproval)"},
		"an id alone": {both, "h-b2f074", nil, "",
			"also specify an option for hold h-b2f074: retry, skip, use-existing"},
		"an id of before": {both, "h-000000 retry", nil, "", "no open hold has the ID h-000000; open holds: h-b2f074"},
		"an option of another one": {both, "h-b2f074 approve", nil, "",
			`has no option "approve"; available options: retry, skip, use-existing`},
		"a node of another one": {both, "h-b2f074 skip@node-1", nil, "",
			`does not affect node "node-1"; affected nodes: node-2, node-3`},
		"a node without a name": {both, "h-b2f074 skip@", nil, "", "empty node name"},
		"no option":             {both, "h-b2f074:", nil, "", "specify one of the hold's options"},
		"nothing to answer":     {&v1alpha1.StorageClusterStatus{}, "retry", nil, "", "no hold is open"},
	} {
		got, err := Choose(c.status, strings.Split(c.args, " "), c.nodes)
		switch {
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: error %v, want %q", name, err, c.fails)
		case c.fails == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.fails == "" && got.Token() != c.token:
			t.Errorf("%s: token %q, want %q", name, got.Token(), c.token)
		}
	}
}

// TestSame: an answer is for what was read. A hold that decides about no data may take in nodes meanwhile.
func TestSame(t *testing.T) {
	of := func(h v1alpha1.Hold) *statusview.Hold { out := statusview.HoldOf(&h, false); return &out }
	approval := plugintest.Held().Status.NodeHolds[0]
	other := approval
	other.Devices = append([]v1alpha1.HoldDevice{}, approval.Devices...)
	other.Devices[0].Serial = "ZA999999"
	if !same(of(approval), of(approval)) || same(of(approval), of(other)) {
		t.Error("another disk is another question")
	}
	stuck := plugintest.Hold("h-1", v1alpha1.HoldEvacuationStuck, "", "n1")
	more := plugintest.Hold("h-1", v1alpha1.HoldEvacuationStuck, "", "n1", "n2")
	if !same(of(stuck), of(more)) {
		t.Error("one node more that is stuck is the same question")
	}
	broken := plugintest.Hold("h-1", v1alpha1.HoldPoolBackendMissing, "", "n1", "n2")
	third := plugintest.Hold("h-1", v1alpha1.HoldPoolBackendMissing, "", "n1", "n2", "n3")
	if !same(of(broken), of(third)) {
		t.Error("to look again is the same for one node more")
	}
	missing := plugintest.Hold("h-1", v1alpha1.HoldDeviceMissing, "", "n1", "n2")
	if last := plugintest.Hold("h-1", v1alpha1.HoldDeviceMissing, "", "n1", "n2", "n3"); same(of(missing), of(last)) {
		t.Error("to skip a pool on one node more is another question")
	}
}
