// Package guest starts Linux guests with a real DRBD, in QEMU without KVM: any machine that can run QEMU can run them.
// Each pair of guests has a network link of its own, which can be cut. No address of the machine is involved, except
// for one port of each guest on loopback.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// QEMU is the program of the Debian package qemu-system-x86.
const QEMU = "qemu-system-x86_64"

// uplink is the address of each guest on the network to the machine: QEMU's own (its "user" network), which is a
// different network for each guest.
const uplink = "10.0.2.15"

// Guest is one that runs, or did.
type Guest struct {
	Name string
	// HostPort on the machine's loopback is forwarded to the lab's Port of the guest.
	HostPort int

	lab  *Lab
	qemu *exec.Cmd
	// done is closed when QEMU has ended, with the error ended.
	done  chan struct{}
	ended error
}

// Lab is a set of guests.
type Lab struct {
	// Dir holds the disks, sockets and logs.
	Dir string
	// Image is what the guests run.
	Image *Image
	// MemoryMiB and DiskMiB are those of each guest.
	MemoryMiB, DiskMiB int
	// Port is that of the guests which the machine reaches, at HostPort for the first, HostPort+1 for the second …
	Port, HostPort int

	Guests []*Guest
}

// Add adds a guest without starting it. Add all guests before you start the first.
func (l *Lab) Add(name string) *Guest {
	g := &Guest{Name: name, HostPort: l.HostPort + len(l.Guests), lab: l}
	l.Guests = append(l.Guests, g)
	return g
}

// link is how a guest is linked to another one.
type link struct {
	peer *Guest
	// device is its interface in the guest, nic its name in QEMU.
	device, nic string
	address     string
	mac         string
	// local and remote are the sockets of its two ends.
	local, remote string
}

// links are those of a guest, one to each other guest.
func (g *Guest) links() []link {
	var out []link
	me := g.number()
	for i, peer := range g.lab.Guests {
		if peer == g {
			continue
		}
		lo, hi := min(me, i+1), max(me, i+1)
		n := len(out)
		out = append(out, link{peer: peer, device: fmt.Sprint("eth", n), nic: fmt.Sprint("nic", n),
			address: fmt.Sprintf("10.0.%d%d.%d", lo, hi, me),
			mac:     fmt.Sprintf("52:54:00:%02x:%02x:%02x", lo, hi, me),
			local:   g.lab.path(g.Name + "-" + peer.Name), remote: g.lab.path(peer.Name + "-" + g.Name)})
	}
	return out
}

// number is that of the guest in its lab, beginning with 1.
func (g *Guest) number() int {
	for i, other := range g.lab.Guests {
		if other == g {
			return i + 1
		}
	}
	panic("guest " + g.Name + " is in no lab")
}

// Addresses are those of the guest on its links, by the name of the guest at the other end.
func (g *Guest) Addresses() map[string]string {
	out := map[string]string{}
	for _, l := range g.links() {
		out[l.peer.Name] = l.address
	}
	return out
}

func (l *Lab) path(name string) string { return filepath.Join(l.Dir, name) }

// arguments are those of QEMU.
func (g *Guest) arguments() []string {
	l := g.lab
	var addresses []string
	for _, link := range g.links() {
		addresses = append(addresses, link.device+"="+link.address+"/24")
	}
	addresses = append(addresses, fmt.Sprintf("eth%d=%s/24", len(addresses), uplink))
	args := []string{"-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", fmt.Sprint(l.MemoryMiB),
		"-display", "none", "-nodefaults", "-no-reboot", "-kernel", l.Image.Kernel, "-initrd", l.Image.Initramfs,
		"-append", "console=ttyS0 loglevel=6 panic=-1 mitigations=off node=" + g.Name + " addresses=" +
			strings.Join(addresses, ","),
		"-serial", "file:" + l.path(g.Name+".log"), "-qmp", "unix:" + l.path(g.Name+".qmp") + ",server=on,wait=off",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=agent,path=" + l.path(g.Name+".agent") + ",server=on,wait=off",
		"-device", "virtserialport,chardev=agent,name=agent",
		"-drive", "file=" + l.path(g.Name+".disk") + ",format=raw,if=none,id=disk,cache=unsafe",
		"-device", "virtio-blk-pci,drive=disk",
		"-drive", "file=" + l.Image.Root + ",format=raw,if=none,id=root,readonly=on,file.locking=off",
		"-device", "virtio-blk-pci,drive=root"}
	for _, link := range g.links() {
		args = append(args, "-netdev",
			fmt.Sprintf("dgram,id=%s-net,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", link.nic, link.local,
				link.remote),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=%s-net,id=%s,mac=%s", link.nic, link.nic, link.mac))
	}
	up := fmt.Sprintf("user,id=up,restrict=on,hostfwd=tcp:127.0.0.1:%d-%s:%d", g.HostPort, uplink, l.Port)
	return append(args, "-netdev", up, "-device", "virtio-net-pci,netdev=up")
}

// Start turns the guest on. It does not wait for anything.
func (g *Guest) Start(ctx context.Context) error {
	disk, err := os.OpenFile(g.lab.path(g.Name+".disk"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(disk.Truncate(int64(g.lab.DiskMiB)<<20), disk.Close()); err != nil {
		return err
	}
	log, err := os.Create(g.lab.path(g.Name + ".qemu.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	for _, link := range g.links() { // QEMU does not take over a socket that is there
		_ = os.Remove(link.local)
	}
	_ = os.Remove(g.lab.path(g.Name + ".log"))
	g.qemu = exec.CommandContext(ctx, QEMU, g.arguments()...)
	g.qemu.Stdout, g.qemu.Stderr = log, log
	g.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := g.qemu.Start(); err != nil {
		return err
	}
	g.done = make(chan struct{})
	go func(qemu *exec.Cmd, done chan struct{}) {
		g.ended = qemu.Wait()
		close(done)
	}(g.qemu, g.done)
	return nil
}

// PowerOff cuts the guest's power. Its disk stays.
func (g *Guest) PowerOff() {
	if g.qemu != nil {
		_ = g.qemu.Process.Kill()
		<-g.done
		g.qemu = nil
	}
}

// Log is what QEMU and the guest's kernel have said.
func (g *Guest) Log() string {
	var out strings.Builder
	for _, name := range []string{".qemu.log", ".log"} {
		if f, err := os.Open(g.lab.path(g.Name + name)); err == nil {
			_, _ = io.Copy(&out, f)
			_ = f.Close()
		}
	}
	return out.String()
}

// Booted waits until the guest takes commands.
func (g *Guest) Booted(ctx context.Context) error {
	for {
		if _, err := g.Run(ctx, "true"); err == nil {
			return nil
		}
		select {
		case <-g.done:
			g.qemu = nil
			return fmt.Errorf("guest %s has ended (%w):\n%s", g.Name, g.ended, g.Log())
		case <-ctx.Done():
			return fmt.Errorf("guest %s does not boot (%w):\n%s", g.Name, context.Cause(ctx), g.Log())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// SetLink cuts the link to another guest on both sides, or repairs it.
func (g *Guest) SetLink(peer *Guest, up bool) error {
	return errors.Join(g.setEnd(peer, up), peer.setEnd(g, up))
}

func (g *Guest) setEnd(peer *Guest, up bool) error {
	for _, l := range g.links() {
		if l.peer == peer && g.qemu != nil {
			return g.qmp("set_link", map[string]any{"name": l.nic, "up": up})
		}
	}
	return nil
}
