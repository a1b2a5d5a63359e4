package resources_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// TestKernelSources lays out what packages of Debian with Linux 6.12 put onto a host, and lets the loader's container
// look for it: the headers lead to a second package outside /usr/src.
func TestKernelSources(t *testing.T) {
	const headers, scripts = "linux-headers-6.12.88+deb13-common", "linux-kbuild-6.12.88+deb13"
	usr, src := t.TempDir(), t.TempDir()
	file(t, filepath.Join(usr, "src", headers, "Makefile"), "include scripts/Kbuild.include\n")
	file(t, filepath.Join(usr, "lib", scripts, "scripts", "Kbuild.include"), "found\n")
	link(t, "../../lib/"+scripts+"/scripts", filepath.Join(usr, "src", headers, "scripts"))
	link(t, "../lib/"+scripts, filepath.Join(usr, "src", scripts))
	link(t, "/usr/lib/"+scripts, filepath.Join(usr, "src", "absolute"))
	link(t, "../lib/of-a-package-that-was-removed", filepath.Join(usr, "src", "broken"))
	entry := filepath.Join(t.TempDir(), "entry.sh")
	file(t, entry, "#!/bin/sh\ncat "+filepath.Join(src, headers, "scripts", "Kbuild.include")+" "+
		filepath.Join(src, "absolute", "scripts", "Kbuild.include")+"\n")
	if err := os.Chmod(entry, 0o700); err != nil {
		t.Fatal(err)
	}
	command := loader(t, v1alpha1.ModuleCompile).Command
	replace := strings.NewReplacer("/host/usr/src", filepath.Join(usr, "src"), "/usr/src", src, "/entry.sh", entry)
	for i := range command[4:] { // what the script is given
		command[4+i] = replace.Replace(command[4+i])
	}
	for _, attempt := range []string{"first", "after a restart of the container"} {
		out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		if err != nil || string(out) != strings.Repeat("found\n", 2) {
			t.Errorf("%s: %v, output %q", attempt, err, out)
		}
	}
}

// TestKernelSourcesMounts: the host's files are where the command looks, and the loader still takes /usr/src for a
// mount, by which it decides to compile. Without headers on the host, or a use for them, it is as its image has it.
func TestKernelSourcesMounts(t *testing.T) {
	for mode, compiles := range map[v1alpha1.KernelModuleMode]bool{"": true, v1alpha1.ModuleAuto: true,
		v1alpha1.ModuleCompile: true, v1alpha1.ModulePrebuilt: false} {
		c := loader(t, mode)
		at := func(path string) bool {
			return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path })
		}
		if at("/usr/src") != compiles || at("/host/usr") != compiles || (len(c.Command) > 0) != compiles {
			t.Errorf("mode %q: command %q, mounts %v", mode, c.Command, c.VolumeMounts)
		}
	}
}

// loader is the container that loads the module on nodes of no special platform.
func loader(t *testing.T, mode v1alpha1.KernelModuleMode) corev1.Container {
	t.Helper()
	spec := v1alpha1.StorageClusterSpec{KernelModule: v1alpha1.KernelModuleSpec{Mode: mode}}
	return resources.ModuleLoader(params(spec), generic, noble).Spec.Template.Spec.InitContainers[0]
}

func file(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}
