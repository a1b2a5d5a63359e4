package phases

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
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
		if got := glob(tc.pattern, tc.text); got != tc.want {
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
		if want := text != "" && re.MatchString(text); glob(pattern, text) != want {
			t.Errorf("glob(%q, %q) is not %t", pattern, text, want)
		}
	})
}

func TestEntryMatches(t *testing.T) {
	d := linstor.Device{Path: "/dev/sdb", Model: "INTEL SSDPE2KX", Serial: "S4EV1", WWN: "0x5000", SizeBytes: 500 << 30, Rotational: false}
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
			if got := entryMatches(&tc.match, &d); got != tc.want {
				t.Errorf("matches: %t", got)
			}
			either := &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "nobody"}, tc.match}}
			if got := deviceMatches(either, &d); got != tc.want {
				t.Errorf("as one of two entries: %t", got)
			}
		})
	}
	anonymous := linstor.Device{Path: "/dev/vdb", SizeBytes: 1 << 40}
	if entryMatches(&v1alpha1.DeviceMatch{Serial: "*"}, &anonymous) {
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
		spoil func(*world)
		want  string // part of the refusal; "" if it may be used
	}{
		{name: "good", d: good},
		{name: "wwn alone", d: with(func(d *linstor.Device) { d.Serial = "" })},
		{name: "anonymous", d: with(func(d *linstor.Device) { d.Serial, d.WWN = "", "" }), want: "neither serial number nor WWN"},
		{name: "anonymous by path", d: with(func(d *linstor.Device) { d.Path, d.Serial, d.WWN = "/dev/vdx", "", "" })},
		{name: "loop", d: with(func(d *linstor.Device) { d.Path = "/dev/loop3" }), want: "no disk of its own"},
		{name: "zram", d: with(func(d *linstor.Device) { d.Path = "/dev/zram0" }), want: "no disk of its own"},
		{name: "nbd", d: with(func(d *linstor.Device) { d.Path = "/dev/nbd0" }), want: "no disk of its own"},
		{name: "rbd", d: with(func(d *linstor.Device) { d.Path = "/dev/rbd0" }), want: "no disk of its own"},
		{name: "multipath", d: with(func(d *linstor.Device) { d.Path = "/dev/dm-4" }), want: "no disk of its own"},
		{name: "local PersistentVolume", d: good, want: "local PersistentVolume", spoil: func(w *world) {
			w.kube.LocalVolumePaths = map[string][]string{"n01": {"/dev/sdb"}}
		}},
		{name: "local PersistentVolume by the disk's name", d: good, want: "local PersistentVolume", spoil: func(w *world) {
			w.kube.LocalVolumePaths = map[string][]string{"n01": {"/dev/disk/by-id/wwn-0xab"}}
		}},
		{name: "local PersistentVolume on another node", d: good, spoil: func(w *world) {
			w.kube.LocalVolumePaths = map[string][]string{"n02": {"/dev/sdb"}}
		}},
		{name: "shared with another node's empty disk", d: good, want: "node n02", spoil: func(w *world) {
			w.node("n02").Devices = []linstor.Device{{Path: "/dev/sdq", WWN: "0xab"}}
		}},
		{name: "shared with another node's used disk", d: good, want: "node n02", spoil: func(w *world) {
			w.inventory("n02", `NAME="sdq" TYPE="disk" SIZE="1" ROTA="0" SERIAL="" WWN="0xab" MODEL="" FSTYPE="LVM2_member" PTTYPE=""`)
		}},
		{name: "its own entry is no share", d: good, spoil: func(w *world) { w.node("n01").Devices = []linstor.Device{good} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 2)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			spec := &v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{MinSize: ptr.To(resource.MustParse("1Gi"))}, {Path: "/dev/vdx"}}}
			s := w.snapshot()
			s.indexDisks()
			got := s.refusal(spec, "n01", &tc.d)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("refusal %q, want %q", got, tc.want)
			}
		})
	}
}

// inventory gives a node's satellite pod the list of its disks, as the init container leaves it.
func (w *world) inventory(node string, lines ...string) {
	p := w.kube.Pods[v1alpha1.ComponentSatellite][node]
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: resources.DeviceInventoryContainer,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: strings.Join(lines, "\n") + "\n"}}}}
}

func lsblk(name, serial, fstype string) string {
	return fmt.Sprintf(`NAME=%q TYPE="disk" SIZE="1099511627776" ROTA="1" SERIAL=%q WWN="" MODEL="M" FSTYPE=%q PTTYPE=""`, name, serial, fstype)
}

func TestParseInventory(t *testing.T) {
	got := parseInventory(strings.Join([]string{
		`NAME="sda" TYPE="disk" SIZE="107374182400" ROTA="0" SERIAL="OS1" WWN="0x1" MODEL="Samsung SSD  870 " FSTYPE="" PTTYPE="gpt"`,
		`NAME="sda1" TYPE="part" SIZE="1" ROTA="0" SERIAL="" WWN="" MODEL="" FSTYPE="ext4" PTTYPE="gpt"`,
		`lsblk: /dev/sr0: not a block device`,
		``,
		`NAME="sdb" TYPE="disk" SIZE="1099511627776" ROTA="1" SERIAL="Z" WWN="" MODEL="say \"hi\"" FSTYPE="LVM2_member" PTTYPE=""`,
		`NAME="sdc" TYPE="disk" SIZE="" ROTA="1" SERIAL="no size" WWN="" MODEL="" FSTYPE="" PTTYPE=""`,
		`NAME="sdd" TYPE="disk" SIZE="5G" ROTA="1" SERIAL="size in words" WWN="" MODEL="" FSTYPE="" PTTYPE=""`,
		`NAME="sde" TYPE="disk" SIZE="42" ROTA="0" SERIAL="E" WWN="" MODEL="" FSTYPE="" PTTYPE=""`,
		`NAME="sdf" TYPE="disk" SIZE="42" ROTA="0" SER`, // cut off
	}, "\n"))
	want := []disk{
		{Device: linstor.Device{Path: "/dev/sda", Serial: "OS1", WWN: "0x1", Model: "Samsung SSD  870", SizeBytes: 107374182400}, Signature: "gpt partition table"},
		{Device: linstor.Device{Path: "/dev/sdb", Serial: "Z", Model: `say \"hi\"`, SizeBytes: 1 << 40, Rotational: true}, Signature: "LVM2_member"},
		{Device: linstor.Device{Path: "/dev/sde", Serial: "E", SizeBytes: 42}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if parseInventory("") != nil {
		t.Error("disks in an empty text")
	}
}

// FuzzInventory: whatever a container leaves behind, it is read without a crash, and what comes out are whole disks.
func FuzzInventory(f *testing.F) {
	f.Add(lsblk("sdb", "S", "ext4") + "\n")
	f.Add(lsblk("sdb", "S", "") + "\n" + lsblk("sdc", "T", "")[:50])
	f.Add("NAME=\"\\\" TYPE=\"disk\" SIZE=\"-1\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		disks := parseInventory(text)
		if lines := strings.Count(text, "\n"); len(disks) > lines {
			t.Errorf("%d disks from %d whole lines", len(disks), lines)
		}
		for _, d := range disks {
			if d.Path == "/dev/" || !strings.HasPrefix(d.Path, "/dev/") || d.SizeBytes < 0 {
				t.Errorf("not a disk: %+v", d)
			}
		}
		if i := strings.LastIndex(text, "\n"); !cmp.Equal(parseInventory(text[:i+1]), disks) {
			t.Error("what was cut off counts")
		}
	})
}

func TestInventoryOfPod(t *testing.T) {
	line := lsblk("sdb", "S", "ext4") + "\n"
	terminated := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: line}}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want int
	}{
		"no pod":    {nil, 0},
		"not ended": {&corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: resources.DeviceInventoryContainer}}}}, 0},
		"ended":     {&corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: resources.DeviceInventoryContainer, State: terminated}}}}, 1},
		"ended last time": {&corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
			{Name: resources.DeviceInventoryContainer, LastTerminationState: terminated}}}}, 1},
		"another container": {&corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "other", State: terminated}}}}, 0},
	} {
		if got := inventory(tc.pod); len(got) != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestChoose(t *testing.T) {
	w := newWorld(t, 2)
	w.inventory("n01", lsblk("sdb", "S1", "ext4"), lsblk("sdc", "S2", "LVM2_member"), lsblk("sdd", "S3", ""), lsblk("sde", "Q", "xfs"))
	s := w.snapshot()
	s.indexDisks()
	m := s.MemberByName("n01")
	empty := []linstor.Device{
		{Path: "/dev/sdx", Serial: "S9"}, {Path: "/dev/sdc", Serial: "S2"}, // wiped since the inventory was taken
		{Path: "/dev/loop0", Serial: "S0"}, {Path: "/dev/sdz", Serial: "other"},
	}
	got := s.choose(&v1alpha1.DevicesSpec{Match: []v1alpha1.DeviceMatch{{Serial: "S*"}}}, m, empty)
	if d := cmp.Diff([]string{"/dev/sdc", "/dev/sdx"}, paths(got.devices)); d != "" {
		t.Errorf("chosen: %s", d)
	}
	if d := cmp.Diff([]string{"/dev/loop0 (serial S0) is no disk of its own"}, got.refused); d != "" {
		t.Errorf("refused: %s", d)
	}
	if d := cmp.Diff([]string{"/dev/sdb (serial S1) carries ext4"}, got.occupied); d != "" {
		t.Errorf("occupied: %s", d)
	}
}
