package realnodes

import (
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/linstor-dev/storagecluster-operator/test/realnodes/image"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
)

// osImage is what nodes say that their operating system is.
const osImage = "Debian GNU/Linux 12 (bookworm)"

// makeStandins builds the stand-in, and the image of pod sandboxes.
func (c *cluster) makeStandins() error {
	program := filepath.Join(c.dir, "standin")
	build := gobin.Compilation{Dir: ".", Package: "./standin", Out: program, Flags: []string{"-trimpath"}, Static: true,
		Log: os.Stderr}
	if err := build.Run(c.Ctx); err != nil {
		return err
	}
	files, err := image.Programs("sh", "echo", "sleep")
	if err != nil {
		return err
	}
	standin, err := image.Program("/standin", program)
	if err != nil {
		return err
	}
	own := []image.File{standin, {Path: "/pause", Target: "/standin"}}
	made, err := image.Of(append(files, own...), v1.Config{Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}})
	if err != nil {
		return err
	}
	pause, err := image.Of(own, v1.Config{Entrypoint: []string{"/pause"}})
	if err != nil {
		return err
	}
	archive := filepath.Join(c.dir, "standin.tar")
	c.images = append(c.images, archive)
	return image.Save(archive, map[string]v1.Image{pauseImage: pause, standinImage: made})
}
