package invariants

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/kube"
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(begin.Add(time.Duration(seconds) * time.Second))
}

func step(seconds int, from v1alpha1.Phase, event string, to v1alpha1.Phase) v1alpha1.Transition {
	return v1alpha1.Transition{Time: at(seconds), From: from, Event: event, To: to}
}

// version is a sound StorageCluster after the steps, which are given in their order.
func version(steps ...v1alpha1.Transition) *v1alpha1.StorageCluster {
	c := &v1alpha1.StorageCluster{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 2, ResourceVersion: "7"}}
	c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: kube.FieldOwner, Subresource: "status", Time: &metav1.Time{},
		FieldsV1: &metav1.FieldsV1{}}}
	st := &c.Status
	first := at(0)
	st.Phase, st.PhaseSince = v1alpha1.PhasePending, &first
	for _, s := range steps {
		st.History = append([]v1alpha1.Transition{s}, st.History...)
		st.Phase, st.PhaseSince = s.To, &s.Time
	}
	st.History = st.History[:min(len(st.History), historyLength)]
	for _, kind := range conditions.Types() {
		status := metav1.ConditionTrue
		if kind == conditions.Ready || kind == conditions.Suspended {
			status = metav1.ConditionFalse
		}
		st.Conditions = append(st.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "m",
			LastTransitionTime: at(0)})
	}
	return c
}

var (
	accepted = step(1, v1alpha1.PhasePending, "Accepted", v1alpha1.PhaseAssessing)
	module   = step(2, v1alpha1.PhaseAssessing, "ModuleMissing", v1alpha1.PhaseKernelModule)
	database = step(2, v1alpha1.PhaseKernelModule, "Advanced", v1alpha1.PhaseDatabase)
)

func TestStatusSound(t *testing.T) {
	check := &Status{}
	var long []v1alpha1.Transition
	long = append(long, accepted, step(1, v1alpha1.PhaseAssessing, "Converged", v1alpha1.PhaseReady))
	for i := range 15 { // more than the history holds, several in one second
		long = append(long, step(2+i/4, v1alpha1.PhaseReady, "HealthLost", v1alpha1.PhaseDegraded),
			step(2+i/4, v1alpha1.PhaseDegraded, "HealthRegained", v1alpha1.PhaseReady))
	}
	for n := range len(long) + 1 {
		if got := check.Observe(version(long[:n]...)); len(got) > 0 {
			t.Fatalf("after %d steps: %q", n, got)
		}
	}
	again := version(accepted, module)
	again.UID = "another"
	if got := check.Observe(again); len(got) > 0 {
		t.Errorf("another object of that name, first seen after two steps: %q", got)
	}
	if got := check.Observe(&v1alpha1.StorageCluster{ObjectMeta: again.ObjectMeta}); len(got) > 0 {
		t.Errorf("a status that was wiped: %q", got)
	}
	if got := check.Observe(version(accepted)); len(got) > 0 {
		t.Errorf("a new begin: %q", got)
	}
	edited := version(accepted)
	edited.Status.Phase = "FromTheFuture"
	edited.ManagedFields = append(edited.ManagedFields,
		metav1.ManagedFieldsEntry{Manager: "kubectl-edit", Subresource: "status", Time: &metav1.Time{},
			FieldsV1: &metav1.FieldsV1{}})
	if got := check.Observe(edited); len(got) > 0 {
		t.Errorf("somebody else's edit: %q", got)
	}
}

func TestStatusFaults(t *testing.T) {
	tests := map[string]struct {
		change func(c *v1alpha1.StorageCluster)
		want   string
	}{
		"a phase without an event": {func(c *v1alpha1.StorageCluster) { c.Status.Phase = v1alpha1.PhaseReady },
			"a phase was set without an event"},
		"an edge that is none": {func(c *v1alpha1.StorageCluster) {
			c.Status = version(accepted, module, step(3, v1alpha1.PhaseKernelModule, "Converged", v1alpha1.PhaseReady)).Status
		}, "is no edge"},
		"an event that leads elsewhere": {func(c *v1alpha1.StorageCluster) {
			c.Status = version(accepted, module, step(3, v1alpha1.PhaseKernelModule, "Advanced",
				v1alpha1.PhaseController)).Status
		}, "is no edge"},
		"an end without nodes": {func(c *v1alpha1.StorageCluster) {
			*c = *version(accepted, step(1, v1alpha1.PhaseAssessing, "Converged", v1alpha1.PhaseReady))
			c.UID, c.Status.Nodes = "another", v1alpha1.NodesStatus{Members: 3, Total: 3, MinReady: 2}
		}, "Converged led to Ready with 0 of 3 nodes online"},
		"a history that lost its end": {func(c *v1alpha1.StorageCluster) { c.Status.History = c.Status.History[:1] },
			"rewritten"},
		"a history that was rewritten": {func(c *v1alpha1.StorageCluster) { c.Status.History[1].Message = "other" },
			"rewritten"},
		"a history without its last": {func(c *v1alpha1.StorageCluster) { c.Status.History = c.Status.History[1:] },
			"rewritten"},
		"steps that went back in time": {func(c *v1alpha1.StorageCluster) {
			c.Status = version(accepted, module, database,
				step(1, v1alpha1.PhaseDatabase, "Advanced", v1alpha1.PhaseController)).Status
		}, "does not continue"},
		"phaseSince that went back": {func(c *v1alpha1.StorageCluster) { early := at(1); c.Status.PhaseSince = &early },
			"phaseSince went back"},
		"phaseSince without a change": {func(c *v1alpha1.StorageCluster) { late := at(9); c.Status.PhaseSince = &late },
			"although the phase did not"},
		"phaseSince that is not the last": {func(c *v1alpha1.StorageCluster) {
			c.Status = version(accepted, module, database).Status
			late := at(9)
			c.Status.PhaseSince = &late
		}, "the last change of phase was"},
		"no phaseSince": {func(c *v1alpha1.StorageCluster) { c.Status.PhaseSince = nil },
			"phaseSince is absent"},
		"a condition that is absent": {func(c *v1alpha1.StorageCluster) { c.Status.Conditions = c.Status.Conditions[1:] },
			"is absent"},
		"a condition without reason": {func(c *v1alpha1.StorageCluster) { c.Status.Conditions[0].Reason = "" },
			"lacks reason"},
		"a condition of the future": {func(c *v1alpha1.StorageCluster) { c.Status.Conditions[0].ObservedGeneration = 3 },
			"generation to come"},
		"a generation of the future": {func(c *v1alpha1.StorageCluster) { c.Status.ObservedGeneration = 3 },
			"above generation"},
		"too large": {func(c *v1alpha1.StorageCluster) {
			c.Status.Message = strings.Repeat("x",
				statusLimit)
		}, "list without a bound"},
		"a hold while working": {func(c *v1alpha1.StorageCluster) { c.Status.Hold = &v1alpha1.Hold{} },
			"belong together"},
		"no hold while held": {func(c *v1alpha1.StorageCluster) {
			c.Status = version(accepted, module, step(3, v1alpha1.PhaseKernelModule, "HumanNeeded",
				v1alpha1.PhaseHumanIntervention)).Status
		}, "belong together"},
		"a history that is too long": {func(c *v1alpha1.StorageCluster) {
			for range historyLength {
				c.Status.History = append(c.Status.History, accepted)
			}
		}, "entries"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			check := &Status{}
			if got := check.Observe(version(accepted, module)); len(got) > 0 {
				t.Fatalf("before: %q", got)
			}
			c := version(accepted, module)
			tt.change(c)
			if got := strings.Join(check.Observe(c), "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want something with %q", got, tt.want)
			}
		})
	}
}
