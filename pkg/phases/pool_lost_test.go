package phases

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// lost is a world of one node whose pool "hot", made from disk S1, has lost its volume group; S2 is an empty disk that matches.
func lost(t *testing.T) *world {
	w := hot(t, ssdDisk("/dev/sdc", "S2"))
	w.register()
	n := w.node("n01")
	n.Pools["hot"].TotalKiB, n.Pools["hot"].Errors = nil, []string{"Volume group 'vg_hot' not found"}
	n.Devices = []linstor.Device{ssdDisk("/dev/sdc", "S2")}
	n.Properties[auxIntent+"hot"] = "serial:S1"
	return w
}

func verified(times int) func(*world) {
	return func(w *world) {
		w.tasks["pool/n01/hot/verify"] = work.State{Err: errors.New("not there"), Refusals: times}
	}
}

func TestJudgeLostPool(t *testing.T) {
	consent := func(text string) func(*world) {
		return func(w *world) { w.node("n01").Properties[auxRecreate+"hot"] = text }
	}
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		step  poolStep
		hold  v1alpha1.HoldReason
		spare string
	}{
		{name: "first seen", step: stepVerify, spare: "serial:S2"},
		{name: "seen a few times", spoil: verified(looksBeforeLost - 1), step: stepVerify, spare: "serial:S2"},
		{name: "seen often enough", spoil: verified(looksBeforeLost), step: stepVerify, spare: "serial:S2", hold: v1alpha1.HoldPoolBackendLost},
		{name: "under maintenance", spoil: func(w *world) {
			verified(looksBeforeLost)(w)
			w.kubeNode("n01").Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "true"}
		}, step: stepVerify, spare: "serial:S2"},
		{name: "no disks known", spoil: func(w *world) {
			verified(looksBeforeLost)(w)
			w.node("n01").DevicesKnown = false
		}, step: stepVerify},
		{name: "disks cannot be listed", spoil: func(w *world) {
			verified(looksBeforeLost)(w)
			w.node("n01").DevicesKnown, w.linstor.View.DevicesErr = false, errors.New("timeout")
		}, step: stepVerify, hold: v1alpha1.HoldPoolBackendLost},
		{name: "consent", spoil: consent("serial:S2"), step: stepRecreate, spare: "serial:S2"},
		{name: "consent to another disk", spoil: consent("serial:S3"), step: stepVerify, spare: "serial:S2"},
		{name: "consent, refused for long", spoil: func(w *world) {
			consent("serial:S2")(w)
			w.tasks["pool/n01/hot"] = work.State{Err: errors.New("in use"), Refusals: refusalsThatLast}
		}, step: stepRecreate, spare: "serial:S2", hold: v1alpha1.HoldPoolBackendLost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := lost(t)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			p := w.snapshot().Members[0].Pools[0]
			if p.Problem == nil || p.Problem.Reason != "PoolBackendLost" || p.Ready {
				t.Fatalf("ready %t, problem %+v", p.Ready, p.Problem)
			}
			if p.step != tc.step || p.Problem.Hold != tc.hold || consentTo(p.spare) != tc.spare || len(p.devices) > 0 {
				t.Errorf("step %q hold %q spare %q, want %q %q %q", p.step, p.Problem.Hold, consentTo(p.spare), tc.step, tc.hold, tc.spare)
			}
		})
	}
}

// A lost pool is only looked at, whatever empty disks are there.
func TestALostPoolIsLeftAlone(t *testing.T) {
	w := lost(t)
	in, r := w.input()
	if err := (poolLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"pool/n01/hot/verify"}, r.keys()); d != "" {
		t.Fatal(d)
	}
	r.pools["n01/hot"] = &linstor.Pool{}
	if err := r.run(t, "pool/n01/hot/verify"); err == nil {
		t.Error("a pool that is away counts as there")
	}
	r.pools["n01/hot"] = w.node("n01").Pools["hot"]
	r.pools["n01/hot"].Errors, r.pools["n01/hot"].TotalKiB = nil, new(int64)
	*r.pools["n01/hot"].TotalKiB = 7
	if err := r.run(t, "pool/n01/hot/verify"); err != nil || len(r.calls) > 0 {
		t.Errorf("%v %v", err, r.calls)
	}
}

// Looks that found a pool's storage away are counted in a row: the pool being there, or being gone from LINSTOR, ends the count.
func TestLooksAtAPoolThatIsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		forget bool
	}{
		"still lost": {func(*world) {}, false},
		"back":       {func(w *world) { p := w.node("n01").Pools["hot"]; p.Errors, p.TotalKiB = nil, ptr.To[int64](7) }, true},
		"removed":    {func(w *world) { delete(w.node("n01").Pools, "hot") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := lost(t)
			w.tasks["pool/n01/hot/verify"] = work.State{Err: errors.New("away"), Refusals: looksBeforeLost}
			tc.change(w)
			in, r := w.input()
			if err := (poolLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(r.calls, "forget pool/n01/hot/verify"); got != tc.forget {
				t.Errorf("forgotten: %t, want %t (%v)", got, tc.forget, r.calls)
			}
		})
	}
}

func TestRecreatePool(t *testing.T) {
	const (
		intent = "node n01 set backing.hot=vg_hot intent.hot=serial:S2 del "
		remove = "delete pool n01/hot"
		device = "create devices n01 LVM vg_hot from /dev/sdc"
		create = "create pool n01/hot LVM vg_hot"
	)
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		then  func(*record)
		want  []string
		fails string
	}{
		{name: "as agreed", want: []string{intent, remove, device, create}},
		{name: "back again", then: func(r *record) { size := int64(7); r.pools["n01/hot"] = &linstor.Pool{TotalKiB: &size} }},
		{name: "deregistered meanwhile", then: func(r *record) { delete(r.pools, "n01/hot") }},
		{name: "no look", then: func(r *record) { r.fail["pool n01/hot"] = errors.New("timeout") }, fails: "timeout"},
		{name: "a copy is in it", then: func(r *record) {
			r.now = &linstor.View{Resources: []linstor.Resource{{Name: "pvc-1", Node: "n01", Pools: []string{"hot"}}}}
		}, fails: "linstor resource delete n01"},
		{name: "copies not known", then: func(r *record) { r.fail["resources"] = errors.New("timeout") }, fails: "timeout"},
		{name: "a snapshot is on the node", then: func(r *record) { r.snapshots = map[string][]string{"n01": {"pvc-1/daily"}} }, fails: "pvc-1/daily"},
		{name: "snapshots not known", then: func(r *record) { r.fail["snapshots n01"] = errors.New("timeout") }, fails: "timeout"},
		{name: "the disk is not empty any more", then: func(r *record) { r.devices["n01"] = nil }, fails: "approved"},
		{name: "another disk came", then: func(r *record) { r.devices["n01"] = append(r.devices["n01"], ssdDisk("/dev/sdd", "S3")) }, fails: "approved"},
		{name: "disks not known", then: func(r *record) { r.fail["devices n01"] = errors.New("timeout") }, fails: "timeout"},
		{name: "the old disk is there", spoil: func(w *world) { w.inventory("n01", lsblk("sdb", "S1", "LVM2_member")) }, fails: "may only be inactive"},
		{name: "the old disk is another pool's", spoil: func(w *world) { w.inventory("n01", lsblk("sdb", "X1", "LVM2_member")) }, want: []string{intent, remove, device, create}},
		{name: "the intent is not stored", then: func(r *record) { r.fail[intent] = errors.New("no database") }, want: []string{intent}, fails: "no database"},
		{name: "LINSTOR refuses", then: func(r *record) { r.fail[remove] = refused(linstor.CodeInUse) }, want: []string{intent, remove}, fails: "997"},
		{name: "the volume group is there after all", then: func(r *record) { r.fail[device] = errors.New("vgcreate failed") }, want: []string{intent, remove, device}, fails: "vgcreate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := lost(t)
			w.node("n01").Properties[auxRecreate+"hot"] = "serial:S2"
			if tc.spoil != nil {
				tc.spoil(w)
			}
			in, r := w.input()
			if err := (poolLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			r.pools["n01/hot"], r.devices["n01"] = &linstor.Pool{}, []linstor.Device{ssdDisk("/dev/sdc", "S2")}
			if tc.then != nil {
				tc.then(r)
			}
			err := r.run(t, "pool/n01/hot")
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("err = %v, want %q", err, tc.fails)
			}
			if d := cmp.Diff(tc.want, r.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// A pool is registered as one that works. If LINSTOR finds nothing behind it, the mark goes, and it is no lost pool later.
func TestTheMarkOfAPoolThatNeverWorked(t *testing.T) {
	for name, fail := range map[string]error{
		"no volume group":                   refused(linstor.CodePoolConfiguration),
		"the satellite went away meanwhile": refused(0),
		"no answer":                         errors.New("connection reset"),
	} {
		t.Run(name, func(t *testing.T) {
			w := plain(t)
			delete(w.node("n01").Pools, "ssd")
			in, r := w.input()
			if err := (poolLink{}).Work(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			r.fail["create pool n01/ssd LVM_THIN vg/thin"] = fail
			if err := r.run(t, "pool/n01/ssd"); !errors.Is(err, fail) {
				t.Errorf("err = %v", err)
			}
			if d := cmp.Diff([]string{"create pool n01/ssd LVM_THIN vg/thin", "pool n01/ssd set  del " + auxWorked}, r.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

// A pool that an older operator made, or that was there before, gets its mark once it is seen to work, and not before.
func TestTheMarkOfAnExistingPool(t *testing.T) {
	w := neverWorked(t)
	if p := w.snapshot().Members[0].Pools[0]; p.step != stepModify || p.change.Set[auxWorked] != "true" {
		t.Errorf("step %q, change %+v", p.step, p.change)
	}
	w.node("n01").Pools["ssd"].TotalKiB = nil
	if p := w.snapshot().Members[0].Pools[0]; p.step != stepRepair {
		t.Errorf("step %q", p.step)
	}
}

func TestAConsentCountsOnce(t *testing.T) {
	w := lost(t)
	w.register()
	w.node("n01").Properties[auxRecreate+"hot"] = "serial:S2"
	in, r := w.input()
	if m := in.Members[0]; m.State != v1alpha1.NodeOnline || m.Pools[0].step != stepForget {
		t.Fatalf("%s, step %q", m.State, m.Pools[0].step)
	}
	if err := (poolLink{}).Work(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := r.run(t, "pool/n01/hot"); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"node n01 set  del " + auxRecreate + "hot"}, r.calls); d != "" {
		t.Error(d)
	}
}
