// Package drbd tests the operator's view of LINSTOR, and what it makes of it, with a real DRBD: three guests (package
// guest) run LINSTOR's satellites, and the machine runs its controller. Neither DRBD nor LINSTOR is part of this
// repository; see Requirements.
package drbd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/restclient"
	"github.com/linstor-dev/storagecluster-operator/test/drbd/guest"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/fabric"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
)

// ModulesEnv and ImagesEnv name the environment variables of two directories: one with DRBD's modules, compiled for a
// kernel of Debian, and one with archives of container images, one of them LINSTOR's.
const (
	ModulesEnv = "DRBD_MODULES"
	ImagesEnv  = "REAL_IMAGES"
)

// Requirements is the reason for which the tests are skipped.
const Requirements = `%s. The tests with a real DRBD need two directories:
%s=DIR with drbd.ko, drbd_transport_tcp.ko and, for a kernel before 6.7, handshake.ko, compiled for a kernel of Debian
  (package drbd-dkms of LINBIT's repository, or "make" in DRBD's sources with linux-headers-… installed)
%s=DIR with an archive of LINSTOR's image
  (docker save -o DIR/linstor.tar quay.io/piraeusdatastore/piraeus-server:v1.33.3)`

// linstorImage is the name of the image with controller and satellite, in any registry.
const linstorImage = "piraeus-server"

// missing is what is lacking for the tests to run; "" if nothing is.
func missing() string {
	for _, env := range []string{ModulesEnv, ImagesEnv} {
		if os.Getenv(env) == "" {
			return requires(env + " is not set")
		}
	}
	if _, err := os.Stat(filepath.Join(os.Getenv(ModulesEnv), "drbd.ko")); err != nil {
		return requires(err.Error())
	}
	if _, err := archive(); err != nil {
		return requires(err.Error())
	}
	return fabric.Lacks(map[string]string{guest.QEMU: "qemu-system-x86", "mke2fs": "e2fsprogs", "dpkg-deb": "dpkg",
		"apt-get": "apt", "tar": "tar", "ip": "iproute2"})
}

func requires(why string) string { return fmt.Sprintf(Requirements, why, ModulesEnv, ImagesEnv) }

// archive is the path of the archive with LINSTOR.
func archive() (string, error) {
	dir := os.Getenv(ImagesEnv)
	found, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return "", err
	}
	for _, path := range found {
		manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
		if err != nil {
			continue // something else
		}
		for i := range manifest {
			if slices.ContainsFunc(manifest[i].RepoTags, func(tag string) bool {
				name, _, _ := strings.Cut(tag[strings.LastIndex(tag, "/")+1:], ":")
				return name == linstorImage
			}) {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s has no archive of an image whose name is %s", dir, linstorImage)
}

// pack packs what the guests run.
func pack(ctx context.Context) (*guest.Image, error) {
	path, err := archive()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "storagecluster-operator", "drbd")
	checker := gobin.Compilation{Dir: "../iocheck/program", Package: ".", Out: filepath.Join(cache, "iocheck"),
		Flags: []string{"-trimpath"}, Static: true, Log: os.Stderr}
	if err := checker.Run(ctx); err != nil {
		return nil, err
	}
	return guest.Pack(ctx, guest.Sources{Modules: os.Getenv(ModulesEnv), Archive: path, Programs: []string{checker.Out},
		Cache: cache, Log: os.Stderr})
}

const (
	satellitePort = 3366
	hostPort      = 13366
	pool          = "ssd"
)

// lab is a LINSTOR with three nodes, n01, n02 and n03.
type lab struct {
	harness.Waiter
	// ctx is that of the test. The guests, with all, last until the end of the outermost test.
	ctx, all context.Context //nolint:containedctx // see above

	guest.Lab
	controller *process
	api        linstor.API
}

// start starts a lab, which ends with the test.
func start(t *testing.T) *lab {
	t.Helper()
	fabric.Require(t)
	began := time.Now()
	l := &lab{ctx: t.Context(), all: context.WithoutCancel(t.Context()),
		Waiter: harness.Waiter{T: t, Patience: 8 * time.Minute, Slowness: machine.Slowness()}}
	img, err := pack(l.ctx)
	l.must(err)
	dir := t.TempDir()
	l.Lab = guest.Lab{Dir: dir, Image: img, MemoryMiB: 900, DiskMiB: 700, Port: satellitePort, HostPort: hostPort}
	for i := range 3 {
		l.Add(fmt.Sprintf("n%02d", i+1))
	}
	t.Cleanup(func() {
		for _, g := range l.Guests {
			if t.Failed() {
				reports, _ := g.Run(l.all, "tail -n 60 $(ls -t /var/log/linstor-satellite/ErrorReport-* | head -2)")
				t.Logf("guest %s:\n%s%s", g.Name, end(safeLine.ReplaceAllString(g.Log(), "")), end(reports))
			}
			g.PowerOff()
		}
	})
	for _, g := range l.Guests {
		l.must(g.Start(l.all))
	}
	l.controller, err = startController(l.ctx, img.Tree, dir)
	t.Cleanup(func() {
		if l.controller == nil {
			return
		}
		if said, err := os.ReadFile(l.controller.log); t.Failed() && err == nil {
			t.Logf("LINSTOR's controller:\n%s", end(string(said)))
		}
		if err := l.controller.stop(); err != nil {
			t.Error(err)
		}
	})
	l.must(err)
	for _, g := range l.Guests {
		l.must(g.Booted(l.ctx))
		l.run(g.Name, "vgcreate -q vg /dev/vda && lvcreate -q -l 90%FREE -T vg/thin")
		l.startSatellite(g.Name)
	}
	t.Logf("guests with the kernel %s, booted after %s", img.Release, time.Since(began).Round(time.Second))
	l.api, err = restclient.New(restclient.Options{Endpoint: l.controller.url, Transport: http.DefaultTransport})
	l.must(err)
	l.Eventually("LINSTOR responds", func() error {
		_, err := l.api.View(l.ctx, linstor.ViewOptions{})
		return err
	})
	for _, g := range l.Guests { // else LINSTOR tries to connect for longer than the client waits
		l.Eventually("the satellite of "+g.Name+" listens", func() error {
			_, err := g.Run(l.ctx, fmt.Sprintf("grep -qi ':%04x .* 0a ' /proc/net/tcp /proc/net/tcp6", satellitePort))
			return err
		})
	}
	l.register()
	t.Logf("LINSTOR has its nodes and pools after %s; DRBD %s", time.Since(began).Round(time.Second),
		strings.SplitN(l.run("n01", "cat /proc/drbd"), "\n", 2)[0])
	return l
}

// end is the end of what a program has said.
func end(said string) string {
	const enough = 8000
	return said[max(0, len(said)-enough):]
}

// in is the lab for a test within the test.
func (l *lab) in(t *testing.T) *lab {
	inner := *l
	inner.T, inner.ctx = t, t.Context()
	return &inner
}

func (l *lab) must(err error) {
	l.T.Helper()
	if err != nil {
		l.T.Fatal(err)
	}
}

func (l *lab) guest(name string) *guest.Guest {
	for _, g := range l.Guests {
		if g.Name == name {
			return g
		}
	}
	l.T.Fatalf("no guest %s", name)
	return nil
}

// run runs a script in a guest that has to succeed.
func (l *lab) run(node, script string) string {
	l.T.Helper()
	out, err := l.guest(node).Run(l.ctx, script)
	l.must(err)
	return out
}

// powerOn starts a node whose power was cut, with the satellite.
func (l *lab) powerOn(node string) {
	l.T.Helper()
	g := l.guest(node)
	l.must(g.Start(l.all))
	l.must(g.Booted(l.ctx))
	l.run(node, "vgchange -q -ay")
	l.startSatellite(node)
}

// startSatellite starts LINSTOR's satellite, which listens after a minute.
func (l *lab) startSatellite(node string) {
	l.T.Helper()
	l.run(node, `mkdir -p /var/log/linstor-satellite
export JAVA_OPTS="-Xmx256M -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
setsid `+program("Satellite")+` --logs=/var/log/linstor-satellite >/var/log/satellite.out 2>&1 </dev/null &
echo $! >/run/satellite.pid`)
}

// register registers nodes, the links between them, and pools.
func (l *lab) register() {
	for _, g := range l.Guests {
		interfaces := []linstor.Interface{
			{Name: "default", Address: "127.0.0.1", Port: int32(g.HostPort), Active: true}}
		for peer, address := range g.Addresses() {
			interfaces = append(interfaces, linstor.Interface{Name: "to-" + peer, Address: address})
		}
		l.must(l.api.CreateNode(l.ctx, linstor.NodeSpec{Name: g.Name, Interfaces: interfaces,
			Properties: map[string]string{linstor.PropNodeUID: "uid-" + g.Name}}))
	}
	for i, a := range l.Guests {
		for _, b := range l.Guests[i+1:] {
			paths := map[string]string{
				"Paths/direct/" + a.Name: "to-" + b.Name, "Paths/direct/" + b.Name: "to-" + a.Name}
			l.send(http.MethodPut, "/v1/node-connections/"+a.Name+"/"+b.Name, map[string]any{"override_props": paths})
		}
	}
	for _, g := range l.Guests {
		l.online(g.Name)
		l.must(l.api.CreatePool(l.ctx, linstor.PoolSpec{Node: g.Name, Name: pool, Provider: "LVM_THIN",
			Backing: "vg/thin"}))
	}
}

// view is what LINSTOR shows now.
func (l *lab) view() (*linstor.View, error) {
	return l.api.View(l.ctx, linstor.ViewOptions{Resources: true})
}

// look is the same for a LINSTOR that has to respond.
func (l *lab) look() *linstor.View {
	l.T.Helper()
	v, err := l.view()
	l.must(err)
	return v
}

// online waits until a node is ONLINE in LINSTOR.
func (l *lab) online(node string) {
	l.T.Helper()
	l.Eventually(node+" is ONLINE", func() error {
		n, err := l.api.Node(l.ctx, node)
		if err == nil && !n.Online() {
			err = errors.New(n.Status)
		}
		return err
	})
}
