package pools_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/pools"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// scenario is a world, and what is decided there about the first pool of the first node.
type scenario struct {
	name  string
	world func(*testing.T) *clustertest.World
	spoil func(*clustertest.World)
	want  verdict
	// says is part of the problem's message.
	says string
}

// verdict is what is decided about a pool.
type verdict struct {
	// Row is the name of the one that decides.
	Row              string
	Step             cluster.PoolStep
	Ready, NotWanted bool
	// Reason and Hold are the problem's.
	Reason string
	Hold   v1alpha1.HoldReason
	// Devices names the disks that the pool is made from, Spare those that a human is asked about.
	Devices, Spare string
}

func (tc *scenario) check(t *testing.T) {
	w := tc.world(t)
	if tc.spoil != nil {
		tc.spoil(w)
	}
	s := w.Snapshot()
	m := s.Members[0]
	p := m.Pools[0]
	got := verdict{Row: pools.RowOf(s, m, p), Step: p.Step, Ready: p.Ready, NotWanted: p.NotWanted,
		Devices: pools.ConsentTo(p.Devices), Spare: pools.ConsentTo(p.Spare)}
	message := ""
	if p.Problem != nil {
		got.Reason, got.Hold, message = p.Problem.Reason, p.Problem.Hold, p.Problem.Message
	}
	if d := cmp.Diff(tc.want, got); d != "" {
		t.Errorf("%s(%s)", d, message)
	}
	if !strings.Contains(message, tc.says) {
		t.Errorf("%q lacks %q", message, tc.says)
	}
}

func plain(t *testing.T) *clustertest.World { return clustertest.NewWorld(t, 1) }

// unregistered is a world whose pool is to be registered on a thin pool that is there.
func unregistered(t *testing.T) *clustertest.World {
	w := plain(t)
	delete(w.Node("n01").Pools, "ssd")
	return w
}

// hot makes a world whose pool is to be made from these empty disks.
func hot(empty ...linstor.Device) func(*testing.T) *clustertest.World {
	return func(t *testing.T) *clustertest.World { return clustertest.Hot(t, slices.Clone(empty)...) }
}

func hotReady(t *testing.T) *clustertest.World {
	w := clustertest.Hot(t)
	w.Register()
	return w
}

// remember sets a property of the LINSTOR node.
func remember(key, value string) func(*clustertest.World) {
	return func(w *clustertest.World) { w.Node("n01").Properties[key] = value }
}

// answer keeps an answer about the entry hot on n01.
func answer(prefix string) func(*clustertest.World) {
	return func(w *clustertest.World) { clustertest.Answer(w, prefix, "hot", "n01", "h-1") }
}

// presentScenarios are about pools that LINSTOR has and that are not lost.
func presentScenarios() []scenario {
	broken := func(w *clustertest.World) { w.Node("n01").Pools["ssd"].Errors = []string{"no such VG"} }
	missing := string(v1alpha1.HoldPoolBackendMissing)
	repair := verdict{Row: "repair", Step: pools.StepRepair, Reason: missing}
	unsupported := verdict{Row: "another-kind", Reason: "UnsupportedChange", Hold: v1alpha1.HoldUnsupportedChange}
	return []scenario{
		{name: "there", world: plain, want: verdict{Row: "ready", Ready: true}},
		{name: "properties differ", world: plain, spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Properties = map[string]string{"PrefNic": "storage"}
			w.Accept()
		}, want: verdict{Row: "properties", Step: pools.StepModify}},
		{name: "properties differ, of unknown size and not ONLINE", world: plain, spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Properties = map[string]string{"PrefNic": "storage"}
			w.Accept()
			w.Node("n01").Status, w.Node("n01").Pools["ssd"].TotalKiB = linstor.StatusOffline, nil
		}, want: verdict{Row: "properties", Step: pools.StepModify}},
		{name: "properties are refused", world: plain, spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Properties = map[string]string{"PrefNic": ""}
			w.Accept()
			w.Tasks["pool/n01/ssd"] = work.State{Err: clustertest.Refused(linstor.CodeUnknown), Attempts: 3, Refusals: 3}
		}, want: verdict{Row: "properties", Step: pools.StepModify, Reason: "WriteFailed",
			Hold: v1alpha1.HoldStoragePoolsFailed}},
		{name: "properties of others", world: plain, spoil: func(w *clustertest.World) {
			w.Node("n01").Pools["ssd"].Properties["Aux/mine"] = "x"
		}, want: verdict{Row: "ready", Ready: true}},
		{name: "other case", world: plain, spoil: func(w *clustertest.World) {
			w.Node("n01").Pools["ssd"].Provider = "lvm_thin"
		}, want: verdict{Row: "ready", Ready: true}},
		{name: "a consent is left", world: plain, spoil: remember(remembered.PoolApprove+"ssd", "serial:S1"),
			want: verdict{Row: "consents-left", Ready: true, Step: pools.StepForget}},
		{name: "another volume group", world: plain, spoil: func(w *clustertest.World) {
			w.Node("n01").Pools["ssd"].Backing = "other/thin"
		}, want: unsupported, says: "requires LVM_THIN on vg/thin, but LINSTOR has pool ssd as LVM_THIN on other/thin"},
		{name: "another provider", world: plain, spoil: func(w *clustertest.World) {
			w.Node("n01").Pools["ssd"].Provider = "ZFS"
		}, want: unsupported},
		{name: "broken: registered anew", world: clustertest.NeverWorked, spoil: broken, want: repair,
			says: "pool ssd: LINSTOR cannot use thin pool vg/thin: no such VG"},
		{name: "of unknown size: registered anew", world: clustertest.NeverWorked, spoil: func(w *clustertest.World) {
			w.Node("n01").Pools["ssd"].TotalKiB = nil
		}, want: repair},
		{name: "broken for long", world: clustertest.NeverWorked, spoil: func(w *clustertest.World) {
			w.Node("n01").Pools["ssd"].TotalKiB = ptr.To[int64](0)
			w.Tasks["pool/n01/ssd"] = work.State{Err: errors.New("x"), Attempts: 3, Refusals: 3}
		}, want: verdict{Row: "repair-refused", Step: pools.StepRepair, Reason: missing,
			Hold: v1alpha1.HoldPoolBackendMissing}},
		{name: "broken and not ONLINE", world: plain, spoil: func(w *clustertest.World) {
			broken(w)
			w.Node("n01").Status = linstor.StatusOffline
		}, want: verdict{Row: "offline"}},
		{name: "worked, of unknown size and not ONLINE", world: plain, spoil: func(w *clustertest.World) {
			w.Node("n01").Status, w.Node("n01").Pools["ssd"].TotalKiB = linstor.StatusOffline, nil
		}, want: verdict{Row: "offline"}},
		{name: "broken and somebody else's: left alone", world: plain, spoil: func(w *clustertest.World) {
			p := w.Node("n01").Pools["ssd"]
			p.TotalKiB, p.Properties = nil, nil
		}, want: verdict{Row: "not-ours", Reason: missing, Hold: v1alpha1.HoldPoolBackendMissing},
			says: "did not create the pool, so it does not change it"},
		{name: "broken and made from disks: never made again", world: hotReady, spoil: func(w *clustertest.World) {
			delete(w.Node("n01").Pools["hot"].Properties, remembered.Worked)
			w.Node("n01").Pools["hot"].Errors = []string{"gone"}
			w.Node("n01").Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1")}
		}, want: verdict{Row: "unusable", Reason: missing, Hold: v1alpha1.HoldPoolBackendMissing}},
	}
}

// missingScenarios are about pools that LINSTOR does not have.
func missingScenarios() []scenario {
	s1, s2 := clustertest.SsdDisk("/dev/sdb", "S1"), clustertest.SsdDisk("/dev/sdc", "S2")
	occupied := verdict{Row: "occupied", Reason: "DeviceNotEmpty", Hold: v1alpha1.HoldDeviceNotEmpty}
	fromS1 := verdict{Row: "make", Step: pools.StepDevices, Devices: "serial:S1"}
	finish := verdict{Row: "finish", Step: pools.StepFinish}
	return []scenario{
		{name: "to be registered", world: unregistered, want: verdict{Row: "register", Step: pools.StepRegister}},
		{name: "without its volume group", world: unregistered, spoil: func(w *clustertest.World) {
			w.Tasks["pool/n01/ssd"] = work.State{Err: clustertest.Refused(linstor.CodePoolConfiguration)}
		}, want: verdict{Row: "register", Step: pools.StepRegister, Reason: "PoolBackendMissing"},
			says: "pool ssd: LINSTOR cannot use thin pool vg/thin"},
		{name: "the volume group is to be used", world: hot(s1), spoil: answer(remembered.PoolUseExisting),
			want: verdict{Row: "register", Step: pools.StepRegister}},
		{name: "the volume group was to be used, and is another one", world: hot(s1), want: fromS1,
			spoil: func(w *clustertest.World) {
				answer(remembered.PoolUseExisting)(w)
				w.Cluster.Spec.StoragePools[0].LVM.VolumeGroup = "other"
				w.Accept()
			}},
		{name: "done without", world: hot(s1), spoil: answer(remembered.PoolSkip),
			want: verdict{Row: "skipped", NotWanted: true}},
		{name: "done without, and others need no approval", world: hot(s1), spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Devices.Approval = v1alpha1.ApprovalManual
			w.Accept()
			answer(remembered.PoolSkip)(w)
			w.Cluster.Spec.StoragePools[0].Devices.Approval = v1alpha1.ApprovalAuto
			w.Accept()
		}, want: verdict{Row: "skipped", NotWanted: true}},
		{name: "done without, and the disk is gone", world: hot(s1), spoil: func(w *clustertest.World) {
			answer(remembered.PoolSkip)(w)
			w.Node("n01").Devices = nil
		}, want: verdict{Row: "skipped", NotWanted: true}},
		{name: "done without another disk", world: hot(s1), spoil: func(w *clustertest.World) {
			w.Node("n01").Devices = nil
			answer(remembered.PoolSkip)(w)
			w.Node("n01").Devices = []linstor.Device{s1}
		}, want: fromS1},
		{name: "done without, as an older operator kept it", world: hot(s1),
			spoil: remember(remembered.PoolSkip+"hot", "h-1"), want: fromS1},
		{name: "a directory that the satellite does not see yet", world: plain, spoil: func(w *clustertest.World) {
			files := v1alpha1.StoragePoolSpec{Name: "files", FileThin: &v1alpha1.FilePool{Directory: "/srv/files"}}
			w.Cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{files}
			w.Accept()
		}, want: verdict{Row: "not-mounted", Reason: "SatelliteOutdated"}, says: "cannot use the directory /srv/files"},
		{name: "disks cannot be listed", world: hot(s1), spoil: func(w *clustertest.World) {
			w.Linstor.View.DevicesErr = errors.New("timeout")
		}, want: verdict{Row: "disks-unlisted", Reason: "DevicesUnknown"}, says: "timeout"},
		{name: "disks not asked for", world: hot(s1),
			spoil: func(w *clustertest.World) { w.Node("n01").DevicesKnown = false },
			want:  verdict{Row: "disks-unknown"}},
		{name: "empty disk", world: hot(s1), want: fromS1},
		{name: "no disk", world: hot(), want: verdict{Row: "no-disk", Reason: "DeviceMissing",
			Hold: v1alpha1.HoldDeviceMissing}, says: "no disk matches spec.storagePools[hot].devices"},
		{name: "no disk, optional", world: hot(), spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Devices.Optional = true
			w.Accept()
		}, want: verdict{Row: "optional", NotWanted: true}},
		{name: "disk not empty", world: hot(), spoil: func(w *clustertest.World) {
			w.Inventory("n01", clustertest.Lsblk("sdb", "S1", "xfs"))
		}, want: occupied, says: "no empty disk matches, and the operator never overwrites data: " +
			"/dev/sdb (serial S1) contains xfs"},
		{name: "disk not empty, optional", world: hot(), spoil: func(w *clustertest.World) {
			w.Cluster.Spec.StoragePools[0].Devices.Optional = true
			w.Accept()
			w.Inventory("n01", clustertest.Lsblk("sdb", "S1", "xfs"))
		}, want: occupied},
		{name: "disk never seen empty", world: hot(s1), spoil: func(w *clustertest.World) {
			w.Satellite("n01").Status.InitContainerStatuses = nil
		}, want: verdict{Row: "never-seen-empty", Reason: "DevicesUnknown"},
			says: "/dev/sdb (serial S1) has not been inspected yet"},
		{name: "disk refused", world: hot(clustertest.SsdDisk("/dev/loop1", "S1")),
			want: verdict{Row: "refused", Reason: "DeviceRefused", Hold: v1alpha1.HoldDeviceMissing},
			says: "pool hot: /dev/loop1 (serial S1) is a virtual or removable device, which cannot be used"},
		{name: "volume group there", world: hot(s2), spoil: func(w *clustertest.World) {
			w.InventoryOf("n01", `DISKS="1" UDEV="1" VGS=" vg_hot" ZPOOLS=""`, clustertest.Lsblk("sdc", "S2", ""))
		}, want: verdict{Row: "group-there", Reason: "DeviceNotEmpty", Hold: v1alpha1.HoldDeviceNotEmpty},
			says: "does not create another one with the same name from /dev/sdc (serial S2)"},
		{name: "intent, disk still empty", world: hot(s1), spoil: remember(remembered.PoolIntent+"hot", "serial:S1"),
			want: fromS1},
		{name: "intent, disk made ready", world: hot(),
			spoil: remember(remembered.PoolIntent+"hot", "serial:S1"), want: finish},
		{name: "intent for another volume group", world: hot(), spoil: func(w *clustertest.World) {
			remember(remembered.PoolIntent+"hot", "serial:S1")(w)
			remember(remembered.PoolBacking+"hot", "vg_other")(w)
			w.Inventory("n01", clustertest.Lsblk("sdb", "S1", "LVM2_member"))
		}, want: occupied},
		{name: "intent for this volume group, disk made ready", world: hot(), spoil: func(w *clustertest.World) {
			remember(remembered.PoolIntent+"hot", "serial:S1")(w)
			remember(remembered.PoolBacking+"hot", "vg_hot")(w)
		}, want: finish},
		{name: "intent, half of the disks made ready", world: hot(s1),
			spoil: remember(remembered.PoolIntent+"hot", "serial:S1,serial:S2"),
			want: verdict{Row: "half-made", Reason: "StoragePoolsFailed", Hold: v1alpha1.HoldStoragePoolsFailed,
				Devices: "serial:S1"},
			says: "its creation from serial:S1,serial:S2 stopped halfway"},
		{name: "intent, one disk ready and one not empty after all", world: hot(s1), spoil: func(w *clustertest.World) {
			remember(remembered.PoolIntent+"hot", "serial:S1,serial:S2")(w)
			w.InventoryOf("n01", `DISKS="1" UDEV=""`, clustertest.InventoryLine("sdb", "S1", "xfs", ""))
		}, want: occupied},
		{name: "intent, disk made ready, another one is empty", world: hot(clustertest.SsdDisk("/dev/sdc", "S10")),
			spoil: remember(remembered.PoolIntent+"hot", "serial:S1"), want: finish},
		{name: "intent, disk still empty, another one came", world: hot(s1, s2),
			spoil: remember(remembered.PoolIntent+"hot", "serial:S1"),
			want:  fromS1},
	}
}

func TestJudgePool(t *testing.T) {
	for _, tc := range append(presentScenarios(), missingScenarios()...) {
		t.Run(tc.name, tc.check)
	}
}

// Each row decides in a scenario, and has a name of its own.
func TestEveryRowDecides(t *testing.T) {
	reached := map[string]bool{}
	for _, tc := range slices.Concat(presentScenarios(), missingScenarios(), lostScenarios(), approvalScenarios()) {
		reached[tc.want.Row] = true
	}
	rows := pools.Rows()
	slices.Sort(rows)
	if d := cmp.Diff(rows, slices.Sorted(maps.Keys(reached))); d != "" {
		t.Errorf("rows (-), and those that decide in a scenario (+): %s", d)
	}
}

// Two entries on one thing would let LINSTOR count its free space twice, until all of its volumes fail.
func TestEntriesOnOneStorage(t *testing.T) {
	lvm := func(vg string) v1alpha1.StoragePoolSpec {
		return v1alpha1.StoragePoolSpec{LVM: &v1alpha1.LVMPool{VolumeGroup: vg}}
	}
	thin := func(vg, pool string) v1alpha1.StoragePoolSpec {
		return v1alpha1.StoragePoolSpec{LVMThin: &v1alpha1.LVMThinPool{VolumeGroup: vg, ThinPool: pool}}
	}
	zfs := func(pool string) v1alpha1.StoragePoolSpec {
		return v1alpha1.StoragePoolSpec{ZFS: &v1alpha1.ZFSPool{ZPool: pool}}
	}
	zfsThin := func(pool string) v1alpha1.StoragePoolSpec {
		return v1alpha1.StoragePoolSpec{ZFSThin: &v1alpha1.ZFSPool{ZPool: pool}}
	}
	file := func(dir string) v1alpha1.StoragePoolSpec {
		return v1alpha1.StoragePoolSpec{File: &v1alpha1.FilePool{Directory: dir}}
	}
	fileThin := func(dir string) v1alpha1.StoragePoolSpec {
		return v1alpha1.StoragePoolSpec{FileThin: &v1alpha1.FilePool{Directory: dir}}
	}
	on := func(p v1alpha1.StoragePoolSpec, serial string) v1alpha1.StoragePoolSpec {
		p.Devices = &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: serial}}}
		return p
	}
	apart := func(p v1alpha1.StoragePoolSpec, node string) v1alpha1.StoragePoolSpec {
		p.NodeSelector = map[string]string{corev1.LabelHostname: node}
		return p
	}
	for name, tc := range map[string]struct {
		a, b v1alpha1.StoragePoolSpec
		want string // "" if they get along
	}{
		"one volume group":              {lvm("vg"), lvm("vg"), "volume group vg"},
		"one thin pool":                 {thin("vg", "thin"), thin("vg", "thin"), "thin pool vg/thin"},
		"one zpool":                     {zfs("tank"), zfs("tank"), "zpool tank"},
		"one zpool, thick and thin":     {zfs("tank"), zfsThin("tank"), "zpool tank"},
		"one directory":                 {file("/a"), file("/a"), "directory /a"},
		"one directory, thick and thin": {file("/a"), fileThin("/a"), "directory /a"},
		"one group made from disks twice": {on(thin("vg", "a"), "S1"), on(thin("vg", "b"), "S2"),
			"volume group vg from disks"},
		"one group made as thick and thin":  {on(thin("vg", "a"), "S1"), on(lvm("vg"), "S2"), "volume group vg from disks"},
		"a group and a thin pool in it":     {lvm("vg"), thin("vg", "thin"), ""},
		"two thin pools of a group":         {thin("vg", "a"), thin("vg", "b"), ""},
		"two datasets":                      {zfs("tank/a"), zfs("tank/b"), ""},
		"a group and a zpool of one name":   {lvm("tank"), zfs("tank"), ""},
		"names that differ in case":         {lvm("vg"), lvm("VG"), ""},
		"one volume group, on other nodes":  {apart(lvm("vg"), "n01"), apart(lvm("vg"), "n02"), ""},
		"one volume group, on one node too": {lvm("vg"), apart(lvm("vg"), "n01"), "volume group vg"},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			tc.a.Name, tc.b.Name = "ssd", "fast"
			w.Cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{tc.a, tc.b}
			w.Settle()
			for _, n := range w.Linstor.View.Nodes {
				n.Pools = map[string]*linstor.Pool{}
				n.Devices = []linstor.Device{clustertest.SsdDisk("/dev/sdb", "S1"), clustertest.SsdDisk("/dev/sdc", "S2")}
			}
			in, r := w.Input()
			m := in.Snapshot.Members[0]
			if err := pools.Link().Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			for _, p := range m.Pools {
				switch got := p.Problem; {
				case tc.want == "" && got != nil && got.Hold == v1alpha1.HoldPoolConflict:
					t.Errorf("%s: %s", p.Entry.Name, got.Message)
				case tc.want == "":
				case got == nil || got.Hold != v1alpha1.HoldPoolConflict:
					t.Errorf("%s: no conflict: %+v", p.Entry.Name, got)
				default:
					for _, text := range []string{"spec.storagePools[ssd]", "spec.storagePools[fast]", tc.want} {
						if !strings.Contains(got.Message, text) {
							t.Errorf("%q lacks %q", got.Message, text)
						}
					}
					if p.Step != pools.StepNone || slices.Contains(r.Keys(), step.PoolKey(m, p)) {
						t.Errorf("%s is worked on", p.Entry.Name)
					}
				}
			}
		})
	}
}
