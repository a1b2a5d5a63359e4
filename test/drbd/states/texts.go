package states

import (
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/copies"
)

// Copies are resources: "pvc-1@n01 UpToDate" with flags after it. The state "-" is one that is not known, "LOCAL" that
// of a replica without DRBD, for which LINSTOR reports none. Those of one volume whose states are known are connected
// to each other.
func Copies(texts ...string) []linstor.Resource {
	var out []linstor.Resource
	for _, text := range texts {
		words := strings.Fields(text)
		name, node, _ := strings.Cut(words[0], "@")
		r := linstor.Resource{Name: name, Node: node, Diskful: true, Flags: words[2:], Local: words[1] == "LOCAL"}
		for _, state := range strings.Split(strings.TrimPrefix(words[1], "LOCAL"), ",") {
			r.States = append(r.States, strings.TrimPrefix(state, "-"))
		}
		r.Diskful = !r.HasFlag(linstor.FlagDiskless)
		out = append(out, r)
	}
	Connect(out)
	return out
}

// Connect connects the replicas of each volume whose states are known.
func Connect(all []linstor.Resource) {
	for i := range all {
		for j := range all {
			a, b := &all[i], &all[j]
			if i == j || !strings.EqualFold(a.Name, b.Name) || !copies.HasState(a) || !copies.HasState(b) {
				continue
			}
			if a.Connected == nil {
				a.Connected = map[string]bool{}
			}
			a.Connected[b.Node] = true
		}
	}
}
