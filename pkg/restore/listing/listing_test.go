package listing

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, text string) *Listing {
	t.Helper()
	l, err := Parse(strings.NewReader(text), Room())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const small = "VG\tvg\t4194304\nLV\tvg\tr1_00000\t1025\nLV\tvg\tthin\t1024\nZPOOL\ttank\nZVOL\ttank/r2_00000\t2048\n" +
	"ZVOL\ttank/r2_00000@s\t-\nZVOL\ttank/linstor/r3_00000\t1024\nDIR\t/srv/a/\n" +
	"FILE\t/srv/a/r4_00000.img\t0\nDIR\t/srv/b\nEND\n"

func TestParse(t *testing.T) {
	l := parse(t, small)
	for _, tc := range []struct {
		place   Place
		extent  int64
		volumes map[string]int64
	}{
		{Place{VolumeGroup, "vg"}, 4096, map[string]int64{"r1_00000": 2, "thin": 1}},
		{Place{ZPool, "tank"}, 0, map[string]int64{"r2_00000": 2, "r2_00000@s": -1}},
		{Place{ZPool, "tank/linstor"}, 0, map[string]int64{"r3_00000": 1}},
		{Place{ZPool, "tank/empty"}, 0, nil},
		{Place{Directory, "/srv/a"}, 0, map[string]int64{"r4_00000.img": 0}},
		{Place{Directory, "/srv/b/"}, 0, map[string]int64{}},
	} {
		got := l.At(tc.place)
		if got == nil {
			t.Errorf("%v is not there", tc.place)
			continue
		}
		if d := cmp.Diff(&Contents{ExtentKiB: tc.extent, Volumes: tc.volumes}, got); d != "" {
			t.Errorf("%v (-want +got):\n%s", tc.place, d)
		}
	}
	places := 0
	for range l.All() {
		places++
	}
	if places != 5 {
		t.Errorf("%d places", places)
	}
}

// TestUnseen: of what is not there, or could not be looked into, nothing is said.
func TestUnseen(t *testing.T) {
	whole := parse(t, small)
	failed := parse(t, strings.Replace(small, "END", "FAILED\tLVM\nFAILED\tZFS\nFAILED\t/srv/a/\nEND", 1))
	for _, p := range []Place{{VolumeGroup, "vg"}, {ZPool, "tank"}, {ZPool, "tank/empty"}, {Directory, "/srv/a"}} {
		if got := failed.At(p); got != nil {
			t.Errorf("%v: %+v", p, got)
		}
	}
	for _, p := range []Place{{VolumeGroup, "other"}, {ZPool, "other/linstor"}, {Directory, "/srv/c"}, {"", "vg"}} {
		if got := whole.At(p); got != nil {
			t.Errorf("%v: %+v", p, got)
		}
	}
}

func TestNoListing(t *testing.T) {
	for name, tc := range map[string]struct{ text, says string }{
		"nothing":          {"", "its last line is not END"},
		"cut short":        {strings.TrimSuffix(small, "END\n"), "its last line is not END"},
		"cut in a line":    {small[:20], "line 2"},
		"something after":  {small + "END\n", "line 12 follows the end"},
		"another program":  {"command not found\nEND\n", `line 1: "command not found" with 1 fields`},
		"a field too many": {"VG\tvg\t1\t2\nEND\n", "line 1"},
		"no number":        {"LV\tvg\tr\t1k\nEND\n", `line 1: "1k" is not a size in bytes`},
		"negative":         {"FILE\t/a/b\t-2\nEND\n", "line 1"},
		"no extent":        {"VG\tvg\t?\nEND\n", "line 1"},
	} {
		if _, err := Parse(strings.NewReader(tc.text), Room()); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error is %v, want ...%s...", name, err, tc.says)
		}
	}
}

// run runs the script with these programs beside those of the system.
func run(t *testing.T, programs map[string]string, directories ...string) string {
	t.Helper()
	bin := t.TempDir()
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.Replace(Script, "/sys/module/zfs", bin, 1) // the module is loaded
	if programs["drbdsetup"] != "" {                             // the module is loaded
		script = strings.Replace(script, "/sys/module/drbd", bin, 1)
		script = strings.Replace(script, "/sys/block/drbd", filepath.Join(bin, "block"), 1)
	}
	cmd := exec.Command("sh", append([]string{"-s", "--"}, directories...)...)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+bin+":/usr/bin:/bin")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// tools answer as LVM and ZFS do: LVM's lines begin with spaces.
var tools = map[string]string{
	"vgs":   `printf '  vg\t4194304\n'`,
	"lvs":   `printf '  vg\tr1_00000\t1025\n  vg\tthin\t1024\n'`,
	"zpool": `printf 'tank\n'`,
	"zfs":   `printf 'tank/r2_00000\t2048\ntank/r2_00000@s\t-\n'`,
}

func TestScript(t *testing.T) {
	a, b, c := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "absent")
	for name, size := range map[string]int64{"r4_00000.img": 3000, "r 5_00000.img": 0, "other": 1, ".r6_00000.img": 1,
		"a\ttab_00000.img": 1, "two\nlines_00000.img": 1, "100%s_00000.img": 1024} {
		if err := os.WriteFile(filepath.Join(a, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(a, name), size); err != nil {
			t.Fatal(err)
		}
	}
	text := run(t, tools, a+"/", b, c)
	l := parse(t, text)
	for p, want := range map[Place]*Contents{
		{VolumeGroup, "vg"}: {ExtentKiB: 4096, Volumes: map[string]int64{"r1_00000": 2, "thin": 1}},
		{ZPool, "tank"}:     {Volumes: map[string]int64{"r2_00000": 2, "r2_00000@s": -1}},
		{Directory, a}:      {Volumes: map[string]int64{"r4_00000.img": 3, "r 5_00000.img": 0, "100%s_00000.img": 1}},
		{Directory, b}:      {Volumes: map[string]int64{}},
		{Directory, c}:      nil,
	} {
		if d := cmp.Diff(want, l.At(p)); d != "" {
			t.Errorf("%v (-want +got):\n%s\nof\n%s", p, d, text)
		}
	}
}

// TestScriptOnUse: which resources of DRBD are in use is said, or that it could not be found out.
func TestScriptOnUse(t *testing.T) {
	for name, tc := range map[string]struct {
		drbdsetup string
		device    bool
		inUse     []string
		failed    bool
	}{
		"no module": {},
		"some": {drbdsetup: `[ "$1" = status ] || exit 1
printf 'pvc-1 role:Primary\n  disk:UpToDate\n  n2 role:Secondary\n    peer-disk:UpToDate\n\n'
printf '2nd role:Primary suspended:user\n  n1 role:Primary\n\npvc-3 role:Secondary\n'`,
			inUse: []string{"pvc-1", "2nd"}},
		"none":                    {drbdsetup: "echo 'No currently configured DRBD found.'"},
		"none, which is an error": {drbdsetup: "echo '# No currently configured DRBD found.' >&2; exit 10"},
		"none, and it says why": {drbdsetup: "echo 'received netlink error reply' >&2\n" +
			"echo '# No currently configured DRBD found.'", failed: true},
		"none, and there is a device": {drbdsetup: "echo '# No currently configured DRBD found.'", device: true,
			failed: true},
		"it fails after it began":          {drbdsetup: "echo 'pvc-1 role:Primary'; exit 1", failed: true},
		"the kernel's module is another's": {drbdsetup: "echo 'invalid netlink reply' >&2; exit 20", failed: true},
	} {
		programs := map[string]string{"drbdsetup": tc.drbdsetup}
		if tc.device {
			programs["block1000"] = "" // in place of /sys/block/drbd1000
		}
		for tool, text := range tools {
			programs[tool] = text
		}
		l := parse(t, run(t, programs))
		failed := slices.Contains(l.Failed(), "DRBD")
		if d := cmp.Diff(tc.inUse, l.InUse()); d != "" || failed != tc.failed {
			t.Errorf("%s: failed %t, in use (-want +got):\n%s", name, failed, d)
		}
	}
}

// TestScriptFails: a tool that fails, or is absent, is said, and nothing that is absent then counts as absent.
func TestScriptFails(t *testing.T) {
	for _, tc := range []struct {
		tool string
		lost Place
	}{{"vgs", Place{VolumeGroup, "vg"}}, {"lvs", Place{VolumeGroup, "vg"}}, {"zpool", Place{ZPool, "tank"}},
		{"zfs", Place{ZPool, "tank"}}} {
		for _, does := range []string{"printf 'tank\n'; exit 5", ""} {
			programs := map[string]string{}
			for name, text := range tools {
				programs[name] = text
			}
			if programs[tc.tool] = does; does == "" {
				delete(programs, tc.tool)
			}
			l := parse(t, run(t, programs))
			if got := l.At(tc.lost); got != nil {
				t.Errorf("%s that does %q: %+v", tc.tool, does, got)
			}
			for _, other := range []Place{{VolumeGroup, "vg"}, {ZPool, "tank"}} {
				if other != tc.lost && l.At(other) == nil {
					t.Errorf("%s that does %q: %v is lost as well", tc.tool, does, other)
				}
			}
		}
	}
	// Nothing at all is an answer too: a node without volume groups.
	l := parse(t, run(t, map[string]string{"vgs": "", "lvs": "", "zpool": "", "zfs": ""}))
	for p := range l.All() {
		t.Errorf("%v is there", p)
	}
}

// TestManyFiles: a directory with more files than a program takes as arguments is looked into all the same.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("r", 200) // two MiB of names are too long for one program
	for i := range 12_000 {
		if err := os.Symlink("/", filepath.Join(dir, fmt.Sprintf("%s%d_00000.img", long, i))); err != nil {
			t.Fatal(err)
		}
	}
	got := parse(t, run(t, tools, dir)).At(Place{Directory, dir})
	if got == nil || len(got.Volumes) != 12_000 {
		t.Errorf("%v", got)
	}
}

// TestBounds: what one node lists, and what all list together, is not read for ever.
func TestBounds(t *testing.T) {
	lines := func(n int) string {
		return strings.Repeat("LV\tvg\t"+strings.Repeat("r", 1000)+"_00000\t1024\n", n) + "END\n"
	}
	room := Room()
	for _, tc := range []struct {
		what  string
		lines int
		says  string
	}{
		{"one", 20_000, ""}, {"one that is too large", 40_000, "the listing is larger than 32 MiB, which is the limit"},
		{"another one", 20_000, ""}, {"a third one", 20_000, ""}, {"a fourth one", 20_000, ""},
		{"one for which there is no room", 20_000,
			"the total of all listings is larger than 128 MiB, which is the limit"},
		{"nothing", 0, "the total of all listings"},
	} {
		if _, err := Parse(strings.NewReader(lines(tc.lines)), room); tc.says == "" && err != nil ||
			tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
}
