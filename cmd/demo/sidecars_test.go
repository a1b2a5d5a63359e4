package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
)

// TestWithoutDriver: the copy differs from the sample in the driver alone.
func TestWithoutDriver(t *testing.T) {
	d := &demo{dir: t.TempDir()}
	t.Chdir("../..")
	path, err := d.withoutDriver(sample)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) (c v1alpha1.StorageCluster) {
		t.Helper()
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(content, &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	want, got := read(sample), read(path)
	if v := got.Spec.Volumes; v.Driver.Mode != volumespec.DriverNone || len(v.StorageClasses) > 0 {
		t.Errorf("the copy has the volumes %+v", v)
	}
	got.Spec.Volumes = want.Spec.Volumes
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the copy differs in more than volumes (-sample +copy):\n%s", diff)
	}
	if _, err := d.withoutDriver("README.md"); err == nil || !strings.Contains(err.Error(), "README.md") {
		t.Errorf("a file that is no manifest: %v", err)
	}
}

// TestSidecarsAreAwaited: the build's progress is shown from the moment on in which it is waited for.
func TestSidecarsAreAwaited(t *testing.T) {
	var screen bytes.Buffer
	s := &sidecars{built: make(chan struct{}), log: progress{out: &screen}, err: errors.New("the disk is full")}
	if _, err := s.log.Write([]byte("early\n")); err != nil {
		t.Fatal(err)
	}
	close(s.built)
	if err := s.wait(); err == nil || err.Error() != "the disk is full" {
		t.Errorf("the build ended with %v", err)
	}
	if _, err := s.log.Write([]byte("late\n")); err != nil {
		t.Fatal(err)
	}
	if got := screen.String(); got != "late\n" {
		t.Errorf("the screen shows %q", got)
	}
}
