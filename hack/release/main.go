// Command release builds what a release consists of into a directory: the operator's image for several architectures
// with what it is made of, one manifest, the Helm chart, the bundle for OLM, and the kubectl plugin. Two runs on the
// same commit with the same Go write the same bytes. Nothing is published, and nothing is downloaded but Go modules.
//
// With -image it builds the operator's image alone, of whatever lies in the work tree, as "docker load" reads it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Repository is where the sources are found, and what is released.
const Repository = "https://github.com/linstor-dev/storagecluster-operator"

func main() {
	root := flag.String("dir", ".", "root of the repository")
	version := flag.String("version", "", "version, such as v0.2.0 or v0.2.0-rc.1")
	registry := flag.String("registry", "", "registry for the image, such as registry.example.com/storage")
	image := flag.String("image", "",
		"build only the image for one platform, and write it to this file for \"docker load\"")
	architecture := flag.String("arch", "", "with -image: architecture of the image, such as amd64")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *image != "" {
		err = onlyImage(ctx, *root, *version, *architecture, *image)
	} else {
		err = whole(ctx, *root, *version, *registry)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// onlyImage builds the image of one architecture.
func onlyImage(ctx context.Context, root, version, architecture, file string) error {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	target := target{Program: operator, OS: "linux", Arch: architecture}
	binary := filepath.Join(dir, operator)
	if err := compile(ctx, root, version, target, binary); err != nil {
		return err
	}
	about, err := describe(ctx, root, version)
	if err != nil {
		return err
	}
	made, err := newImage(about, target, binary)
	if err != nil {
		return err
	}
	return writeForDocker(file, made, version)
}

// whole builds a release into the directory dist/VERSION.
func whole(ctx context.Context, root, version, registry string) error {
	about, err := describe(ctx, root, version)
	if err != nil {
		return err
	}
	about.Registry = registry
	if err := about.complete(); err != nil {
		return err
	}
	if err := clean(ctx, root, version); err != nil {
		return err
	}
	dir := filepath.Join(root, "dist", version)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	r := &release{about: about, root: root, dir: dir, compile: compile}
	if err := r.write(ctx); err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}
