// Package linstortest writes what LINSTOR says in words, for tests.
package linstortest

import (
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// Snapshots are snapshots with their nodes: "pvc-1/daily n01 n02". One that is being deleted on a node has "-n01".
func Snapshots(texts ...string) []linstor.Snapshot {
	var out []linstor.Snapshot
	for _, t := range texts {
		words := strings.Fields(t)
		s := linstor.Snapshot{Name: words[0]}
		for _, node := range words[1:] {
			name, deleting := strings.CutPrefix(node, "-")
			if s.Nodes = append(s.Nodes, name); deleting {
				s.Deleting = append(s.Deleting, name)
			}
		}
		out = append(out, s)
	}
	return out
}
