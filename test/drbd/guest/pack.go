package guest

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is what guests run.
type Image struct {
	// Kernel and Initramfs are what QEMU boots. Root is a read-only file system (ext4), Tree the directory with the same
	// files.
	Kernel, Initramfs, Root, Tree string
	// Release is that of the kernel.
	Release string
}

// Sources are what an image is packed from.
type Sources struct {
	// Modules is a directory with DRBD's modules, compiled for one of Debian's kernels. It may hold packages (*.deb) too,
	// which are then not downloaded.
	Modules string
	// Archive is a container image, as "docker save" writes it. It has what is run in the guests.
	Archive string
	// Programs are static programs that the guests find by PATH.
	Programs []string
	// Cache is the directory for what is packed, which is found there the next time.
	Cache string
	// Log says what takes long.
	Log io.Writer
}

// kernelModules are the modules of Debian's kernel that guests need. Modules that they depend on are added. Nothing
// loads modules later.
var kernelModules = []string{"virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "crc32c_generic", "ext4",
	"overlay", "dm-mod", "dm-thin-pool", "dm-snapshot"}

// drbdModules are in the order in which they must be loaded. On kernels before 6.7, which lack it, DRBD brings a
// handshake module of its own (DRBD 9.3).
var drbdModules = []string{"drbd", "handshake", "drbd_transport_tcp"}

// parameters are those of modules: a DRBD that calls a program when it loses its quorum would wait for one that is not
// there.
var parameters = map[string]string{"drbd": "usermode_helper=disabled"}

// rootSize is that of the file system with LINSTOR's image.
const rootSize = "2g"

//go:embed init.sh
var initScript []byte

// Pack packs an image. It needs root and the programs apt-get, dpkg-deb, tar and mke2fs.
func Pack(ctx context.Context, s Sources) (*Image, error) {
	release, err := vermagic(filepath.Join(s.Modules, "drbd.ko"))
	if err != nil {
		return nil, err
	}
	modules, _ := filepath.Glob(filepath.Join(s.Modules, "*.*")) // the only error is that of a bad pattern
	boot, err := s.cached(ctx, "boot", fmt.Sprint(string(initScript), kernelModules, drbdModules, parameters),
		s.packBoot(release), append(modules, s.Programs...)...)
	if err != nil {
		return nil, fmt.Errorf("pack the kernel %s: %w", release, err)
	}
	root, err := s.cached(ctx, "root", rootSize, s.packRoot, s.Archive)
	if err != nil {
		return nil, fmt.Errorf("unpack the image %s: %w", s.Archive, err)
	}
	return &Image{Kernel: filepath.Join(boot, "vmlinuz"), Initramfs: filepath.Join(boot, "initramfs"), Release: release,
		Root: filepath.Join(root, "root.ext4"), Tree: filepath.Join(root, "tree")}, nil
}

// cached returns a directory that fill has filled, now or earlier in the same way from sources with the same content.
func (s *Sources) cached(ctx context.Context, name, packing string, fill func(context.Context, string) error,
	sources ...string,
) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprint(sum, packing)
	for _, path := range sources {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(s.Cache, fmt.Sprintf("%s-%x", name, sum.Sum(nil)[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(s.Cache, 0o755); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(s.Cache, name+"-")
	if err != nil {
		return "", err
	}
	if err := fill(ctx, unfinished); err != nil {
		return "", errors.Join(err, os.RemoveAll(unfinished))
	}
	return dir, os.Rename(unfinished, dir)
}

// packBoot unpacks the kernel, and makes an initramfs of its modules, DRBD's, busybox and init.sh.
func (s *Sources) packBoot(release string) func(context.Context, string) error {
	return func(ctx context.Context, dir string) error {
		debs, tree := filepath.Join(dir, "debs"), filepath.Join(dir, "tree")
		kernel, shell := filepath.Join(dir, "kernel"), filepath.Join(dir, "busybox")
		_, _ = fmt.Fprintf(s.Log, "packing a guest with the kernel %s\n", release)
		if err := os.MkdirAll(debs, 0o755); err != nil {
			return err
		}
		if err := errors.Join(s.unpack(ctx, debs, "linux-image-"+release, kernel),
			s.unpack(ctx, debs, "busybox-static", shell)); err != nil {
			return err
		}
		busybox := filepath.Join(shell, "bin", "busybox")
		if err := errors.Join(copyFile(filepath.Join(kernel, "boot", "vmlinuz-"+release), filepath.Join(dir, "vmlinuz")),
			copyFile(busybox, filepath.Join(tree, "bin", "busybox")), s.copyModules(kernel, filepath.Join(tree, "modules")),
			os.WriteFile(filepath.Join(tree, "init"), initScript, 0o755)); err != nil {
			return err
		}
		for _, program := range s.Programs {
			if err := copyFile(program, filepath.Join(tree, "programs", filepath.Base(program))); err != nil {
				return err
			}
		}
		for _, d := range []string{"proc", "sys", "dev"} {
			if err := os.MkdirAll(filepath.Join(tree, d), 0o755); err != nil {
				return err
			}
		}
		if err := run(ctx, tree, busybox, "--install", "-s", "bin"); err != nil {
			return err
		}
		if err := relink(filepath.Join(tree, "bin")); err != nil {
			return err
		}
		if err := archive(ctx, busybox, tree, filepath.Join(dir, "initramfs")); err != nil {
			return err
		}
		return errors.Join(os.RemoveAll(kernel), os.RemoveAll(tree), os.RemoveAll(debs), os.RemoveAll(shell))
	}
}

// relink makes busybox's links, which have the path of the machine, those of the guest.
func relink(bin string) error {
	entries, err := os.ReadDir(bin)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			path := filepath.Join(bin, e.Name())
			if err := errors.Join(os.Remove(path), os.Symlink("busybox", path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// unpack unpacks a Debian package: one in the directory with the modules, else one that apt-get downloads.
func (s *Sources) unpack(ctx context.Context, debs, pkg, into string) error {
	find := func(dir string) []string {
		found, _ := filepath.Glob(filepath.Join(dir, pkg+"_*.deb")) // the only error is that of a bad pattern
		return found
	}
	found := find(s.Modules)
	if len(found) == 0 {
		if err := run(ctx, debs, "apt-get", "-o", "APT::Sandbox::User=root", "download", pkg); err != nil {
			return fmt.Errorf("%w\nPut the package into %s if the distribution has it no longer", err, s.Modules)
		}
		found = find(debs)
	}
	if len(found) == 0 {
		return fmt.Errorf("no package %s", pkg)
	}
	return run(ctx, debs, "dpkg-deb", "--extract", found[0], into)
}

// copyModules copies the modules that are needed, and writes their order.
func (s *Sources) copyModules(kernel, into string) error {
	paths := map[string]string{}
	collect := func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".ko") {
			paths[moduleName(path)] = path
		}
		return err
	}
	if err := filepath.WalkDir(filepath.Join(kernel, "lib", "modules"), collect); err != nil {
		return err
	}
	if err := filepath.WalkDir(s.Modules, collect); err != nil {
		return err
	}
	var order []string // each a file and its parameters
	done := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		name = moduleName(name)
		path := paths[name]
		if done[name] || path == "" { // without a file, it is part of the kernel, or meant for another one
			return nil
		}
		done[name] = true
		info, err := modinfo(path)
		if err != nil {
			return err
		}
		for _, needed := range strings.FieldsFunc(info["depends"], func(r rune) bool { return r == ',' }) {
			if err := add(needed); err != nil {
				return err
			}
		}
		order = append(order, strings.TrimSpace(name+".ko "+parameters[name]))
		return copyFile(path, filepath.Join(into, name+".ko"))
	}
	for _, name := range append(slices.Clone(kernelModules), drbdModules...) {
		if err := add(name); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(into, "order"), []byte(strings.Join(order, "\n")+"\n"), 0o600)
}

// packRoot unpacks the container image and makes a file system of it.
func (s *Sources) packRoot(ctx context.Context, dir string) error {
	_, _ = fmt.Fprintf(s.Log, "unpacking %s\n", s.Archive)
	img, err := tarball.ImageFromPath(s.Archive, nil)
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return err
	}
	files := mutate.Extract(img)
	defer func() { _ = files.Close() }()
	untar := exec.CommandContext(ctx, "tar", "--extract", "--directory", tree, "--preserve-permissions")
	untar.Stdin = files
	if out, err := untar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "etc"} {
		if err := os.MkdirAll(filepath.Join(tree, d), 0o755); err != nil {
			return err
		}
	}
	return run(ctx, dir, "mke2fs", "-q", "-t", "ext4", "-d", tree, "-O", "^has_journal", "root.ext4", rootSize)
}

// archive writes an initramfs.
func archive(ctx context.Context, busybox, tree, to string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(out)
	cpio := exec.CommandContext(ctx, "sh", "-c", `find . | "$0" cpio -o -H newc`, busybox)
	cpio.Dir, cpio.Stdout = tree, zip
	var said strings.Builder
	cpio.Stderr = &said
	if err := cpio.Run(); err != nil {
		return fmt.Errorf("cpio: %w: %s", err, said.String())
	}
	return errors.Join(zip.Close(), out.Close())
}

func run(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o755))
}
