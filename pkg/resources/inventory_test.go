package resources_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/inventory"
)

// host is a directory that stands in for a node's /dev, /sys and /run/udev. Files are its disks: blkid reads them as
// it reads disks.
type host struct {
	t   *testing.T
	dir string
}

func newHost(t *testing.T) host {
	t.Helper()
	if _, err := exec.LookPath("blkid"); err != nil {
		t.Skip("no blkid here")
	}
	h := host{t, t.TempDir()}
	for _, d := range []string{"bin", "dev", "fs", "sys", "udev"} {
		if err := os.Mkdir(filepath.Join(h.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.program("pvs", "true")
	return h
}

func (h host) write(path string, data []byte) {
	h.t.Helper()
	path = filepath.Join(h.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) program(name, script string) {
	h.t.Helper()
	h.write("bin/"+name, []byte("#!/bin/sh\n"+strings.ReplaceAll(script, "/dev/", h.dir+"/dev/")+"\n"))
	if err := os.Chmod(filepath.Join(h.dir, "bin", name), 0o700); err != nil {
		h.t.Fatal(err)
	}
}

// disk attaches a disk, of which udev has a record unless it is unseen.
func (h host) disk(name, number string, content map[int]string, unseen bool) {
	h.write("dev/"+name, image(content))
	h.write("sys/"+name+"/dev", []byte(number+"\n"))
	if !unseen {
		h.write("udev/b"+number, nil)
	}
}

// image is a disk of 2 MiB with these texts at their offsets. On one of the size of a floppy disk blkid looks for one
// signature only.
func image(content map[int]string) []byte {
	data := make([]byte, 2<<20)
	for at, text := range content {
		copy(data[at:], text)
	}
	return data
}

// partition makes a partition of a disk.
func (h host) partition(disk, name, number string, content map[int]string) {
	h.disk(name, number, content, true)
	if err := os.RemoveAll(filepath.Join(h.dir, "sys", name)); err != nil {
		h.t.Fatal(err)
	}
	h.write("sys/"+disk+"/"+name+"/dev", []byte(number+"\n"))
}

// run is what the container leaves as its message when lsblk prints these lines.
func (h host) run(lsblk ...string) string {
	h.t.Helper()
	h.write("lines", []byte(strings.Join(lsblk, "\n")+"\n"))
	h.program("lsblk", "cat "+filepath.Join(h.dir, "lines"))
	at := func(name string) string { return filepath.Join(h.dir, name) }
	cmd := script(h.t, resources.DeviceInventoryContainer, "dev=/dev ", "dev="+at("dev")+" ", "sys=/sys/block",
		"sys="+at("sys"),
		"mounts=/sys/fs", "mounts="+at("fs"), "udev=/run/udev/data", "udev="+at("udev"), "log=/termination-log",
		"log="+at("log"))
	cmd.Env = append(os.Environ(), "PATH="+at("bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		h.t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(at("log"))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(got)
}

// line is what lsblk prints of a disk; udev is the file system that udev has recorded.
func line(name, udev string) string {
	return fmt.Sprintf(`NAME=%q TYPE="disk" SIZE="1048576" ROTA="0" SERIAL="S-%s" WWN="" MODEL="A B" FSTYPE=%q PTTYPE=""`,
		name, name, udev)
}

// swap is a swap area's content, as far as blkid looks at it.
var swap = map[int]string{1024: "\x01\x00\x00\x00\xff\x00\x00\x00", 4086: "SWAPSPACE2"}

// What lsblk says of a disk without udev's record is worth nothing: it prints no file system whatever is on it.
func TestInventoryReadsTheDisks(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "8:0", swap, false)
	h.disk("sdb", "8:16", swap, true)
	h.disk("sdc", "8:32", swap, false) // udev's record is an old one
	h.disk("sdd", "8:48", nil, true)
	h.disk("sde", "8:64", nil, false)
	h.disk("nvme0n1", "259:0", nil, false)
	h.partition("nvme0n1", "nvme0n1p1", "259:1", nil)
	h.disk("cciss!c0d0", "104:0", nil, false)
	h.write("dev/cciss/c0d0", make([]byte, 4096))
	h.write("sys/sde/holders/dm-3", nil)
	h.write("fs/xfs/nvme0n1", nil)
	h.program("pvs", "echo '  /dev/nvme0n1p1 vg_ssd'\necho '  /dev/md0 vg_os'\necho '  /dev/sdx '")
	want := strings.Join([]string{
		`DISKS="8" UDEV="" VGS=" vg_os vg_ssd" ZPOOLS=""`,
		`NAME="sda" SIZE="1048576" ROTA="0" SERIAL="S-sda" MODEL="A B" FSTYPE="swap" SEEN="1" UDEV="1"`,
		`NAME="sdb" SIZE="1048576" ROTA="0" SERIAL="S-sdb" MODEL="A B" FSTYPE="swap" SEEN="1"`,
		`NAME="sdc" SIZE="1048576" ROTA="0" SERIAL="S-sdc" MODEL="A B" FSTYPE="swap" SEEN="1"`,
		`NAME="sdd" SIZE="1048576" ROTA="0" SERIAL="S-sdd" MODEL="A B" SEEN="1"`,
		`NAME="sde" SIZE="1048576" ROTA="0" SERIAL="S-sde" MODEL="A B" SEEN="1" UDEV="1" HELD=" dm-3"`,
		`NAME="nvme0n1" SIZE="1048576" ROTA="0" SERIAL="S-nvme0n1" MODEL="A B" SEEN="1" UDEV="1" HELD=" a mount" IN=" ` +
			`vg_ssd"`,
		`NAME="cciss/c0d0" SIZE="1048576" ROTA="0" SERIAL="S-cciss/c0d0" MODEL="A B" SEEN="1" UDEV="1"`,
		`NAME="sdz" SIZE="1048576" ROTA="0" SERIAL="S-sdz" MODEL="A B"`, // cannot be read
		"",
	}, "\n")
	got := h.run(line("sda", "swap"), line("sdb", ""), line("sdc", ""), line("sdd", ""), line("sde", ""),
		line("nvme0n1", ""), line("cciss/c0d0", ""),
		line("sdz", ""), line("zram0", ""), strings.Replace(line("sdy", ""), "1048576", "0", 1),
		strings.Replace(line("dm-0", ""), "disk", "lvm", 1),
		"lsblk: /dev/sr0: not a block device")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// twice is the content of a disk with a swap area and an ext2 file system, as far as blkid looks at it.
var twice = map[int]string{1024: "\x01\x00\x00\x00\xff\x00\x00\x00", 1080: "\x53\xef", 4086: "SWAPSPACE2"}

// Where blkid cannot decide, it prints nothing, and neither it nor udev says what is on the disk. That must not pass
// for empty.
func TestInventoryOfSeveralSignatures(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "8:0", twice, false)
	h.disk("sdb", "8:16", nil, false)
	h.partition("sdb", "sdb1", "8:17", twice)
	want := strings.Join([]string{
		`DISKS="2" UDEV="" VGS="" ZPOOLS=" ? ?"`,
		`NAME="sda" SIZE="1048576" ROTA="0" SERIAL="S-sda" MODEL="A B" FSTYPE="several signatures" SEEN="1" IN=" ?"`,
		`NAME="sdb" SIZE="1048576" ROTA="0" SERIAL="S-sdb" MODEL="A B" SEEN="1" UDEV="1" IN=" ?"`,
		"",
	}, "\n")
	if d := cmp.Diff(want, h.run(line("sda", ""), line("sdb", ""))); d != "" {
		t.Error(d)
	}
}

// What blkid leaves behind when it fails looks as if nothing were on the disk.
func TestInventoryWhenBlkidFails(t *testing.T) {
	for name, script := range map[string]string{
		"an error":              "exit 4",
		"killed":                "kill -9 $$",
		"no answer for long":    "exit 124",
		"partition table alone": `case $* in *PTTYPE*) exit 4 ;; *) exit 2 ;; esac`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.disk("sda", "8:0", nil, false)
			h.program("blkid", script)
			if got := h.run(line("sda", "")); strings.Contains(got, "SEEN") || !strings.Contains(got, `NAME="sda"`) {
				t.Error(got)
			}
		})
	}
}

func TestInventoryKnowsAllByUdev(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "8:0", swap, false)
	h.disk("sdb", "8:16", nil, false)
	if got := h.run(line("sda", "swap"), line("sdb", "")); !strings.HasPrefix(got, `DISKS="2" UDEV="1" `) {
		t.Error(got)
	}
}

// Whoever does not know all groups must not take the node for one without.
func TestInventoryWithoutLVM(t *testing.T) {
	h := newHost(t)
	h.program("pvs", "echo '  /dev/sda vg'; exit 5")
	if got := h.run(line("sda", "")); !strings.Contains(got, `VGS=" ?"`) {
		t.Error(got)
	}
}

func TestInventoryIsBounded(t *testing.T) {
	h := newHost(t)
	var lines []string
	for i := range 60 {
		lines = append(lines, line(fmt.Sprintf("sd%d", i), ""))
	}
	got := h.run(lines...)
	if len(got) != inventory.Limit || !strings.HasPrefix(got, `DISKS="60" UDEV="" `) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if got := h.run("lsblk: failed to access sysfs directory"); !strings.HasPrefix(got, `DISKS="0" UDEV="" `) {
		t.Error(got)
	}
}

// TestInventoryOfRealDisks runs the whole script with the machine's own lsblk on a loop device that udev knows nothing
// of.
func TestInventoryOfRealDisks(t *testing.T) {
	h := newHost(t)
	h.write("image", image(swap))
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", filepath.Join(h.dir, "image")).Output()
	if err != nil {
		t.Skip("no loop devices here")
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if err := exec.Command("losetup", "--detach", device).Run(); err != nil {
			t.Error(err)
		}
	})
	log := filepath.Join(h.dir, "log")
	cmd := script(t, resources.DeviceInventoryContainer, "-e 1,2,7,11", "-e 1,2,11", ` TYPE="disk" `, ` TYPE="loop" `,
		"log=/termination-log", "log="+log)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(log)
	want := fmt.Sprintf(`NAME=%q `, filepath.Base(device))
	i := strings.Index(string(got), want)
	if err != nil || i < 0 {
		t.Fatalf("%s is not listed: %s (%v)", device, got, err)
	}
	if found, _, _ := strings.Cut(string(got)[i:], "\n"); !strings.Contains(found, `FSTYPE="swap" SEEN="1"`) {
		t.Errorf("what is on %s is not seen: %s", device, found)
	}
}
