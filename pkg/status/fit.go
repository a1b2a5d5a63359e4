package status

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// mostBytes is what a status takes as JSON at most. It leaves room below 64 KiB for what the API server adds.
const mostBytes = 60 << 10

// budget bounds the parts of a status that grow with the number of nodes and the length of their names and messages.
type budget struct {
	// problems and examples are entries of nodes.problems and nodes in each; held are the nodes that a hold lists.
	problems, examples, held, history int
	// text is the length of a message in bytes. JSON may take six for one of them.
	text int
}

// budgets are tried in this order. What is made anew at each look shrinks before what is kept: a hold that lists fewer nodes
// than it counts stops its pool on all nodes that do not have it yet.
var budgets = []budget{
	{problems: mostProblems, examples: 3, held: 50, history: mostHistory, text: 512},
	{problems: 20, examples: 3, held: 50, history: mostHistory, text: 256},
	{problems: 20, examples: 1, held: 10, history: mostHistory, text: 256},
	{problems: 20, examples: 1, held: 3, history: 10, text: 128},
	{problems: 10, examples: 1, held: 1, history: 5, text: 64},
}

// fit shortens lists and messages until the status is small enough, however long the names of nodes and the words of
// others are. Counts stay as they are.
func fit(st *v1alpha1.StorageClusterStatus) {
	for _, b := range budgets {
		if size(st) <= mostBytes {
			return
		}
		b.apply(st)
	}
}

func size(st *v1alpha1.StorageClusterStatus) int {
	data, err := json.Marshal(st)
	if err != nil {
		return 0 // a status is strings, numbers and times; the API server says what is wrong with one that is not
	}
	return len(data)
}

func (b budget) apply(st *v1alpha1.StorageClusterStatus) {
	st.Nodes.Problems = first(st.Nodes.Problems, b.problems)
	for i := range st.Nodes.Problems {
		p := &st.Nodes.Problems[i]
		p.Nodes, p.Message = first(p.Nodes, b.examples), truncateBytes(p.Message, b.text)
	}
	if k := st.KernelModule; k != nil {
		k.Examples = first(k.Examples, b.examples)
	}
	st.History = first(st.History, b.history)
	for i := range st.History {
		st.History[i].Message = truncateBytes(st.History[i].Message, b.text)
	}
	for i := range st.Conditions {
		st.Conditions[i].Message = truncateBytes(st.Conditions[i].Message, b.text)
	}
	for i := range st.Nodes.Leaving {
		st.Nodes.Leaving[i].Message = truncateBytes(st.Nodes.Leaving[i].Message, b.text)
	}
	for i := range st.NodeHolds {
		b.applyHold(&st.NodeHolds[i])
	}
	if st.Hold != nil {
		b.applyHold(st.Hold)
	}
	st.Message = truncateBytes(st.Message, b.text)
}

func (b budget) applyHold(h *v1alpha1.Hold) {
	h.Message = truncateBytes(h.Message, b.text)
	if h.Reason == v1alpha1.HoldDeviceApproval {
		return // bounded when it began; a node that is not listed would not be approved
	}
	h.Nodes = first(h.Nodes, b.held)
	h.Devices = slices.DeleteFunc(slices.Clone(h.Devices), func(d v1alpha1.HoldDevice) bool { return !slices.Contains(h.Nodes, d.Node) })
}

func first[T any](list []T, n int) []T {
	return slices.Clip(list[:min(len(list), n)])
}

// truncateBytes cuts between characters.
func truncateBytes(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	end := n - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
