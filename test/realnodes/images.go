package realnodes

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/image"
	"github.com/linstor-dev/storagecluster-operator/test/realnodes/standin/wire"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
)

// osImage is what nodes say that their operating system is.
const osImage = "Debian GNU/Linux 12 (bookworm)"

// tools are the programs of the machine that images with a shell have, for the operator's scripts.
var tools = strings.Fields("sh awk basename blkid blockdev cat chmod cp cut date dd df du echo env find grep gzip " +
	"head ln ls lsblk mkdir mktemp mv od printf readlink rm sed sha256sum sleep sort stat sync tail tar tee test " +
	"timeout touch tr true uname wc")

// standinLinks are paths at which images have the stand-in, because the operator's manifests name them.
var standinLinks = []string{"/pause", "/entry.sh", "/usr/bin/piraeus-entry.sh", "/usr/bin/k8s-await-election",
	"/linstor-wait-until", "/linstor-affinity-controller", "/agent"}

// makeStandins builds the stand-in for every image that the operator can start, and for that of pod sandboxes.
func (c *cluster) makeStandins() error {
	program := filepath.Join(c.dir, "standin")
	build := gobin.Compilation{Dir: ".", Package: "./standin", Out: program, Flags: []string{"-trimpath"}, Static: true,
		Log: os.Stderr}
	if err := build.Run(c.Ctx); err != nil {
		return err
	}
	files, err := image.Programs(tools...)
	if err != nil {
		return err
	}
	standin, err := image.Program("/standin", program)
	if err != nil {
		return err
	}
	files = append(files, standin)
	for _, path := range standinLinks {
		files = append(files, image.File{Path: path, Target: "/standin"})
	}
	made, err := image.Of(files, v1.Config{Entrypoint: []string{"/standin", "program"},
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", wire.AddressEnv + "=" + c.bridge}})
	if err != nil {
		return err
	}
	pause, err := image.Of(files[len(files)-1-len(standinLinks):], v1.Config{Entrypoint: []string{"/pause"}})
	if err != nil {
		return err
	}
	images := map[string]v1.Image{pauseImage: pause, standinImage: made}
	for _, name := range catalogueImages() {
		images[resources.DefaultRegistry+"/"+name] = made
		images[resources.SidecarRegistry+"/"+name] = made
	}
	archive := filepath.Join(c.dir, "standin.tar")
	c.images = append(c.images, archive)
	return image.Save(archive, images)
}

// catalogueImages are all images of the operator's catalogue.
func catalogueImages() []string {
	seen := map[string]bool{}
	all := catalogue.Embedded()
	for _, v := range all.Versions() {
		r, _ := all.Release(v)
		for _, name := range []string{r.Controller, r.Satellite, r.Reactor, r.HighAvailability, r.Affinity,
			r.ShutdownGuard} {
			seen[name] = true
		}
		drivers := reflect.ValueOf(r.Driver)
		for i := range drivers.NumField() {
			seen[drivers.Field(i).String()] = true
		}
	}
	// An image that no node has lets its pod fail, and with it the test.
	seen[all.LoaderFor(osImage).Image] = true
	delete(seen, "")
	out := make([]string, 0, len(seen))
	for name := range seen {
		out = append(out, name)
	}
	return out
}

// makeOperator builds the operator's image.
func (c *cluster) makeOperator() error {
	archive := filepath.Join(c.dir, "operator.tar")
	build := exec.CommandContext(c.Ctx, "go", "run", "./hack/release", "-image", archive, "-arch", "amd64",
		"-version", "real-nodes")
	build.Dir, build.Stderr = "../..", os.Stderr
	c.images = append(c.images, archive)
	return build.Run()
}
