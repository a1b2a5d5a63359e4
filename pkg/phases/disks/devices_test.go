package disks_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/disks"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", false}, {"*", "", false}, {"", "a", false},
		{"*", "a", true}, {"a", "a", true}, {"a", "A", false}, {"a", "ab", false},
		{"a*", "a", true}, {"a*", "abc", true}, {"a*", "ba", false},
		{"*a", "a", true}, {"*a", "ba", true}, {"*a", "ab", false},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"a*a", "aba", true},
		{"*b*", "abc", true}, {"*b*", "ac", false},
		{"a*b*c", "a1b2c", true}, {"a*b*c", "a1c2b", false}, {"a*bc*c", "abc", false},
		{"**", "x", true}, {"S4EV*", "S4EVNX0M", true}, {"[a]", "[a]", true}, {"a.c", "abc", false},
	} {
		if got := disks.Glob(tc.pattern, tc.text); got != tc.want {
			t.Errorf("glob(%q, %q) = %t", tc.pattern, tc.text, got)
		}
	}
}

// FuzzGlob compares glob with a regular expression that says the same.
func FuzzGlob(f *testing.F) {
	for _, s := range []string{"a*b*c", "*", "S4EV*", "**a", "a*a"} {
		f.Add(s, "abc")
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			t.Skip("serial numbers are text")
		}
		re := regexp.MustCompile(`\A(?s:` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `)\z`)
		if want := text != "" && re.MatchString(text); disks.Glob(pattern, text) != want {
			t.Errorf("glob(%q, %q) is not %t", pattern, text, want)
		}
	})
}

func TestEntryMatches(t *testing.T) {
	d := linstor.Device{Path: "/dev/sdb", Model: "INTEL SSDPE2KX", Serial: "S4EV1", WWN: "0x5000", SizeBytes: 500 << 30,
		Rotational: false}
	size := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	for _, tc := range []struct {
		name  string
		match v1alpha1.DeviceMatch
		want  bool
	}{
		{"serial", v1alpha1.DeviceMatch{Serial: "S4EV*"}, true},
		{"another serial", v1alpha1.DeviceMatch{Serial: "X*"}, false},
		{"wwn", v1alpha1.DeviceMatch{WWN: "0x5000"}, true},
		{"another wwn", v1alpha1.DeviceMatch{WWN: "0x6000"}, false},
		{"model", v1alpha1.DeviceMatch{Model: "INTEL*"}, true},
		{"another model", v1alpha1.DeviceMatch{Model: "ST*"}, false},
		{"path", v1alpha1.DeviceMatch{Path: "/dev/sdb"}, true},
		{"another path", v1alpha1.DeviceMatch{Path: "/dev/sdc"}, false},
		{"at least its size", v1alpha1.DeviceMatch{MinSize: size("500Gi")}, true},
		{"at least more", v1alpha1.DeviceMatch{MinSize: size("501Gi")}, false},
		{"at most its size", v1alpha1.DeviceMatch{MaxSize: size("500Gi")}, true},
		{"at most less", v1alpha1.DeviceMatch{MaxSize: size("499Gi")}, false},
		{"no spinning disk", v1alpha1.DeviceMatch{Rotational: ptr.To(false)}, true},
		{"spinning disk", v1alpha1.DeviceMatch{Rotational: ptr.To(true)}, false},
		{"all must match", v1alpha1.DeviceMatch{Serial: "S4EV*", Model: "ST*"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := disks.EntryMatches(&tc.match, &d); got != tc.want {
				t.Errorf("matches: %t", got)
			}
			either := &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "nobody"}, tc.match}}
			if got := disks.Matches(either, &d); got != tc.want {
				t.Errorf("as one of two entries: %t", got)
			}
		})
	}
	anonymous := linstor.Device{Path: "/dev/vdb", SizeBytes: 1 << 40}
	if disks.EntryMatches(&v1alpha1.DeviceMatch{Serial: "*"}, &anonymous) {
		t.Error("a disk without serial number matches serial *")
	}
}

func TestRefusal(t *testing.T) {
	good := linstor.Device{Path: "/dev/sdb", Serial: "S1", WWN: "0xAB", SizeBytes: 1 << 40}
	with := func(f func(*linstor.Device)) linstor.Device {
		d := good
		f(&d)
		return d
	}
	for _, tc := range []struct {
		name  string
		d     linstor.Device
		spoil func(*clustertest.World)
		want  string // part of the refusal; "" if it may be used
	}{
		{name: "good", d: good},
		{name: "wwn alone", d: with(func(d *linstor.Device) { d.Serial = "" })},
		{name: "anonymous", d: with(func(d *linstor.Device) { d.Serial, d.WWN = "", "" }),
			want: "neither a serial number nor a WWN"},
		{name: "anonymous by path", d: with(func(d *linstor.Device) { d.Path, d.Serial, d.WWN = "/dev/vdx", "", "" })},
		{name: "loop", d: with(func(d *linstor.Device) { d.Path = "/dev/loop3" }), want: "which cannot be used"},
		{name: "zram", d: with(func(d *linstor.Device) { d.Path = "/dev/zram0" }), want: "which cannot be used"},
		{name: "nbd", d: with(func(d *linstor.Device) { d.Path = "/dev/nbd0" }), want: "which cannot be used"},
		{name: "rbd", d: with(func(d *linstor.Device) { d.Path = "/dev/rbd0" }), want: "which cannot be used"},
		{name: "multipath", d: with(func(d *linstor.Device) { d.Path = "/dev/dm-4" }), want: "which cannot be used"},
		{name: "local PersistentVolume", d: good, want: "local PersistentVolume", spoil: func(w *clustertest.World) {
			w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n01": {{Path: "/dev/sdb"}}}
		}},
		{name: "local PersistentVolume by the disk's name", d: good, want: "local PersistentVolume",
			spoil: func(w *clustertest.World) {
				w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n01": {{Path: "/dev/disk/by-id/wwn-0xab"}}}
			}},
		{name: "local PersistentVolume on another node", d: good, spoil: func(w *clustertest.World) {
			w.Kube.DiskVolumes = map[string][]nodevolumes.Volume{"n02": {{Path: "/dev/sdb"}}}
		}},
		{name: "shared with another node's empty disk", d: good, want: "node n02", spoil: func(w *clustertest.World) {
			w.Node("n02").Devices = []linstor.Device{{Path: "/dev/sdq", WWN: "0xab"}}
		}},
		{name: "shared with another node's used disk", d: good, want: "node n02", spoil: func(w *clustertest.World) {
			w.Inventory("n02", `NAME="sdq" TYPE="disk" SIZE="1" ROTA="0" SERIAL="" WWN="0xab" MODEL="" FSTYPE="LVM2_member"`)
		}},
		{name: "its own entry is no share", d: good,
			spoil: func(w *clustertest.World) { w.Node("n01").Devices = []linstor.Device{good} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 2)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			spec := &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{MinSize: ptr.To(resource.MustParse("1Gi"))},
				{Path: "/dev/vdx"}}}
			s := w.Snapshot()
			disks.Index(s)
			got := disks.Refusal(s, spec, "n01", &tc.d)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("refusal %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseInventory(t *testing.T) {
	got := disks.ParseInventory(strings.Join([]string{
		`DISKS="4" UDEV="1" VGS=" vg_os vg_ssd" ZPOOLS=" ?"`,
		`NAME="sda" SIZE="107374182400" ROTA="0" SERIAL="OS1" WWN="0x1" MODEL="Samsung SSD  870 " PTTYPE="gpt" ` +
			`SEEN="1" UDEV="1" HELD=" dm-0 a mount" IN=" vg_os"`,
		`lsblk: /dev/sr0: not a block device`,
		``,
		`NAME="sdb" SIZE="1099511627776" ROTA="1" SERIAL="Z" MODEL="say \"hi\"" FSTYPE="LVM2_member"`,
		`NAME="sdc" SIZE="" ROTA="1" SERIAL="no size"`,
		`NAME="sdd" SIZE="5G" ROTA="1" SERIAL="size in words"`,
		`NAME="sde" SIZE="42" ROTA="0" SERIAL="E" SEEN="1"`,
		`NAME="sdf" SIZE="42" ROTA="0" SER`, // cut off
	}, "\n"))
	want := cluster.Disks{Count: 4, Known: true, Udev: true, Groups: []string{"vg_os", "vg_ssd"}, Zpools: []string{"?"},
		List: []cluster.Disk{
			{Device: linstor.Device{Path: "/dev/sda", Serial: "OS1", WWN: "0x1", Model: "Samsung SSD  870",
				SizeBytes: 107374182400},
				Signature: "gpt partition table", Seen: true, Udev: true, Held: "dm-0 a mount", Groups: []string{"vg_os"}},
			{Device: linstor.Device{Path: "/dev/sdb", Serial: "Z", Model: `say \"hi\"`, SizeBytes: 1 << 40, Rotational: true},
				Signature: "LVM2_member"},
			{Device: linstor.Device{Path: "/dev/sde", Serial: "E", SizeBytes: 42}, Seen: true},
		}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(cluster.Disks{}), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if got := disks.ParseInventory(""); got.Known || got.List != nil {
		t.Error("disks in an empty text")
	}
}

// FuzzInventory: whatever a container leaves behind, it is read without a crash, and what comes out are whole disks.
func FuzzInventory(f *testing.F) {
	f.Add(clustertest.Lsblk("sdb", "S", "ext4") + "\n")
	f.Add(clustertest.Lsblk("sdb", "S", "") + "\n" + clustertest.Lsblk("sdc", "T", "")[:50])
	f.Add("NAME=\"\\\" SIZE=\"-1\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		found := disks.ParseInventory(text).List
		if lines := strings.Count(text, "\n"); len(found) > lines {
			t.Errorf("%d disks from %d whole lines", len(found), lines)
		}
		for _, d := range found {
			if d.Path == "/dev/" || !strings.HasPrefix(d.Path, "/dev/") || d.SizeBytes < 0 {
				t.Errorf("not a disk: %+v", d)
			}
		}
		if i := strings.LastIndex(text, "\n"); !cmp.Equal(disks.ParseInventory(text[:i+1]).List, found) {
			t.Error("what was cut off counts")
		}
	})
}

func TestInventoryOfPod(t *testing.T) {
	line := clustertest.Lsblk("sdb", "S", "ext4") + "\n"
	terminated := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: line}}
	const container = resources.DeviceInventoryContainer
	with := func(c corev1.ContainerStatus) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{c}}}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want int
	}{
		"no pod":            {nil, 0},
		"not ended":         {with(corev1.ContainerStatus{Name: container}), 0},
		"ended":             {with(corev1.ContainerStatus{Name: container, State: terminated}), 1},
		"ended last time":   {with(corev1.ContainerStatus{Name: container, LastTerminationState: terminated}), 1},
		"another container": {with(corev1.ContainerStatus{Name: "other", State: terminated}), 0},
	} {
		if got := disks.Inventory(tc.pod).List; len(got) != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestChoose(t *testing.T) {
	w := clustertest.NewWorld(t, 2)
	w.Inventory("n01", clustertest.Lsblk("sdb", "S1", "ext4"), clustertest.Lsblk("sdc", "S2", "LVM2_member"),
		clustertest.Lsblk("sdd", "S3", ""), clustertest.Lsblk("sde", "Q", "xfs"))
	s := w.Snapshot()
	disks.Index(s)
	m := s.MemberByName("n01")
	empty := []linstor.Device{
		{Path: "/dev/sdx", Serial: "S9"}, {Path: "/dev/sdc", Serial: "S2"}, // wiped since the inventory was taken
		{Path: "/dev/loop0", Serial: "S0"}, {Path: "/dev/sdz", Serial: "other"},
	}
	entry := clustertest.OnDevices("hot", "S*")
	got := disks.Choose(s, &cluster.MemberPool{Entry: &entry}, m, empty)
	if d := cmp.Diff([]string{"/dev/sdc", "/dev/sdx"}, disks.Paths(got.Devices)); d != "" {
		t.Errorf("chosen: %s", d)
	}
	refused := []string{"/dev/loop0 (serial S0) is a virtual or removable device, which cannot be used"}
	if d := cmp.Diff(refused, got.Refused); d != "" {
		t.Errorf("refused: %s", d)
	}
	if d := cmp.Diff([]string{"/dev/sdb (serial S1) contains ext4"}, got.Occupied); d != "" {
		t.Errorf("occupied: %s", d)
	}
}
