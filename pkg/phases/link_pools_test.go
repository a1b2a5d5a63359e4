package phases

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// hot is a world of one node whose pool "hot" is not there yet, with these empty disks.
func hot(t *testing.T, empty ...linstor.Device) *world {
	w := newWorld(t, 1)
	w.cluster.Spec.StoragePools = []v1alpha1.StoragePoolSpec{onDevices("hot", "S*")}
	w.settle()
	delete(w.node("n01").Pools, "hot")
	w.node("n01").Devices = empty
	return w
}

func ssdDisk(path, serial string) linstor.Device {
	return linstor.Device{Path: path, Serial: serial, SizeBytes: 1 << 40}
}

func TestJudgePool(t *testing.T) {
	one := []linstor.Device{ssdDisk("/dev/sdb", "S1")}
	intent := func(what string) func(*world) {
		return func(w *world) { w.node("n01").Properties[auxIntent+"hot"] = what }
	}
	for _, tc := range []struct {
		name    string
		w       func(t *testing.T) *world
		spoil   func(*world)
		step    poolStep
		ready   bool
		problem string // its reason
		hold    v1alpha1.HoldReason
	}{
		{name: "there", w: plain, ready: true},
		{name: "to be registered", w: plain, spoil: func(w *world) { delete(w.node("n01").Pools, "ssd") }, step: stepRegister},
		{name: "properties differ", w: plain, spoil: func(w *world) {
			w.cluster.Spec.StoragePools[0].Properties = map[string]string{"PrefNic": "storage"}
			w.accept()
		}, step: stepModify},
		{name: "properties are refused", w: plain, spoil: func(w *world) {
			w.cluster.Spec.StoragePools[0].Properties = map[string]string{"PrefNic": ""}
			w.accept()
			w.tasks["pool/n01/ssd"] = work.State{Err: refused(linstor.CodeUnknown), Attempts: 3, Refusals: 3}
		}, step: stepModify, problem: "WriteFailed", hold: v1alpha1.HoldStoragePoolsFailed},
		{name: "properties of others", w: plain, spoil: func(w *world) { w.node("n01").Pools["ssd"].Properties["Aux/mine"] = "x" }, ready: true},
		{name: "other case", w: plain, spoil: func(w *world) { w.node("n01").Pools["ssd"].Provider = "lvm_thin" }, ready: true},
		{name: "another volume group", w: plain, spoil: func(w *world) { w.node("n01").Pools["ssd"].Backing = "other/thin" }, problem: "UnsupportedChange", hold: v1alpha1.HoldUnsupportedChange},
		{name: "another provider", w: plain, spoil: func(w *world) { w.node("n01").Pools["ssd"].Provider = "ZFS" }, problem: "UnsupportedChange", hold: v1alpha1.HoldUnsupportedChange},
		{name: "broken: registered anew", w: neverWorked, spoil: func(w *world) { w.node("n01").Pools["ssd"].Errors = []string{"no such VG"} }, step: stepRepair, problem: "PoolBackendMissing"},
		{name: "of unknown size: registered anew", w: neverWorked, spoil: func(w *world) { w.node("n01").Pools["ssd"].TotalKiB = nil }, step: stepRepair, problem: "PoolBackendMissing"},
		{name: "broken for long", w: neverWorked, spoil: func(w *world) {
			w.node("n01").Pools["ssd"].TotalKiB = ptr.To[int64](0)
			w.tasks["pool/n01/ssd"] = work.State{Err: errors.New("x"), Attempts: 3, Refusals: 3}
		}, step: stepRepair, problem: "PoolBackendMissing", hold: v1alpha1.HoldPoolBackendMissing},
		{name: "broken and somebody else's: left alone", w: plain, spoil: func(w *world) {
			p := w.node("n01").Pools["ssd"]
			p.TotalKiB, p.Properties = nil, nil
		}, problem: "PoolBackendMissing", hold: v1alpha1.HoldPoolBackendMissing},
		{name: "broken and made from disks: never made again", w: hotReady, spoil: func(w *world) {
			delete(w.node("n01").Pools["hot"].Properties, auxWorked)
			w.node("n01").Pools["hot"].Errors = []string{"gone"}
			w.node("n01").Devices = one
		}, problem: "PoolBackendMissing", hold: v1alpha1.HoldPoolBackendMissing},
		{name: "empty disk", w: func(t *testing.T) *world { return hot(t, one...) }, step: stepDevices},
		{name: "no disk", w: func(t *testing.T) *world { return hot(t) }, problem: "DeviceMissing", hold: v1alpha1.HoldDeviceMissing},
		{name: "no disk, optional", w: func(t *testing.T) *world { return hot(t) }, spoil: func(w *world) {
			w.cluster.Spec.StoragePools[0].Devices.Optional = true
			w.accept()
		}},
		{name: "disk not empty", w: func(t *testing.T) *world { return hot(t) }, spoil: func(w *world) { w.inventory("n01", lsblk("sdb", "S1", "xfs")) },
			problem: "DeviceNotEmpty", hold: v1alpha1.HoldDeviceNotEmpty},
		{name: "disk refused", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/loop1", "S1")) }, problem: "DeviceRefused", hold: v1alpha1.HoldDeviceMissing},
		{name: "disks not asked for", w: func(t *testing.T) *world { return hot(t, one...) }, spoil: func(w *world) { w.node("n01").DevicesKnown = false }},
		{name: "disks cannot be listed", w: func(t *testing.T) *world { return hot(t, one...) }, spoil: func(w *world) { w.linstor.View.DevicesErr = errors.New("timeout") }, problem: "DevicesUnknown"},
		{name: "intent, disk still empty", w: func(t *testing.T) *world { return hot(t, one...) }, spoil: intent("serial:S1"), step: stepDevices},
		{name: "intent, disk made ready", w: func(t *testing.T) *world { return hot(t) }, spoil: intent("serial:S1"), step: stepFinish},
		{name: "intent for another volume group", w: func(t *testing.T) *world { return hot(t) }, spoil: func(w *world) {
			intent("serial:S1")(w)
			w.node("n01").Properties[auxBacking+"hot"] = "vg_other"
			w.inventory("n01", lsblk("sdb", "S1", "LVM2_member"))
		}, problem: "DeviceNotEmpty", hold: v1alpha1.HoldDeviceNotEmpty},
		{name: "intent for this volume group, disk made ready", w: func(t *testing.T) *world { return hot(t) }, spoil: func(w *world) {
			intent("serial:S1")(w)
			w.node("n01").Properties[auxBacking+"hot"] = "vg_hot"
		}, step: stepFinish},
		{name: "intent, half of the disks made ready", w: func(t *testing.T) *world { return hot(t, one...) }, spoil: intent("serial:S1,serial:S2"),
			problem: "StoragePoolsFailed", hold: v1alpha1.HoldStoragePoolsFailed},
		{name: "intent, disk made ready, another one is empty", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdc", "S10")) }, spoil: intent("serial:S1"), step: stepFinish},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.w(t)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			p := w.snapshot().Members[0].Pools[0]
			got := Problem{}
			if p.Problem != nil {
				got = *p.Problem
			}
			if p.step != tc.step || p.Ready != tc.ready || got.Reason != tc.problem || got.Hold != tc.hold {
				t.Errorf("step %q ready %t problem %s hold %q (%s), want %q %t %s %q", p.step, p.Ready, got.Reason, got.Hold, got.Message, tc.step, tc.ready, tc.problem, tc.hold)
			}
		})
	}
}

func plain(t *testing.T) *world { return newWorld(t, 1) }

// neverWorked is a world whose pool LINSTOR could not use yet.
func neverWorked(t *testing.T) *world {
	w := newWorld(t, 1)
	delete(w.node("n01").Pools["ssd"].Properties, auxWorked)
	return w
}

func hotReady(t *testing.T) *world {
	w := hot(t)
	w.register()
	return w
}

// What a task does, step by step, on what LINSTOR says at that moment.
func TestPoolWork(t *testing.T) {
	const device = "create devices n01 LVM vg_hot from /dev/sdb"
	notThere := func(*record) {}
	for _, tc := range []struct {
		name  string
		w     func(t *testing.T) *world
		spoil func(*world)
		then  func(*record) // what changes until the task runs
		want  []string
		fails string // part of the error
	}{
		{name: "register", w: plain, spoil: func(w *world) { delete(w.node("n01").Pools, "ssd") }, then: notThere, want: []string{"create pool n01/ssd LVM_THIN vg/thin"}},
		{name: "register what somebody has registered meanwhile", w: plain, spoil: func(w *world) { delete(w.node("n01").Pools, "ssd") },
			then: func(r *record) { r.fail["create pool n01/ssd LVM_THIN vg/thin"] = refused(linstor.CodePoolExists) }, want: []string{"create pool n01/ssd LVM_THIN vg/thin"}},
		{name: "repair", w: neverWorked, spoil: func(w *world) { w.node("n01").Pools["ssd"].TotalKiB = nil },
			then: func(r *record) { r.pools["n01/ssd"] = &linstor.Pool{} }, want: []string{"delete pool n01/ssd", "create pool n01/ssd LVM_THIN vg/thin"}},
		{name: "repair what is well meanwhile", w: neverWorked, spoil: func(w *world) { w.node("n01").Pools["ssd"].TotalKiB = nil },
			then: func(r *record) { r.pools["n01/ssd"] = &linstor.Pool{TotalKiB: ptr.To[int64](1)} }},
		{name: "repair what is gone meanwhile", w: neverWorked, spoil: func(w *world) { w.node("n01").Pools["ssd"].TotalKiB = nil }, then: notThere,
			want: []string{"create pool n01/ssd LVM_THIN vg/thin"}},
		{name: "repair of a pool in use is refused by LINSTOR", w: neverWorked, spoil: func(w *world) { w.node("n01").Pools["ssd"].TotalKiB = nil },
			then: func(r *record) {
				r.pools["n01/ssd"] = &linstor.Pool{}
				r.fail["delete pool n01/ssd"] = refused(linstor.CodeInUse)
			}, want: []string{"delete pool n01/ssd"}, fails: "997"},
		{name: "repair without a look", w: neverWorked, spoil: func(w *world) { w.node("n01").Pools["ssd"].TotalKiB = nil },
			then: func(r *record) { r.fail["pool n01/ssd"] = errors.New("timeout") }, fails: "timeout"},
		{name: "modify", w: plain, spoil: func(w *world) {
			w.cluster.Spec.StoragePools[0].Properties = map[string]string{"PrefNic": "storage"}
			w.accept()
		}, then: notThere, want: []string{"pool n01/ssd set PrefNic=storage del "}},
		{name: "devices: intent, device step, pool", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1")) },
			then: func(r *record) { r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1")} },
			want: []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1 del ", device, "create pool n01/hot LVM vg_hot"}},
		{name: "devices: the name moved at a reboot", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdx", "S1")) },
			then: func(r *record) {
				r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1"), ssdDisk("/dev/sdx", "other")}
			},
			want: []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1 del ", device, "create pool n01/hot LVM vg_hot"}},
		{name: "devices: no longer empty", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1")) }, then: notThere, fails: "changed"},
		{name: "devices: another disk came", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1")) },
			then: func(r *record) {
				r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1"), ssdDisk("/dev/sdc", "S2")}
			}, fails: "changed"},
		{name: "devices: another disk came after a crash", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1"), ssdDisk("/dev/sdc", "S2")) },
			spoil: func(w *world) { w.node("n01").Properties[auxIntent+"hot"] = "serial:S1" },
			then: func(r *record) {
				r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1"), ssdDisk("/dev/sdc", "S2")}
			},
			want: []string{device, "create pool n01/hot LVM vg_hot"}},
		{name: "devices: the pool is there meanwhile", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1")) },
			then: func(r *record) {
				r.pools["n01/hot"] = &linstor.Pool{}
				r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1")}
			}},
		{name: "devices: no look, no step", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1")) },
			then: func(r *record) { r.fail["devices n01"] = errors.New("timeout") }, fails: "timeout"},
		{name: "devices: pool not looked up, no step", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1")) },
			then: func(r *record) { r.fail["pool n01/hot"] = errors.New("timeout") }, fails: "timeout"},
		{name: "devices: no intent, no step", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1")) },
			then: func(r *record) {
				r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1")}
				r.fail["node n01 set backing.hot=vg_hot intent.hot=serial:S1 del "] = errors.New("no database")
			}, want: []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1 del "}, fails: "no database"},
		{name: "devices: step failed, no pool", w: func(t *testing.T) *world { return hot(t, ssdDisk("/dev/sdb", "S1")) },
			then: func(r *record) {
				r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1")}
				r.fail[device] = errors.New("pvcreate failed")
			}, want: []string{"node n01 set backing.hot=vg_hot intent.hot=serial:S1 del ", device}, fails: "pvcreate failed"},
		{name: "finish", w: func(t *testing.T) *world { return hot(t) }, spoil: func(w *world) { w.node("n01").Properties[auxIntent+"hot"] = "serial:S1" }, then: notThere,
			want: []string{"create pool n01/hot LVM vg_hot"}},
		{name: "finish: still empty after all", w: func(t *testing.T) *world { return hot(t) }, spoil: func(w *world) { w.node("n01").Properties[auxIntent+"hot"] = "serial:S1" },
			then: func(r *record) { r.devices["n01"] = []linstor.Device{ssdDisk("/dev/sdb", "S1")} }, fails: "still empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.w(t)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.input()
			if err := (poolLink{}).Work(t.Context(), in); err != nil || len(r.queued) != 1 {
				t.Fatalf("%v, tasks %v", err, r.keys())
			}
			tc.then(r)
			err := r.run(t, r.queued[0].Key)
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("err = %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.want, r.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPoolWorkLeavesAlone(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"a node that is not ONLINE": func(w *world) { w.node("n01").Status = linstor.StatusOffline },
		"a node that leaves": func(w *world) {
			w.kubeNode("n01").Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		},
		"a pool that is held": func(w *world) {
			w.cluster.Status.NodeHolds = []v1alpha1.Hold{{ID: "h", Pool: "hot", Nodes: []string{"n01"}, Count: 1}}
		},
		"all while LINSTOR is silent": func(w *world) { w.silent(errors.New("x")) },
	} {
		w := hot(t, ssdDisk("/dev/sdb", "S1"))
		spoil(w)
		in, r := w.input()
		if err := (poolLink{}).Work(t.Context(), in); err != nil || len(r.queued)+len(r.calls) > 0 {
			t.Errorf("%s: %v %v %v", name, err, r.keys(), r.calls)
		}
	}
}

func TestADiskForTwoPoolsIsUsedByNone(t *testing.T) {
	w := hot(t, ssdDisk("/dev/sdb", "S1"))
	w.cluster.Spec.StoragePools = append(w.cluster.Spec.StoragePools, onDevices("cold", "*1"))
	w.accept()
	in, r := w.input()
	if err := (poolLink{}).Work(t.Context(), in); err != nil || len(r.queued) > 0 {
		t.Errorf("%v %v", err, r.keys())
	}
	checkEvidence(t, poolLink{}.Evidence(in.Snapshot), Failed, "PoolConflict", false, v1alpha1.HoldPoolConflict)
}
