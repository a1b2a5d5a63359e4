package upgrade_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/upgrade"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// scenario is a world in the phase Upgrading, and what becomes of it there.
type scenario struct {
	name string
	step v1alpha1.UpgradeStep
	// before changes the world before the upgrade begins, spoil when it is in its step.
	before, spoil func(*clustertest.World)
	// rule is the row that decides.
	rule string
	// event leaves the phase without a hold; "" if it stays.
	event fsm.Event
	hold  v1alpha1.HoldReason
	// says is part of the outcome's message.
	says string
	// claim is what is written to the claim; nil if nothing is.
	claim []string
	// overdue is the hold once the deadline of the step has passed; "" if that is not looked at.
	overdue v1alpha1.HoldReason
}

var (
	began    = clustertest.Begin.Format(time.RFC3339)
	crossed  = []string{clustertest.FromVersion, clustertest.ToVersion, began, ""}
	finished = []string{clustertest.ToVersion, "", "", ""}
)

// backed is the claim once it was settled what became of the backup.
func backed(how string) []string {
	return []string{clustertest.FromVersion, clustertest.ToVersion, began, how}
}

func (tc *scenario) check(t *testing.T) {
	w := clustertest.NewWorld(t, 4)
	if tc.before != nil {
		tc.before(w)
	}
	w.Upgrading(tc.step)
	if tc.spoil != nil {
		tc.spoil(w)
	}
	in, r := w.Input()
	if got := upgrade.Row(in); got != tc.rule {
		t.Errorf("row %q decides, want %q", got, tc.rule)
	}
	o := phases.Decide(t.Context(), in)
	event, hold := tc.event, v1alpha1.HoldReason("")
	if tc.hold != "" {
		event = fsm.HumanNeeded
	}
	if o.Hold != nil {
		hold = o.Hold.Reason
	}
	if o.Event != event || hold != tc.hold || !strings.Contains(o.Message, tc.says) {
		t.Errorf("outcome %+v, want event %q, hold %q and a message with %q", o, event, tc.hold, tc.says)
	}
	if tc.event != "" && len(r.Calls)+len(r.Queued) > 0 {
		t.Errorf("leaves the phase after %v and %v", r.Calls, r.Keys())
	}
	var claim []string
	if c := clustertest.AppliedClaim(t, r); c != nil {
		claim = []string{c.Version, c.UpgradeTo, c.UpgradeSince, c.BackupRead}
	}
	if d := cmp.Diff(tc.claim, claim); d != "" {
		t.Errorf("claim: %s", d)
	}
	if tc.overdue != "" {
		tc.checkOverdue(t, w)
	}
}

// checkOverdue looks again when the deadline of the step has passed.
func (tc *scenario) checkOverdue(t *testing.T, w *clustertest.World) {
	w.Phase(v1alpha1.PhaseUpgrading, 2*time.Hour)
	in, _ := w.Input()
	o := phases.Decide(t.Context(), in)
	if o.Hold == nil || o.Hold.Reason != tc.overdue {
		t.Fatalf("after the deadline: %+v, want the hold %s", o, tc.overdue)
	}
	if offered := o.Hold.Options == nil || slices.Contains(o.Hold.Options, v1alpha1.OptionSkipChecks); offered !=
		(len(o.Hold.Identities) > 0) {
		t.Errorf("skip-checks is offered: %t, for %v", offered, o.Hold.Identities)
	}
}

func offline(nodes ...string) func(*clustertest.World) {
	return func(w *clustertest.World) {
		for _, n := range nodes {
			w.Node(n).Status = linstor.StatusOffline
		}
	}
}

// failed is a world whose nodes failed a minute ago.
func failed(nodes ...string) func(*clustertest.World) {
	return func(w *clustertest.World) {
		for _, n := range nodes {
			w.NodeDown(n, time.Minute)
		}
	}
}

// maintained is a world whose node n02 is offline and under maintenance.
func maintained(w *clustertest.World) {
	offline("n02")(w)
	w.KubeNode("n02").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
}

// waived is an answer to an earlier hold: this upgrade goes on without the checks of a step.
func waived(text string) func(*clustertest.World) {
	return func(w *clustertest.World) { w.Claim(func(c *resources.ClaimData) { c.SkippedChecks = text }) }
}

// external puts LINSTOR's database onto a server of its own.
func external(w *clustertest.World) {
	w.Cluster.Spec.Database.PostgreSQL = &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}
	w.Secret("db", map[string]string{"username": "u", "password": "p"})
}

// all does several things to a world.
func all(fs ...func(*clustertest.World)) func(*clustertest.World) {
	return func(w *clustertest.World) {
		for _, f := range fs {
			f(w)
		}
	}
}

// Each row decides in a scenario, and has a name of its own.
func TestEveryRowDecides(t *testing.T) {
	reached := map[string]bool{}
	for _, tc := range slices.Concat(precheckScenarios(), controllerScenarios(), satelliteScenarios(),
		verifyScenarios(), endScenarios()) {
		reached[tc.rule] = true
	}
	for _, tc := range stepScenarios() {
		reached[tc.rule] = true
	}
	for _, tc := range heldScenarios() {
		reached[tc.rule] = true
	}
	rows := upgrade.Rows()
	slices.Sort(rows)
	if d := cmp.Diff(rows, slices.Sorted(maps.Keys(reached))); d != "" {
		t.Errorf("rows (-), and those that decide in a scenario (+): %s", d)
	}
}
