package nodespec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
)

func TestPicks(t *testing.T) {
	type expression = nodespec.NodeSelectorRequirement
	term := func(all ...expression) nodespec.NodeSelectorTerm {
		return nodespec.NodeSelectorTerm{MatchExpressions: all}
	}
	is := func(key string, operator corev1.NodeSelectorOperator, values ...string) expression {
		return expression{Key: key, Operator: operator, Values: values}
	}
	node := map[string]string{"zone": "a", "disk": "ssd", "slots": "8", "empty": ""}
	for name, tc := range map[string]struct {
		selector map[string]string
		terms    []nodespec.NodeSelectorTerm
		want     bool
	}{
		"nothing":           {want: true},
		"a label":           {selector: map[string]string{"zone": "a"}, want: true},
		"another label":     {selector: map[string]string{"zone": "b"}},
		"In":                {terms: []nodespec.NodeSelectorTerm{term(is("zone", "In", "b", "a"))}, want: true},
		"not In":            {terms: []nodespec.NodeSelectorTerm{term(is("zone", "In", "b", "c"))}},
		"NotIn":             {terms: []nodespec.NodeSelectorTerm{term(is("zone", "NotIn", "b"))}, want: true},
		"NotIn of no label": {terms: []nodespec.NodeSelectorTerm{term(is("rack", "NotIn", "b"))}, want: true},
		"Exists":            {terms: []nodespec.NodeSelectorTerm{term(is("empty", "Exists"))}, want: true},
		"does not exist":    {terms: []nodespec.NodeSelectorTerm{term(is("rack", "Exists"))}},
		"DoesNotExist":      {terms: []nodespec.NodeSelectorTerm{term(is("no-storage", "DoesNotExist"))}, want: true},
		"exists":            {terms: []nodespec.NodeSelectorTerm{term(is("zone", "DoesNotExist"))}},
		"Gt":                {terms: []nodespec.NodeSelectorTerm{term(is("slots", "Gt", "7"))}, want: true},
		"Lt":                {terms: []nodespec.NodeSelectorTerm{term(is("slots", "Lt", "8"))}},
		"Gt of no number":   {terms: []nodespec.NodeSelectorTerm{term(is("zone", "Gt", "7"))}},
		"all expressions":   {terms: []nodespec.NodeSelectorTerm{term(is("zone", "Exists"), is("disk", "In", "x"))}},
		"one of the terms": {terms: []nodespec.NodeSelectorTerm{term(is("x", "Exists")),
			term(is("disk", "Exists"))}, want: true},
		"a term of nothing":        {terms: []nodespec.NodeSelectorTerm{term()}},
		"an expression of nothing": {terms: []nodespec.NodeSelectorTerm{term(is("zone", "In"))}},
		"label and expression": {selector: map[string]string{"zone": "b"},
			terms: []nodespec.NodeSelectorTerm{term(is("disk", "Exists"))}},
	} {
		t.Run(name, func(t *testing.T) {
			var affinity *nodespec.NodeAffinity
			if tc.terms != nil {
				affinity = &nodespec.NodeAffinity{NodeSelectorTerms: tc.terms}
			}
			if got := nodespec.Picks(tc.selector, affinity, node); got != tc.want {
				t.Errorf("picked: %t", got)
			}
		})
	}
	if nodespec.Picks(nil, &nodespec.NodeAffinity{}, node) {
		t.Error("an affinity without terms picks a node")
	}
}
