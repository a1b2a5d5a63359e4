package disklist_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/disklist"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// disksOf are a world's disks by the rules of an edit; nil for those of the stored object.
func disksOf(t *testing.T, w *clustertest.World, edit func(*v1alpha1.StorageClusterSpec)) *result.Disks {
	t.Helper()
	in := plan.Input{Stored: w.Cluster}
	if edit != nil {
		in.Wanted = w.Cluster.DeepCopy()
		edit(&in.Wanted.Spec)
	}
	w.Cluster = plan.Edited(in.Stored, in.Wanted)
	in.Seen = w.Snapshot()
	w.Cluster = in.Stored
	out, err := disklist.Make(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// said are the disks of a node, as "sdb Fate pool: text".
func said(n *result.NodeDisks) string {
	var out []string
	for i := range n.Disks {
		d := &n.Disks[i]
		out = append(out, strings.TrimPrefix(d.Path, "/dev/")+" "+string(d.Fate)+" "+d.Pool+": "+d.Text)
	}
	return strings.Join(out, "\n")
}

const sum = `DISKS="1" UDEV="1" VGS="" ZPOOLS=""`

var (
	s1 = clustertest.SsdDisk("/dev/sdb", "S1")
	s2 = clustertest.SsdDisk("/dev/sdc", "S2")
	x1 = clustertest.SsdDisk("/dev/sdd", "X1")
)

// TestFates: pool hot takes disks whose serial number begins with S, and is not there yet unless a case says so.
func TestFates(t *testing.T) {
	for _, tc := range []struct {
		name  string
		empty []linstor.Device
		spoil func(*clustertest.World)
		want  string
		// unknown and note are parts of what is said of the node; "" for nothing.
		unknown, note string
	}{
		{name: "free", empty: []linstor.Device{s1, x1},
			want: "sdb BecomesPool hot: becomes part of pool hot\n" +
				"sdd NoMatch : is empty; no entry matches it: for hot, its serial number is not S*"},
		{name: "approval", empty: []linstor.Device{s1}, spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Devices.Approval = v1alpha1.ApprovalManual
			w.Accept()
		}, want: "sdb NeedsAnswer hot: becomes part of pool hot once approved"},
		{name: "a hold asks about it", empty: []linstor.Device{s1}, spoil: func(w *clustertest.World) {
			w.Cluster.Status.NodeHolds = []v1alpha1.Hold{{ID: "h-1", Reason: v1alpha1.HoldDeviceNotEmpty, Pool: "hot",
				Nodes: []string{"n01"}, Count: 1}}
		}, want: "sdb NeedsAnswer hot: becomes part of pool hot once hold h-1 is resumed"},
		{name: "it carries something", spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", sum, clustertest.Lsblk("sdb", "S1", "ext4"))
		}, want: "sdb NotUsed hot: matches hot, but contains ext4"},
		{name: "others' data", spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", sum, clustertest.Lsblk("sda", "OS", "ext4"))
		}, want: "sda InUse : contains ext4", note: "no disk matches spec.storagePools[hot].devices"},
		{name: "held", spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", sum, clustertest.Lsblk("sdb", "S1", "")+` HELD=" dm-0"`)
		}, want: "sdb NotUsed hot: matches hot, but was in use by dm-0 when the satellite started"},
		{name: "away since", spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", sum, clustertest.Lsblk("sdb", "S1", ""))
		}, want: "sdb NotUsed hot: matches hot, but was empty when the satellite started and is now missing or in use"},
		{name: "a local volume's", empty: []linstor.Device{s1}, spoil: func(w *clustertest.World) {
			w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n01": {{Name: "pv-1", Path: "/dev/sdb"}}}
		}, want: "sdb NotUsed hot: matches hot, but is used by the local PersistentVolume pv-1"},
		{name: "the group is there", empty: []linstor.Device{s1}, spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", `DISKS="1" UDEV="1" VGS=" vg_hot" ZPOOLS=""`, clustertest.Lsblk("sdb", "S1", ""))
		}, want: "sdb NotUsed hot: matches hot, but volume group vg_hot already exists on disks or partitions that do " +
			"not match; the operator does not create another one with the same name from /dev/sdb (serial S1)"},
		{name: "skipped", empty: []linstor.Device{s1}, spoil: func(w *clustertest.World) {
			clustertest.Answer(w, remembered.PoolSkip, "hot", "n01", "true")
		}, want: "sdb NotUsed hot: matches hot, which was skipped on this node (option skip)"},
		{name: "the pool is there", empty: []linstor.Device{s2}, spoil: func(w *clustertest.World) {
			w.Settle()
			w.Node("n01").Devices = []linstor.Device{s2}
			w.InventoryOf("n01", `DISKS="2" UDEV="1" VGS=" vg_hot" ZPOOLS=""`,
				clustertest.Lsblk("sdb", "S1", "LVM2_member")+` IN=" vg_hot"`, clustertest.Lsblk("sdc", "S2", ""))
		}, want: "sdb InPool hot: is in pool hot\n" +
			"sdc NotUsed hot: matches hot, which the node already has: no disks are added to an existing pool"},
		{name: "made since the satellite started", spoil: func(w *clustertest.World) {
			w.Settle()
			w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1"
			w.Node("n01").Properties[remembered.PoolDisks+"hot"] =
				`{"count":1,"disks":[{"path":"/dev/sdb","serial":"S1","size":1}]}`
		}, want: "sdb InPool hot: pool hot was created from this disk; the satellite has not reported it since then"},
		{name: "LINSTOR cannot use the pool", spoil: func(w *clustertest.World) {
			w.Register()
			n := w.Node("n01")
			n.Pools["hot"].TotalKiB, n.Pools["hot"].Errors = nil, []string{"Volume group 'vg_hot' not found"}
			n.Devices, n.Properties[remembered.PoolIntent+"hot"] = []linstor.Device{s2}, "serial:S1"
			n.Properties[remembered.PoolDisks+"hot"] =
				`{"count":1,"disks":[{"path":"/dev/sdb","serial":"S1","size":1}]}`
			w.InventoryOf("n01", sum, clustertest.Lsblk("sdc", "S2", ""))
		}, want: "sdb NotUsed hot: pool hot was created from this disk; the satellite has not reported it since then, but " +
			"LINSTOR cannot use volume group vg_hot: Volume group 'vg_hot' not found; it was usable before, so the operator " +
			"does nothing without your approval\n" +
			"sdc NeedsAnswer hot: can replace the lost storage of pool hot once approved (option recreate)"},
		{name: "a human agreed to make it anew", spoil: func(w *clustertest.World) {
			w.Register()
			n := w.Node("n01")
			n.Pools["hot"].TotalKiB, n.Pools["hot"].Errors = nil, []string{"Volume group 'vg_hot' not found"}
			n.Devices, n.Properties[remembered.PoolIntent+"hot"] = []linstor.Device{s2}, "serial:S1"
			n.Properties[remembered.PoolRecreate+"hot"] = "serial:S2"
			w.InventoryOf("n01", sum, clustertest.Lsblk("sdc", "S2", ""))
		}, want: "sdc BecomesPool hot: will replace the lost storage of pool hot, as approved"},
		{name: "others' data that LINSTOR does not see", empty: []linstor.Device{x1}, spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", sum, clustertest.InventoryLine("sdd", "X1", "ext4", `UDEV=""`))
		}, want: "sdd InUse : contains ext4", note: "no disk matches"},
		{name: "another's local volume", empty: []linstor.Device{x1}, spoil: func(w *clustertest.World) {
			w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n01": {{Name: "pv-1", Path: "/dev/sdd"}}}
		}, want: "sdd InUse : is used by the local PersistentVolume pv-1", note: "no disk matches"},
		{name: "begun", spoil: func(w *clustertest.World) {
			w.Node("n01").Properties[remembered.PoolIntent+"hot"] = "serial:S1"
			w.InventoryOf("n01", sum, clustertest.Lsblk("sdb", "S1", ""))
		}, want: "sdb BecomesPool hot: is being used for pool hot, which has not been created yet"},
		{name: "not ONLINE", spoil: func(w *clustertest.World) {
			n := w.Node("n01")
			n.Status, n.DevicesKnown = linstor.StatusOffline, false
			w.InventoryOf("n01", sum, clustertest.Lsblk("sda", "OS", "ext4"), clustertest.Lsblk("sdb", "S1", ""),
				clustertest.Lsblk("sdc", "S2", "xfs"), clustertest.Lsblk("sdd", "X1", ""))
		}, want: "sda InUse : contains ext4\nsdb Unknown hot: matches hot, but it is unknown whether it is empty\n" +
			"sdc NotUsed hot: matches hot, but contains xfs\n" +
			"sdd Unknown : was empty when the satellite started; no entry matches it: for hot, its serial number is not S*",
			unknown: "the node is OFFLINE in LINSTOR, which lists disks only for ONLINE nodes", note: "?"},
		{name: "ONLINE, and the list is not believed yet", spoil: func(w *clustertest.World) {
			w.Node("n01").DevicesKnown = false
			w.InventoryOf("n01", sum, clustertest.Lsblk("sdb", "S1", ""))
		}, want: "sdb Unknown hot: matches hot, but it is unknown whether it is empty",
			unknown: "LINSTOR does not list any of the node's disks as empty; if its satellite has just started", note: "?"},
		{name: "a full report", empty: []linstor.Device{x1}, spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", `DISKS="3" UDEV="1" VGS="" ZPOOLS=""`, clustertest.Lsblk("sdd", "X1", ""))
		}, want: "sdd NoMatch : is empty; no entry matches it: for hot, its serial number is not S*",
			unknown: "omits 2 disks", note: "no disk matches"},
		{name: "LINSTOR is silent", spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", sum, clustertest.Lsblk("sdb", "S1", ""))
			w.Silent(errors.New("connection refused"))
		}, want: "sdb Unknown hot: matches hot, but it is unknown whether it is empty", unknown: "LINSTOR does not respond",
			note: "?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.Hot(t, tc.empty...)
			w.InventoryOf("n01", `DISKS="0" UDEV="1" VGS="" ZPOOLS=""`)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			n := disksOf(t, w, nil).Nodes[0]
			if got := said(&n); got != tc.want {
				t.Errorf("said:\n%s\nwant:\n%s", got, tc.want)
			}
			for what, c := range map[string]struct{ got, want string }{"unknown": {strings.Join(n.Unknown, "; "), tc.unknown},
				"notes": {strings.Join(n.Notes, "; "), tc.note}} {
				if c.want != "?" && ((c.want == "") != (c.got == "") || !strings.Contains(c.got, c.want)) {
					t.Errorf("%s: %q, want %q", what, c.got, c.want)
				}
			}
		})
	}
}

// TestRulesOfAnEdit: a rule is tried before it is applied, and the stored object stays as it is.
func TestRulesOfAnEdit(t *testing.T) {
	w := clustertest.Hot(t, s1, x1)
	d := disksOf(t, w, func(s *v1alpha1.StorageClusterSpec) {
		s.StoragePools[0].Devices.Match = []v1alpha1.DeviceMatch{{Serial: "X*"},
			{Model: "none", MinSize: ptr.To(resource.MustParse("2Ti"))}}
		s.StoragePools[0].Devices.Approval = v1alpha1.ApprovalAuto
	})
	want := "sdb NoMatch : is empty; no entry matches it: for hot, its serial number is not X*, " +
		"and it has no model\n" +
		"sdd BecomesPool hot: becomes part of pool hot"
	if got := said(&d.Nodes[0]); got != want || d.Of != result.Edit {
		t.Errorf("of %s:\n%s", d.Of, got)
	}
	d = disksOf(t, w, func(s *v1alpha1.StorageClusterSpec) {
		s.StoragePools[0].NodeSelector = map[string]string{"other": "node"}
	})
	if got := said(&d.Nodes[0]); !strings.HasPrefix(got, "sdb NoMatch : is empty; no entry matches it: hot excludes "+
		"the node (nodeSelector, nodeAffinity)") {
		t.Error(got)
	}
	d = disksOf(t, w, func(s *v1alpha1.StorageClusterSpec) { s.StoragePools[0].Devices = nil })
	if got := said(&d.Nodes[0]); !strings.Contains(got, "sdd NoMatch : is empty; no entry of spec.storagePools has "+
		"devices") {
		t.Error(got)
	}
}

// TestTwoRulesForOneDisk: the operator works on neither, and the reason is said once.
func TestTwoRulesForOneDisk(t *testing.T) {
	w := clustertest.Hot(t, s1)
	d := disksOf(t, w, func(s *v1alpha1.StorageClusterSpec) {
		s.StoragePools = append(s.StoragePools, clustertest.OnDevices("cold", "S1"))
	})
	if len(d.Nodes) == 0 && len(d.Refusals) > 0 {
		return // which says it for the whole spec
	}
	if got := said(&d.Nodes[0]); strings.Count(got, "both match disk") != 1 {
		t.Error(got)
	}
}

// TestARefusedEdit has no rules that would ever count.
func TestARefusedEdit(t *testing.T) {
	w := clustertest.Hot(t, s1)
	d := disksOf(t, w, func(s *v1alpha1.StorageClusterSpec) { s.Version = "9.9.9" })
	if len(d.Refusals) != 1 || len(d.Nodes) > 0 || !strings.Contains(d.Refusals[0].Message, "9.9.9") {
		t.Errorf("%+v", d)
	}
	w.Cluster.Spec.Version, w.Cluster.Generation = "9.9.9", 2
	d = disksOf(t, w, nil)
	if len(d.Refusals) != 1 || len(d.Nodes) != 1 || !strings.Contains(strings.Join(d.Notes, ";"), "last accepted") {
		t.Errorf("of the stored object: %+v", d)
	}
}

// TestNotes: what keeps the operator from all disks is said once.
func TestNotes(t *testing.T) {
	for want, spoil := range map[string]func(*clustertest.World){
		"spec.suspend is set": func(w *clustertest.World) { w.Cluster.Spec.Suspend = true },
		"is being deleted": func(w *clustertest.World) {
			w.Cluster.DeletionTimestamp = clustertest.At(w.Now)
		},
		"LINSTOR does not respond: refused": func(w *clustertest.World) { w.Silent(errors.New("refused")) },
		"the disks are unknown: slow": func(w *clustertest.World) {
			w.Linstor.View.DevicesErr = errors.New("slow")
		},
		"hold h-1 (ControllerFailed) is open": func(w *clustertest.World) {
			w.Cluster.Status.Hold = &v1alpha1.Hold{ID: "h-1", Reason: v1alpha1.HoldControllerFailed}
		},
	} {
		w := clustertest.Hot(t, s1)
		spoil(w)
		if got := strings.Join(disksOf(t, w, nil).Notes, "; "); got == "" || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWithoutRules: what the nodes have is listed although nobody has needed it yet.
func TestWithoutRules(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Inventory("n02", clustertest.Lsblk("nvme0n1", "N", "ext4"))
	d := disksOf(t, w, nil)
	if got := said(&d.Nodes[1]); got != "nvme0n1 InUse : contains ext4" || d.Nodes[1].Disks[0].Type != "NVMe" {
		t.Errorf("%s: %+v", got, d.Nodes[1].Disks)
	}
}
