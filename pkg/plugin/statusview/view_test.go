package statusview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/modulespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// installing is a cluster whose satellites are just starting.
func installing() *v1alpha1.StorageCluster {
	c := plugintest.Held()
	st := &c.Status
	st.Phase, st.Hold, st.NodeHolds, st.Attention = v1alpha1.PhaseSatellites, nil, nil, ""
	st.Message = "1 of 3 satellites are ready"
	st.Nodes.Summary, st.Nodes.Problems = "1/3", nil
	st.Nodes.States = []v1alpha1.NodeStateCount{{State: v1alpha1.NodeStartingSatellite, Count: 2},
		{State: v1alpha1.NodeRegistering, Count: 1}}
	st.Pools = v1alpha1.PoolsStatus{}
	for _, kind := range []string{conditions.SatellitesReady, conditions.NodesRegistered} {
		plugintest.SetCondition(c, kind, metav1.ConditionFalse, "Missing", "1 of 3")
	}
	return c
}

// troubled is a cluster to which much happens at once.
func troubled() *v1alpha1.StorageCluster {
	c := plugintest.Degraded()
	st := &c.Status
	c.Generation, c.Spec.Suspend = 4, true
	st.Nodes.Online, st.Nodes.Summary = 1, "1/3"
	st.Upgrade = &v1alpha1.UpgradeStatus{From: "1.34.2", To: "1.35.3", Step: v1alpha1.UpgradeSatellites,
		Since: plugintest.Before(10 * time.Minute), NodesDone: 1, NodesTotal: 3, Message: "waits for node-2"}
	st.Nodes.Leaving = []v1alpha1.LeavingNode{{Name: "node-8", State: v1alpha1.LeavingRetained},
		{Name: "node-9", State: v1alpha1.LeavingWaiting, Message: "node-8 comes first"}}
	st.Nodes.LeavingCount = 5
	st.KernelModule = &modulespec.KernelModuleStatus{Wanted: "9.3.3", PendingReboot: 1, Examples: []string{"node-3"}}
	st.Pools.ByPool[0].Skipped, st.Pools.ByPool[0].SkippedNodes = 1, []string{"node-3"}
	st.Certificates[1].NotAfter = plugintest.Before(time.Hour)
	overdue := plugintest.Before(48 * time.Hour)
	st.Certificates[0].RenewAfter = &overdue
	st.Backup.Last.Problem = "older backups could not be removed: access denied"
	for kind, message := range map[string]string{
		conditions.MassFailure:     "2 of 3 nodes failed within two minutes: nothing destructive is done",
		conditions.PoolsNearlyFull: "ssd@node-1 93 % (limit 90 %)",
	} {
		plugintest.SetCondition(c, kind, metav1.ConditionTrue, "Because", message)
	}
	plugintest.SetCondition(c, conditions.Available, metav1.ConditionFalse, "ControllerUnreachable",
		"LINSTOR does not answer")
	plugintest.SetCondition(c, conditions.SnapshotsReady, metav1.ConditionFalse, "SnapshotAPIMissing",
		"Kubernetes does not serve snapshot.storage.k8s.io/v1")
	plugintest.SetCondition(c, conditions.MonitoringReady, metav1.ConditionFalse, "MakingMonitors", "2 of 3 are there")
	plugintest.SetCondition(c, conditions.DrainGuardReady, metav1.ConditionTrue, "DrainRefused",
		"node-1: pvc-8f1c has no other good copy")
	return c
}

func events() []corev1.Event {
	return []corev1.Event{
		*plugintest.Warning("a", "Degraded", "Ready → Degraded: 2 of 3 nodes are online; missing: node-2", 7*time.Minute),
		*plugintest.Warning("d", "DeviceNotEmpty", "a hold of that name says so", time.Minute),
		*plugintest.Warning("b", "BackupFailed", "backup scheduled-20261127090000: there is no bucket my-backups",
			20*time.Minute),
		*plugintest.Warning("c", "NodeLeaving", "long ago", 26*time.Hour),
	}
}

func cases() map[string]statusview.Input {
	cordoned := plugintest.Nodes([]string{"node-1", "node-2", "node-3"}, "node-2")
	cordoned[0].Spec.Unschedulable = true
	thousand := plugintest.Nodes(plugintest.Names(1, 1000), plugintest.Names(1, 30)...)
	return map[string]statusview.Input{
		"healthy": {Cluster: plugintest.Healthy(3), Nodes: plugintest.Nodes([]string{"node-1", "node-2", "node-3"})},
		"degraded": {Cluster: plugintest.Degraded(), Nodes: cordoned, Events: events(),
			Lease: plugintest.Lease(time.Second)},
		"held":       {Cluster: plugintest.Held(), Unread: []string{"not allowed to list nodes: ask an administrator"}},
		"installing": {Cluster: installing()},
		"thousand":   {Cluster: plugintest.Thousand(), Nodes: thousand},
		"troubled":   {Cluster: troubled()},
		"silent":     {Cluster: plugintest.Healthy(3), Lease: plugintest.Lease(time.Hour)},
	}
}

// TestGolden renders each view for a usual and a wide terminal. go test -update writes the files.
func TestGolden(t *testing.T) {
	for name, in := range cases() {
		for _, width := range []int{80, 120} {
			t.Run(fmt.Sprintf("%s-%d", name, width), func(t *testing.T) {
				in.Now = plugintest.Now
				lines := statusview.Build(in).Lines(tree.Style{Width: width})
				for _, l := range lines {
					// An address, or an option of a command, is a word that cannot be broken.
					if utf8.RuneCountInString(l) > width && !strings.Contains(l, "https://") {
						t.Errorf("wider than %d: %s", width, l)
					}
				}
				if name == "thousand" && len(lines) > 30 {
					t.Errorf("%d lines for a thousand nodes", len(lines))
				}
				plugintest.Golden(t, fmt.Sprintf("%s-%d.txt", name, width), lines)
			})
		}
	}
}

func TestWell(t *testing.T) {
	for name, in := range cases() {
		in.Now = plugintest.Now
		if got, want := statusview.Build(in).Well, name == "healthy"; got != want {
			t.Errorf("%s: well is %t", name, got)
		}
	}
}

// TestUnknown: what nobody knows is not well, and is shown as that, whatever was known before.
func TestUnknown(t *testing.T) {
	const message = "LINSTOR does not answer"
	for kind, section := range map[string]string{conditions.VolumesHealthy: "Volumes",
		conditions.NodesRegistered: "Chain", conditions.Available: "Services", conditions.CertificatesValid: "Certificates",
		conditions.BackupReady: "Backups", conditions.PoolsNearlyFull: "Pools"} {
		c := plugintest.Healthy(3)
		plugintest.SetCondition(c, kind, metav1.ConditionUnknown, conditions.ReasonUnknown, message)
		v := statusview.Build(statusview.Input{Cluster: c, Now: plugintest.Now})
		text := strings.Join(v.Lines(tree.Style{Width: 120}), "\n")
		if v.Well || v.Sections[0].Name != section || v.Sections[0].State != tree.Unknown ||
			!strings.Contains(text, message) {
			t.Errorf("%s: well is %t, %s is %s first:\n%s", kind, v.Well, v.Sections[0].Name, v.Sections[0].State, text)
		}
		if kind == conditions.VolumesHealthy && strings.Contains(text, "no replicas missing") {
			t.Errorf("the counts of before are shown:\n%s", text)
		}
	}
	c := plugintest.Healthy(3)
	plugintest.SetCondition(c, conditions.Ready, metav1.ConditionUnknown, conditions.ReasonObservationFailed, message)
	if v := statusview.Build(statusview.Input{Cluster: c, Now: plugintest.Now}); v.Well || v.State != tree.Unknown {
		t.Errorf("nobody could look at the cluster, and well is %t, the state %s", v.Well, v.State)
	}
	v := statusview.Build(statusview.Input{Cluster: plugintest.Healthy(3), Now: plugintest.Now, OperatorUnread: true})
	if v.Well || v.Sections[0].Name != "Operator" || v.Sections[0].State != tree.Unknown {
		t.Errorf("nobody knows whether the operator runs, and well is %t, first is %+v", v.Well, v.Sections[0])
	}
}

// TestUnknownWhileInstalling: who installs a cluster knows that much is to come.
func TestUnknownWhileInstalling(t *testing.T) {
	first := installing()
	for _, kind := range []string{conditions.VolumesHealthy, conditions.CertificatesValid} {
		plugintest.SetCondition(first, kind, metav1.ConditionUnknown, conditions.ReasonUnknown, "nobody has looked")
	}
	for _, s := range statusview.Build(statusview.Input{Cluster: first, Now: plugintest.Now}).Sections {
		if s.State == tree.Unknown {
			t.Errorf("while it is installed: %+v", s)
		}
	}
}

// TestHostileHeadings: what stands in the status cannot move the cursor, in headings either.
func TestHostileHeadings(t *testing.T) {
	const evil = "\x1b[2J\u009b1m\r"
	c := plugintest.Held()
	c.Status.Phase += evil
	c.Status.Version += evil
	c.Status.Hold.ID += evil
	c.Status.Hold.Reason += evil
	c.Status.Hold.Options[0].Answer += evil
	v := statusview.Build(statusview.Input{Cluster: c, Now: plugintest.Now})
	for _, l := range v.Lines(tree.Style{Width: 80}) {
		if strings.ContainsAny(l, "\x1b\u009b\r") {
			t.Errorf("%q", l)
		}
	}
}

// TestAll: each node has a line, and one that the status does not name is not called online where it may not be.
func TestAll(t *testing.T) {
	in := cases()["thousand"]
	in.Now, in.All = plugintest.Now, true
	text := strings.Join(statusview.Build(in).Lines(tree.Style{Width: 120}), "\n")
	if n := strings.Count(text, "node-0"); n < 999 {
		t.Errorf("%d lines name a node", n)
	}
	for _, want := range []string{"! node-0001", "NodeNotReady: the Kubernetes node is not ready",
		"? node-0700", "one of 22 nodes with problems that the status does not list", "node-0500", "under maintenance"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	in = cases()["healthy"]
	in.Now, in.All = plugintest.Now, true
	text = strings.Join(statusview.Build(in).Lines(tree.Style{Width: 80}), "\n")
	if strings.Count(text, "✔ node-") != 3 {
		t.Errorf("not each node is well:\n%s", text)
	}
}

// TestCommandsOfHolds: the commands of each option name the hold and the option, and the cluster's hold comes first.
func TestCommandsOfHolds(t *testing.T) {
	c := plugintest.Held()
	v := statusview.Build(statusview.Input{Cluster: c, Now: plugintest.Now})
	if len(v.Holds) != 2 || v.Holds[0].ID != "h-b2f074" || !v.Holds[0].Cluster || v.Holds[1].Cluster {
		t.Fatalf("holds %+v", v.Holds)
	}
	for i, o := range v.Holds[0].Options {
		want := c.Status.Hold.Options[i]
		if o.Answer != want.Answer || o.Does != want.Does ||
			o.Command != "kubectl linstor resume h-b2f074 "+want.Answer ||
			o.Annotate != "kubectl annotate storagecluster linstor --overwrite storage.linstor.dev/resume=h-b2f074:"+
				want.Answer {
			t.Errorf("option %+v", o)
		}
	}
}
