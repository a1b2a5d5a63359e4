package phases

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// copyOf is a copy of a volume: "pvc-1@n01 UpToDate" with flags after it. The state "-" is one that is not known.
func copyOf(text string) linstor.Resource {
	words := strings.Fields(text)
	name, node, _ := strings.Cut(words[0], "@")
	r := linstor.Resource{Name: name, Node: node, Diskful: true, Flags: words[2:]}
	for _, state := range strings.Split(words[1], ",") {
		r.States = append(r.States, strings.TrimPrefix(state, "-"))
	}
	if r.HasFlag(linstor.FlagDiskless) {
		r.Diskful = false
	}
	return r
}

func copiesOf(texts ...string) []linstor.Resource {
	var out []linstor.Resource
	for _, t := range texts {
		out = append(out, copyOf(t))
	}
	return out
}

func TestLastReplicas(t *testing.T) {
	for _, tc := range []struct {
		name   string
		copies []string
		want   []string
	}{
		{"another good one", []string{"a@n01 UpToDate", "a@n02 UpToDate"}, nil},
		{"whatever the case of the names", []string{"a@N01 UpToDate", "A@n02 UpToDate"}, nil},
		{"the only one", []string{"a@n01 UpToDate", "b@n02 UpToDate"}, []string{"a"}},
		{"the only one in any state", []string{"a@n01 Inconsistent", "b@n01 -", "c@n01 Outdated", "d@n01 Failed"}, []string{"a", "b", "c", "d"}},
		{"not a copy", []string{"a@n01 Diskless DISKLESS", "a@n02 -"}, nil},
		{"the other is half written", []string{"a@n01 UpToDate", "a@n02 Inconsistent"}, []string{"a"}},
		{"the other is not known", []string{"a@n01 UpToDate", "a@n02 -"}, []string{"a"}},
		{"the other is old", []string{"a@n01 UpToDate", "a@n02 Outdated"}, []string{"a"}},
		{"one volume of the other is not good", []string{"a@n01 UpToDate,UpToDate", "a@n02 UpToDate,Inconsistent"}, []string{"a"}},
		{"the other is a client", []string{"a@n01 UpToDate", "a@n02 UpToDate DISKLESS"}, []string{"a"}},
		{"the other is offline", []string{"a@n01 UpToDate", "a@off UpToDate"}, []string{"a"}},
		{"the other leaves", []string{"a@n01 UpToDate", "a@leaves UpToDate"}, []string{"a"}},
		{"nobody knows the other's node", []string{"a@n01 UpToDate", "a@stranger UpToDate"}, []string{"a"}},
		{"the other is being deleted", []string{"a@n01 UpToDate", "a@n02 UpToDate DELETE"}, []string{"a"}},
		{"the other is evicted", []string{"a@n01 UpToDate", "a@n02 UpToDate INACTIVE EVICTED"}, []string{"a"}},
		{"the other is evacuated as well", []string{"a@n01 UpToDate", "a@n02 UpToDate EVACUATE"}, []string{"a"}},
		{"the third is good", []string{"a@n01 UpToDate", "a@n02 -", "a@n03 UpToDate"}, nil},
		{"half written here, unknown there", []string{"a@n01 Inconsistent", "a@n02 -"}, nil},
		{"half written in part here, unknown there", []string{"a@n01 Inconsistent,UpToDate", "a@n02 -"}, []string{"a"}},
		{"unknown on both sides", []string{"a@n01 -", "a@n02 -"}, []string{"a"}},
		{"no volume is known here", []string{"z@n01 UpToDate", "a@n01 UpToDate"}, []string{"a", "z"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 3)
			v := w.linstor.View
			v.Nodes["off"] = &linstor.Node{Name: "off", Status: linstor.StatusOffline}
			v.Nodes["leaves"] = &linstor.Node{Name: "leaves", Status: linstor.StatusOnline}
			leaving := func(name string) bool { return name == "leaves" }
			if d := cmp.Diff(tc.want, LastReplicas(copiesOf(tc.copies...), "n01", stays(v.Nodes, leaving))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCheckLastReplicasLooksAgain(t *testing.T) {
	w := newWorld(t, 3)
	in, r := w.input()
	check := func(copies ...string) error {
		now := *w.linstor.View
		now.Resources = copiesOf(copies...)
		r.now = &now
		return in.CheckLastReplicas(t.Context(), "n01")
	}
	if err := check("a@n01 UpToDate", "a@n02 UpToDate", "b@n02 UpToDate"); err != nil {
		t.Error(err)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	var last *LastReplicaError
	if err := check("a@n01 UpToDate", "a@n02 Inconsistent"); !errors.As(err, &last) || last.Node != "n01" || !cmp.Equal(last.Resources, []string{"a"}) {
		t.Errorf("error is %v", err)
	}
	// What LINSTOR does not answer is not a yes.
	r.fail["resources"] = errors.New("refused")
	if err := check("a@n01 UpToDate", "a@n02 UpToDate"); !errors.Is(err, r.fail["resources"]) {
		t.Errorf("error is %v", err)
	}
	delete(r.fail, "resources")
	r.fail["view"] = errors.New("refused")
	if err := check("a@n01 UpToDate", "a@n02 UpToDate"); !errors.Is(err, r.fail["view"]) {
		t.Errorf("error is %v", err)
	}
}

func TestLastReplicaErrorNamesSome(t *testing.T) {
	e := &LastReplicaError{Node: "n01"}
	for i := range 12 {
		e.Resources = append(e.Resources, fmt.Sprintf("pvc-%02d", i))
	}
	if text := e.Error(); !strings.Contains(text, "12 volumes: pvc-00, ") || !strings.HasSuffix(text, "pvc-09 and 2 more") {
		t.Error(text)
	}
}
