package taints_test

import (
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/taints"
)

// The page lists exactly the taints of the table.
func TestPassingTaintsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/how-to/remove-a-node.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, p := range taints.All() {
		key := p.Key
		if strings.HasSuffix(key, "/") {
			key += "*"
		}
		joins := "waits"
		if p.Joins {
			joins = "joins"
		}
		if row := "| `" + key + "` | " + p.Whose + " | " + joins + " |\n"; strings.Contains(string(page), row) {
			rows++
		} else {
			t.Errorf("the page lacks the row %s", row)
		}
	}
	if n := strings.Count(string(page), " | waits |") + strings.Count(string(page), " | joins |"); n != rows {
		t.Errorf("%d rows, %d entries", n, rows)
	}
}

func TestTolerated(t *testing.T) {
	taint := &corev1.Taint{Key: "role", Value: "storage", Effect: corev1.TaintEffectNoSchedule}
	for _, tc := range []struct {
		toleration corev1.Toleration
		want       bool
	}{
		{corev1.Toleration{}, false},
		{corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		{corev1.Toleration{Key: "role", Operator: corev1.TolerationOpExists}, true},
		{corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}, false},
		{corev1.Toleration{Key: "role", Value: "storage"}, true},
		{corev1.Toleration{Key: "role", Operator: corev1.TolerationOpEqual, Value: "storage"}, true},
		{corev1.Toleration{Key: "role", Operator: corev1.TolerationOpEqual, Value: "compute"}, false},
		{corev1.Toleration{Key: "role", Value: "storage", Effect: corev1.TaintEffectNoSchedule}, true},
		{corev1.Toleration{Key: "role", Value: "storage", Effect: corev1.TaintEffectNoExecute}, false},
		{corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, false},
	} {
		if got := taints.Tolerated([]v1alpha1.Toleration{v1alpha1.Toleration(tc.toleration)}, taint); got != tc.want {
			t.Errorf("%+v: tolerated %t", tc.toleration, got)
		}
		if want := tc.toleration.ToleratesTaint(logr.Discard(), taint, false); tc.want != want {
			t.Errorf("%+v: the table says %t, Kubernetes %t", tc.toleration, tc.want, want)
		}
	}
}

func TestCounts(t *testing.T) {
	spec := &v1alpha1.NodesSpec{Tolerations: []v1alpha1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}}}
	for _, tc := range []struct {
		key              string
		effect           corev1.TaintEffect
		keepsOut, drives bool // whether it keeps a node out, and drives a member away
	}{
		{"x", corev1.TaintEffectNoSchedule, true, true},
		{"x", corev1.TaintEffectPreferNoSchedule, false, false},
		{"mine", corev1.TaintEffectNoExecute, false, false},
		{"node.kubernetes.io/not-ready", corev1.TaintEffectNoExecute, false, false},
		{"medik8s.io/drain", corev1.TaintEffectNoSchedule, true, false},
		{"medik8s.io/drain-2", corev1.TaintEffectNoSchedule, true, true},
	} {
		taint := &corev1.Taint{Key: tc.key, Effect: tc.effect}
		if got := taints.Counts(spec, taint, true); got != tc.keepsOut {
			t.Errorf("%s: keeps out %t", taint.ToString(), got)
		}
		if got := taints.Counts(spec, taint, false); got != tc.drives {
			t.Errorf("%s: drives away %t", taint.ToString(), got)
		}
	}
}
