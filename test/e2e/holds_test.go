package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// holdScenarios has one scenario for each reason of a hold: it reaches the hold, looks at what it shows, and ends it
// in each way that its class allows.
var holdScenarios = map[v1alpha1.HoldReason]func(*testing.T){
	v1alpha1.HoldKernelModuleFailed:       holdKernelModuleFailed,
	v1alpha1.HoldSigningKeyUnusable:       holdSigningKeyUnusable,
	v1alpha1.HoldDatabaseUnreachable:      holdDatabaseUnreachable,
	v1alpha1.HoldPassphraseUnusable:       holdPassphraseUnusable,
	v1alpha1.HoldControllerFailed:         holdControllerFailed,
	v1alpha1.HoldSatellitesFailed:         holdSatellitesFailed,
	v1alpha1.HoldNodeRegistrationFailed:   holdNodeRegistrationFailed,
	v1alpha1.HoldSatelliteVersionMismatch: holdSatelliteVersionMismatch,
	v1alpha1.HoldPoolBackendMissing:       holdPoolBackendMissing,
	v1alpha1.HoldDeviceMissing:            holdDeviceMissing,
	v1alpha1.HoldStoragePoolsFailed:       holdStoragePoolsFailed,
	v1alpha1.HoldVolumeDriverFailed:       holdVolumeDriverFailed,
	v1alpha1.HoldForeignDriverFound:       holdForeignDriverFound,
	v1alpha1.HoldCanaryFailed:             holdCanaryFailed,
	v1alpha1.HoldNoMatchingNodes:          holdNoMatchingNodes,
	v1alpha1.HoldEtcdStuck:                holdEtcdStuck,
	v1alpha1.HoldEtcdMemberDown:           holdEtcdMemberDown,
	v1alpha1.HoldEtcdUnreachable:          holdEtcdUnreachable,
	v1alpha1.HoldEtcdNoSpace:              holdEtcdNoSpace,
	v1alpha1.HoldEtcdQuorumLost:           holdEtcdQuorumLost,
	v1alpha1.HoldEtcdMembersChanged:       holdEtcdMembersChanged,
	v1alpha1.HoldEtcdCorruptAlarm:         holdEtcdCorruptAlarm,
	v1alpha1.HoldEtcdOtherCluster:         holdEtcdOtherCluster,
	v1alpha1.HoldEtcdNotesLost:            holdEtcdNotesLost,
	v1alpha1.HoldMassFailure:              holdMassFailure,
	v1alpha1.HoldSecureBootKeyMissing:     holdSecureBootKeyMissing,
	v1alpha1.HoldForeignLinstorFound:      holdForeignLinstorFound,
	v1alpha1.HoldKubernetesRestored:       holdKubernetesRestored,
	v1alpha1.HoldDeviceNotEmpty:           holdDeviceNotEmpty,
	v1alpha1.HoldDeviceApproval:           holdDeviceApproval,
	v1alpha1.HoldPoolBackendLost:          holdPoolBackendLost,
	v1alpha1.HoldVolumesUnknown:           holdVolumesUnknown,
	v1alpha1.HoldMachineReplaced:          holdMachineReplaced,
	v1alpha1.HoldNodeGone:                 holdNodeGone,
	v1alpha1.HoldTooManyNodesLeaving:      holdTooManyNodesLeaving,
	v1alpha1.HoldEvacuationStuck:          holdEvacuationStuck,
	v1alpha1.HoldLastReplicaAtRisk:        holdLastReplicaAtRisk,
	v1alpha1.HoldUpgradeBlocked:           holdUpgradeBlocked,
	v1alpha1.HoldUpgradeStuck:             holdUpgradeStuck,
	v1alpha1.HoldBackupTooOld:             holdBackupTooOld,
	v1alpha1.HoldRestoreRequested:         holdRestoreRequested,
	v1alpha1.HoldRestoreFailed:            holdRestoreFailed,
	v1alpha1.HoldMigrationFailed:          holdMigrationFailed,
	v1alpha1.HoldUnsupportedChange:        holdUnsupportedChange,
	v1alpha1.HoldPoolConflict:             holdPoolConflict,
	v1alpha1.HoldOperationFailed:          holdOperationFailed,
}

func TestHolds(t *testing.T) {
	t.Parallel()
	for _, k := range holdkind.All() {
		t.Run(string(k.Reason), func(t *testing.T) {
			if scenario := holdScenarios[k.Reason]; scenario != nil {
				scenario(t)
			}
		})
	}
}

// TestEveryHoldHasItsScenario is told before any cluster starts.
func TestEveryHoldHasItsScenario(t *testing.T) {
	for _, k := range holdkind.All() {
		if holdScenarios[k.Reason] == nil {
			t.Errorf("no scenario reaches the hold %s: write one, and name it in holdScenarios", k.Reason)
		}
	}
	for r := range holdScenarios {
		if !slices.ContainsFunc(holdkind.All(), func(k holdkind.Kind) bool { return k.Reason == r }) {
			t.Errorf("the scenario %s is for a reason that the API does not know", r)
		}
	}
}

// settle is how long a test watches that nothing happens. The operator looks at a held cluster several times
// meanwhile.
const settle = 1500 * time.Millisecond

var holdID = regexp.MustCompile(`^h-[0-9a-f]{6}$`)

// held waits for the cluster's hold and checks all the places that show it.
func (e holdEnv) held(r v1alpha1.HoldReason, contains ...string) *v1alpha1.Hold {
	e.T.Helper()
	h := e.WaitHold(r)
	e.checkHeld(e.Get(), h, contains...)
	return h
}

// heldFor is the same where the hold may open before its cause is known, which its message then says.
func (e holdEnv) heldFor(cause string, r v1alpha1.HoldReason, contains ...string) *v1alpha1.Hold {
	e.T.Helper()
	e.WaitHold(r)
	var c *v1alpha1.StorageCluster
	e.Eventually("a hold for "+cause, func() error {
		if c = e.Get(); c.Status.Hold == nil || !strings.Contains(c.Status.Hold.Message, cause) {
			return fmt.Errorf("%s: %s", c.Status.Phase, c.Status.Message)
		}
		return nil
	})
	e.checkHeld(c, c.Status.Hold, contains...)
	return c.Status.Hold
}

// checkHeld checks all that says that the cluster has that hold.
func (e holdEnv) checkHeld(c *v1alpha1.StorageCluster, h *v1alpha1.Hold, contains ...string) {
	e.T.Helper()
	r, phase := h.Reason, v1alpha1.PhaseHumanIntervention
	if r == v1alpha1.HoldVolumesUnknown {
		phase = v1alpha1.PhaseDeleting // a hold of a deletion lies over its phase
	}
	if c.Status.Phase != phase {
		e.T.Errorf("%s: phase is %s, want %s", r, c.Status.Phase, phase)
	}
	if got := harness.Condition(c, conditions.Stalled); got != "True/"+string(r) {
		e.T.Errorf("%s: condition Stalled is %s", r, got)
	}
	if got := harness.Condition(c, conditions.Ready); c.Status.FirstReady == nil && !strings.HasPrefix(got, "False/") {
		e.T.Errorf("%s: condition Ready is %s", r, got)
	}
	e.checkHold(c, h, contains...)
}

// allOptions are those of a reason, but the ones that not every hold of it has, and the one for a backup that differs
// from the nodes: none does in these tests.
func allOptions(r v1alpha1.HoldReason) []v1alpha1.HoldOption {
	return slices.DeleteFunc(slices.Clone(holdkind.Of(r).Options), func(o v1alpha1.HoldOption) bool {
		return o.Answer == v1alpha1.OptionRestoreAnyway || slices.Contains(holdkind.Of(r).Special, o.Answer)
	})
}

// checkHold checks what holds of the cluster and of nodes have in common.
func (e holdEnv) checkHold(c *v1alpha1.StorageCluster, h *v1alpha1.Hold, contains ...string) {
	e.T.Helper()
	if !holdID.MatchString(h.ID) {
		e.T.Errorf("hold has id %q", h.ID)
	}
	for _, s := range contains {
		if !strings.Contains(h.Message, s) {
			e.T.Errorf("%s: message %q does not mention %q", h.Reason, h.Message, s)
		}
	}
	general := slices.DeleteFunc(slices.Clone(h.Options), func(o v1alpha1.HoldOption) bool {
		return slices.Contains(holdkind.Of(h.Reason).Special, o.Answer)
	})
	if want := allOptions(h.Reason); !slices.Equal(general, want) {
		e.T.Errorf("%s: options are %v, want %v", h.Reason, h.Options, want)
	}
	if want := "https://github.com/linstor-dev/storagecluster-operator/blob/main/docs/runbooks/" + string(h.Reason) +
		".md"; h.Runbook != want {
		e.T.Errorf("runbook is %q, want %q", h.Runbook, want)
	}
	wayOut := h.Runbook
	if len(h.Options) > 0 {
		wayOut = "kubectl annotate storagecluster linstor --overwrite storage.linstor.dev/resume=" + h.ID + ":" +
			h.Options[0].Answer
		if h.Resume != wayOut {
			e.T.Errorf("%s: resume is %q, want %q", h.Reason, h.Resume, wayOut)
		}
	}
	if got := harness.Condition(c, conditions.HumanInterventionRequired); got != "True/"+string(h.Reason) {
		e.T.Errorf("condition HumanInterventionRequired is %s, want True/%s", got, h.Reason)
	}
	e.Eventually("one Warning Event of hold "+h.ID, func() error {
		return oneEvent(e.Events(), func(ev *eventsv1.Event) bool {
			return ev.Type == corev1.EventTypeWarning && ev.Reason == string(h.Reason) && ev.Action == h.ID &&
				strings.Contains(ev.Note, wayOut)
		})
	})
	out, err := e.Sim.Kubectl(e.Ctx, "describe", "storagecluster", v1alpha1.ClusterName)
	if err != nil {
		e.T.Fatal(err)
	}
	for _, s := range []string{h.ID, string(h.Reason), "HumanInterventionRequired", h.Runbook} {
		if !strings.Contains(out, s) {
			e.T.Errorf("kubectl describe does not show %q:\n%s", s, out)
		}
	}
}

func oneEvent(list []eventsv1.Event, match func(*eventsv1.Event) bool) error {
	var found []eventsv1.Event
	for i := range list {
		if match(&list[i]) {
			found = append(found, list[i])
		}
	}
	switch {
	case len(found) == 0:
		return fmt.Errorf("there is none among %d", len(list))
	case len(found) > 1:
		return fmt.Errorf("there are %d", len(found))
	}
	return nil
}

// stays checks that the hold goes on, though the operator looks at the cluster again and again.
func (e holdEnv) stays(h *v1alpha1.Hold, though string) {
	e.T.Helper()
	e.During(settle, fmt.Sprintf("hold %s stays, though %s", h.Reason, though), func() error {
		if diff := cmp.Diff(h.ID, currentID(e.Get())); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// staysAfterSpecChange changes the spec in a way that has nothing to do with the hold, waits until the operator has
// seen it, and checks that the hold goes on.
func (e holdEnv) staysAfterSpecChange(h *v1alpha1.Hold) {
	e.T.Helper()
	e.changeSpec()
	e.Eventually("the operator sees the spec", func() error {
		if c := e.Get(); c.Status.ObservedGeneration != c.Generation {
			return fmt.Errorf("generation %d, observed %d", c.Generation, c.Status.ObservedGeneration)
		}
		return nil
	})
	e.stays(h, "the spec changed")
}

// changeSpec makes a change that any phase can take.
func (e holdEnv) changeSpec() {
	e.T.Helper()
	e.Update(func(c *v1alpha1.StorageCluster) {
		if c.Spec.Controller.Properties == nil {
			c.Spec.Controller.Properties = map[string]string{}
		}
		c.Spec.Controller.Properties["Aux/changed"] = fmt.Sprint(c.Generation)
	})
}

func currentID(c *v1alpha1.StorageCluster) string {
	if c.Status.Hold == nil {
		return ""
	}
	return c.Status.Hold.ID
}

// ended waits until the hold is over, and checks by which event.
func (e holdEnv) ended(h *v1alpha1.Hold, by fsm.Event) {
	e.T.Helper()
	var c *v1alpha1.StorageCluster
	e.Eventually("the end of hold "+string(h.Reason), func() error {
		if c = e.Get(); currentID(c) == h.ID {
			return fmt.Errorf("it is open: %s", c.Status.Message)
		}
		return nil
	})
	if i := e.leftHold(c); i < 0 || e.Steps(c)[i].Event != string(by) {
		e.T.Fatalf("hold %s did not end by %s: %+v", h.Reason, by, c.Status.History)
	}
}

// noToken waits until the operator has taken the token away that it followed.
func (e holdEnv) noToken() {
	e.T.Helper()
	e.Eventually("no resume annotation is left", func() error {
		if text := e.Get().Annotations[v1alpha1.AnnotationResume]; text != "" {
			return fmt.Errorf("it is %q", text)
		}
		return nil
	})
}

// answered gives an answer and waits until the hold is over by it.
func (e holdEnv) answered(h *v1alpha1.Hold, option string) {
	e.T.Helper()
	e.Resume(h, option)
	e.ended(h, fsm.Resumed)
	e.noToken()
}

// retriedInVain answers retry while the cause stands: a new hold begins, with another id.
func (e holdEnv) retriedInVain(h *v1alpha1.Hold) *v1alpha1.Hold {
	e.T.Helper()
	e.Resume(h, v1alpha1.OptionRetry)
	e.Eventually("a new hold "+string(h.Reason), func() error {
		c := e.Get()
		if id := currentID(c); id == h.ID || id == "" || c.Status.Hold.Reason != h.Reason {
			return fmt.Errorf("phase %s, hold %q: %s", c.Status.Phase, id, c.Status.Message)
		}
		return nil
	})
	e.noToken()
	next := e.held(h.Reason)
	e.ignored(harness.Token(h, v1alpha1.OptionRetry)) // the earlier hold's, as it may be kept in Git
	return next
}

// lookedAgain makes a change of the spec that does not help: the hold ends, and a new one begins.
func (e holdEnv) lookedAgain(h *v1alpha1.Hold) *v1alpha1.Hold {
	e.T.Helper()
	e.changeSpec()
	e.Eventually("hold "+string(h.Reason)+" begins anew", func() error {
		c := e.Get()
		if id := currentID(c); id == h.ID || id == "" || c.Status.Hold.Reason != h.Reason {
			return fmt.Errorf("phase %s, hold %q: %s", c.Status.Phase, id, c.Status.Message)
		}
		if i := e.leftHold(c); i < 0 || e.Steps(c)[i].Event != string(fsm.SpecChanged) {
			return fmt.Errorf("history is %+v", c.Status.History)
		}
		return nil
	})
	return e.held(h.Reason)
}

// leftHold is the last move out of HumanIntervention in the history; -1 if there is none.
func (e holdEnv) leftHold(c *v1alpha1.StorageCluster) int {
	return slices.IndexFunc(e.Steps(c),
		func(x v1alpha1.Transition) bool { return x.From == v1alpha1.PhaseHumanIntervention })
}

// changedSpec makes a change of the spec and waits until the hold is over by it.
func (e holdEnv) changedSpec(h *v1alpha1.Hold, f func(*v1alpha1.StorageCluster)) {
	e.T.Helper()
	e.Update(f)
	e.ended(h, fsm.SpecChanged)
}

// ready waits for a cluster of so many nodes and pools in which nobody is asked anything.
func (e holdEnv) ready(nodes, pools string) {
	e.T.Helper()
	var c *v1alpha1.StorageCluster
	e.Eventually(fmt.Sprintf("Ready with %s nodes and %s pools", nodes, pools), func() error {
		c = e.Get()
		if c.Status.Phase != v1alpha1.PhaseReady || c.Status.Nodes.Summary != nodes || c.Status.Pools.Summary != pools {
			return fmt.Errorf("%s with %s and %s: %s", c.Status.Phase, c.Status.Nodes.Summary, c.Status.Pools.Summary,
				c.Status.Message)
		}
		return nil
	})
	if got := harness.Condition(c, conditions.HumanInterventionRequired); got != "False/NoHold" ||
		len(c.Status.NodeHolds) > 0 {
		e.T.Errorf("HumanInterventionRequired is %s, node holds %+v", got, c.Status.NodeHolds)
	}
}

// ignored gives a token that must do nothing but be complained about, once.
func (e holdEnv) ignored(token string) {
	e.T.Helper()
	before := e.Get()
	e.Annotate(v1alpha1.AnnotationResume, token)
	complaint := func(ev *eventsv1.Event) bool {
		id, _, _ := strings.Cut(token, ":")
		return ev.Type == corev1.EventTypeWarning && ev.Reason == "ResumeIgnored" && ev.Action == "Resume "+token &&
			strings.Contains(ev.Note, id)
	}
	e.Eventually("one Event ResumeIgnored for "+token, func() error { return oneEvent(e.Events(), complaint) })
	e.During(settle/3, "token "+token+" does nothing", func() error {
		c := e.Get()
		if diff := cmp.Diff(before.Status.Hold, c.Status.Hold) +
			cmp.Diff(before.Status.NodeHolds, c.Status.NodeHolds); diff != "" {
			return errors.New(diff)
		}
		if c.Status.Phase != before.Status.Phase {
			return fmt.Errorf("phase went from %s to %s", before.Status.Phase, c.Status.Phase)
		}
		return oneEvent(e.Events(), complaint)
	})
}
