package crd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/modulespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

// manifest is what a user would write, with that spec in flow style.
func manifest(spec string) string {
	return "apiVersion: storage.linstor.dev/v1alpha1\nkind: StorageCluster\nmetadata: {name: linstor}\nspec: {" + spec +
		"}\n"
}

const (
	ssd = "{name: ssd, lvmThin: {volumeGroup: vg_ssd, thinPool: thin}}"
	hdd = "{name: hdd, lvm: {volumeGroup: vg_hdd}}"
)

func poolNames(t *testing.T) []string {
	t.Helper()
	u, err := clusters.Get(t.Context(), v1alpha1.ClusterName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pools, _, err := unstructured.NestedSlice(u.Object, "spec", "storagePools")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, p := range pools {
		names = append(names, p.(map[string]any)["name"].(string))
	}
	return names
}

func TestClientSideApply(t *testing.T) {
	t.Cleanup(func() { remove(t) })
	apply := func(spec, want string) {
		t.Helper()
		if out := kubectl(t, manifest(spec), "apply", "-f", "-"); !strings.Contains(out, want) {
			t.Errorf("apply of %s: want %q, got %q", spec, want, out)
		}
	}
	apply("storagePools: ["+ssd+"]", "created")
	apply("storagePools: ["+ssd+"]", "unchanged")
	apply("database: {kubernetes: {}}, storagePools: ["+ssd+", "+hdd+"]", "configured")
	apply("storagePools: ["+hdd+"]", "configured")
	if diff := cmp.Diff([]string{"hdd"}, poolNames(t)); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	out, err := kubectlCommand(t.Context(), manifest("storagePools: [{name: hdd, lvm: {volumeGroup: other}}]"), "apply",
		"-f", "-")
	if err == nil || !strings.Contains(out, "spec.storagePools[0].lvm.volumeGroup") ||
		!strings.Contains(out, "add an entry with another name") {
		t.Errorf("apply of a changed volume group: want it refused with the way out, got %v\n%s", err, out)
	}
}

// TestServerSideApply: two teams keep their own pools, and neither takes the other's away or changes it unasked.
func TestServerSideApply(t *testing.T) {
	t.Cleanup(func() { remove(t) })
	apply := func(manager, spec string) {
		t.Helper()
		kubectl(t, manifest(spec), "apply", "--server-side", "--field-manager", manager, "-f", "-")
	}
	pools := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, poolNames(t)); diff != "" {
			t.Errorf("pools (-want +got):\n%s", diff)
		}
	}
	apply("fast", "storagePools: ["+ssd+"]")
	apply("slow", "storagePools: ["+hdd+"]")
	pools("ssd", "hdd")
	apply("fast", "nodes: {properties: {Aux/a: fast}}, storagePools: ["+ssd+"]")
	apply("slow", "nodes: {properties: {Aux/b: slow}}, storagePools: ["+hdd+"]")
	pools("ssd", "hdd")
	out, err := kubectlCommand(t.Context(), manifest("nodes: {properties: {Aux/a: slow}}"),
		"apply", "--server-side", "--field-manager", "slow", "-f", "-")
	if err == nil || !strings.Contains(out, "conflict") || !strings.Contains(out, ".spec.nodes.properties.Aux/a") {
		t.Errorf("a value that another manager owns: want a conflict that names it, got %v\n%s", err, out)
	}
	// A default is nobody's: both may set it, and the second needs no force.
	apply("fast", "nodes: {network: {mode: Pod}}, storagePools: ["+ssd+"]")
	apply("slow", "storagePools: []")
	pools("ssd")
	// Without its only owner the field falls back to its default.
	apply("fast", "storagePools: ["+ssd+"]")
	if got := kubectl(t, "", "get", "lsc", "linstor", "-o", "jsonpath={.spec.nodes.network.mode}"); got != "Host" {
		t.Errorf("network mode without an owner: want the default Host, got %q", got)
	}
	// The other way of applying takes over, as users do who change their mind.
	kubectl(t, manifest("storagePools: ["+ssd+"]"), "apply", "-f", "-")
	pools("ssd")
}

// fullStatus is a status with something in every place.
func fullStatus() v1alpha1.StorageClusterStatus {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	capacity, free := resource.MustParse("3Ti"), resource.MustParse("1Ti")
	hold := v1alpha1.Hold{
		ID: "h-7c1f", Reason: v1alpha1.HoldDeviceMissing, Message: "no disk", Since: at,
		Options: holdkind.Of(v1alpha1.HoldDeviceMissing).Options,
		Resume:  "kubectl annotate", Runbook: "https://example.com/DeviceMissing.md", Pool: "ssd", Nodes: []string{"n1"},
		Count: 1, Resources: []string{"pvc-1"},
		Devices: []v1alpha1.HoldDevice{{Node: "n1", Path: "/dev/sdb", Serial: "S1", WWN: "0x1", Model: "M", Size: capacity}},
	}
	return v1alpha1.StorageClusterStatus{
		Phase: v1alpha1.PhaseStoragePools, PhaseSince: &at, ProgressSince: &at, Progress: 2, Message: "2 of 3 pools",
		ObservedGeneration: 1, AcceptedGeneration: 1, Target: "linstor-1", Version: "1.35.3",
		Database: v1alpha1.DatabaseKubernetes,
		Hold:     &hold, NodeHolds: []v1alpha1.Hold{hold},
		Nodes: v1alpha1.NodesStatus{
			Summary: "2/3", Members: 3, Online: 2, MinReady: 2,
			States:   []v1alpha1.NodeStateCount{{State: v1alpha1.NodeOnline, Count: 2}, {State: v1alpha1.NodeHeld, Count: 1}},
			Problems: []v1alpha1.NodeProblem{{Reason: "DeviceMissing", Message: "no disk", Count: 1, Nodes: []string{"n1"}}},
			Leaving:  []v1alpha1.LeavingNode{{Name: "n4", State: v1alpha1.LeavingRetained}}, LeavingCount: 1,
			Maintenance: []string{"n5"}, MaintenanceCount: 1,
		},
		Upgrade: &v1alpha1.UpgradeStatus{From: "1.34.2", To: "1.35.3", Step: v1alpha1.UpgradeSatellites, Since: at,
			NodesDone: 1, NodesTotal: 3,
			Message: "waiting for n2", SkippedChecks: true},
		KernelModule: &modulespec.KernelModuleStatus{Wanted: "9.3.3", PendingReboot: 1, Examples: []string{"n1"},
			Loaded: []modulespec.ModuleVersionCount{{Version: "9.3.2", Count: 1}}},
		Pools: v1alpha1.PoolsStatus{
			Summary: "1/3", Wanted: 3, Ready: 1, Capacity: &capacity, Free: &free, Updated: &at,
			ByPool: []v1alpha1.PoolStatus{{Name: "ssd", Provider: "LVM_THIN", Wanted: 3, Ready: 1, Capacity: &capacity,
				Free: &free}},
		},
		Volumes: &volumespec.VolumesStatus{Total: 4, Healthy: 1, Degraded: 1, Resyncing: 1, Unavailable: 1, Updated: &at},
		Conditions: []metav1.Condition{{
			Type: conditions.Ready, Status: metav1.ConditionFalse, ObservedGeneration: 1, LastTransitionTime: at,
			Reason: string(v1alpha1.PhaseStoragePools), Message: "2 of 3 pools",
		}},
		History: []v1alpha1.Transition{{
			Time: at, From: v1alpha1.PhaseAssessing, Event: "PoolsMissing", To: v1alpha1.PhaseStoragePools,
			Message: "pools are missing",
		}},
	}
}

func withStatus(t *testing.T, u *unstructured.Unstructured,
	status v1alpha1.StorageClusterStatus) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		t.Fatal(err)
	}
	u = u.DeepCopy()
	u.Object["status"] = content
	return u
}

func TestStatusSubresource(t *testing.T) {
	want := fullStatus()
	u := withStatus(t, object(t, "{}"), want)
	t.Cleanup(func() { remove(t) })
	stored, err := clusters.Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, found := stored.Object["status"]; found {
		t.Error("a status that came with the object was stored")
	}
	changed := withStatus(t, stored, want)
	if err := unstructured.SetNestedField(changed.Object, true, "spec", "suspend"); err != nil {
		t.Fatal(err)
	}
	stored, err = clusters.UpdateStatus(t.Context(), changed,
		metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.StorageCluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored.Object, &got, true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got.Spec.Suspend || got.Generation != 1 {
		t.Errorf("a write to the status changed the spec: suspend %t, generation %d", got.Spec.Suspend, got.Generation)
	}
	spec := object(t, "suspend: true")
	spec.SetResourceVersion(stored.GetResourceVersion())
	if stored, err = clusters.Update(t.Context(), spec, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	phase, _, _ := unstructured.NestedString(stored.Object, "status", "phase")
	if phase != string(v1alpha1.PhaseStoragePools) || stored.GetGeneration() != 2 {
		t.Errorf("a write to the spec: want the status kept and generation 2, got phase %q, generation %d", phase,
			stored.GetGeneration())
	}
	changed.SetResourceVersion("1")
	if _, err := clusters.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a status from an old look: want a conflict, got %v", err)
	}
}

func TestPrinterColumns(t *testing.T) {
	stored := create(t, "{}")
	if _, err := clusters.UpdateStatus(t.Context(), withStatus(t, stored, fullStatus()),
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	const narrow = "NAME PHASE READY NODES POOLS ATTENTION VERSION AGE"
	cases := []struct{ args, header, row string }{
		{"get storagecluster", narrow, "linstor StoragePools False 2/3 1/3 1.35.3"},
		{"get storageclusters.storage.linstor.dev linstor", narrow, "linstor StoragePools False 2/3 1/3 1.35.3"},
		{"get lsc -o wide", narrow + " CAPACITY FREE DATABASE MESSAGE", "3Ti 1Ti kubernetes 2 of 3 pools"},
	}
	for _, c := range cases {
		t.Run(c.args, func(t *testing.T) {
			lines := strings.Split(strings.TrimSpace(kubectl(t, "", strings.Fields(c.args)...)), "\n")
			if len(lines) != 2 {
				t.Fatalf("want a header and a row, got %q", lines)
			}
			if got := strings.Join(strings.Fields(lines[0]), " "); got != c.header {
				t.Errorf("want the header %q, got %q", c.header, got)
			}
			if got := strings.Join(strings.Fields(lines[1]), " "); !strings.Contains(got, c.row) {
				t.Errorf("want a row with %q, got %q", c.row, got)
			}
		})
	}
	t.Run("wait", func(t *testing.T) {
		kubectl(t, "", "wait", "--for=condition=Ready=False", "--timeout=10s", "storagecluster/linstor")
	})
}

// TestKindInDiscovery: short name, scope and the only version.
func TestKindInDiscovery(t *testing.T) {
	out := kubectl(t, "", "get", "--raw", "/apis/storage.linstor.dev/v1alpha1")
	var list metav1.APIResourceList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, r := range list.APIResources {
		got = append(got, fmt.Sprintf("%s %s namespaced=%t %v", r.Name, r.Kind, r.Namespaced, r.ShortNames))
	}
	want := []string{
		"storageclusters StorageCluster namespaced=false [lsc]",
		"storageclusters/status StorageCluster namespaced=false []",
		"storageclusters/scale Scale namespaced=false []",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}
