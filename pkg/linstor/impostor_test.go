package linstor

import "testing"

func TestImpostor(t *testing.T) {
	for _, tc := range []struct {
		name, node, status, uname string
		ours                      bool // registered by the operator
		impostor                  string
	}{
		{"itself", "n1", StatusOnline, "n1", true, ""},
		{"never connected", "n1", StatusOnline, "", true, ""},
		{"another case", "N1", StatusOnline, "n1", true, ""},
		{"with its domain", "n1", StatusOnline, "n1.example.com", false, ""},
		{"registered with its domain", "n1.example.com", StatusOnline, "N1", false, ""},
		{"a longer name", "n1", StatusOnline, "n1.rack2.example", true, "n1.rack2.example"},
		{"a shorter name", "n1.rack1.example", StatusOnline, "n1", true, "n1"},
		{"another domain", "n1.rack1.example", StatusOnline, "n1.rack2.example", false, "n1.rack2.example"},
		{"a name that begins alike", "n1", StatusOnline, "n10", false, "n10"},
		{"another machine", "n1", StatusOnline, "n9", true, "n9"},
		{"another machine that connects", "n1", StatusConnected, "n9", true, "n9"},
		{"another machine was there", "n1", StatusOffline, "n9", true, ""},
	} {
		n := &Node{Name: tc.node, Status: tc.status, Properties: map[string]string{PropUname: tc.uname}}
		if tc.ours {
			n.Properties[PropNodeUID] = "uid"
		}
		if got := n.Impostor(); got != tc.impostor {
			t.Errorf("%s: %q", tc.name, got)
		}
		if got := n.Online(); got != (tc.status == StatusOnline && tc.impostor == "") {
			t.Errorf("%s: online %t", tc.name, got)
		}
	}
}

// The impostor's copies are made of the volumes that LINSTOR sent it: they say nothing of the node's own.
func TestCopiesOfAnImpostorAreUnknown(t *testing.T) {
	used := true
	v := &View{Nodes: map[string]*Node{
		"n1": {Name: "n1", Status: StatusOnline, Properties: map[string]string{PropUname: "n9"}},
		"n2": {Name: "n2", Status: StatusOnline, Properties: map[string]string{PropUname: "n2"}},
	}}
	v.SetResources([]Resource{{Name: "a", Node: "n1", Diskful: true, States: []string{"UpToDate"}, InUse: &used},
		{Name: "a", Node: "n2", Diskful: true, States: []string{"UpToDate"}}})
	if r := v.Resources[0]; r.UpToDate() || r.InUse != nil || !v.Resources[1].UpToDate() || !v.ResourcesKnown {
		t.Errorf("resources %+v", v.Resources)
	}
}
