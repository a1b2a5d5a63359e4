package kubelet

import (
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/canary"
	"github.com/linstor-dev/storagecluster-operator/test/csidriver"
)

// disk is one device.
type disk struct {
	content string
	broken  bool // it answers with errors
	forgets bool // it keeps nothing of what is written
}

func (d *disk) DeviceKiB(string, string) (int64, error) { return 8 << 10, nil }
func (d *disk) OpenDevice(string, string) error         { return nil }
func (d *disk) CloseDevice(string, string)              {}
func (d *disk) WriteFile(_, _, _, content string) error {
	if !d.forgets {
		d.content = content
	}
	return d.err()
}
func (d *disk) ReadFile(string, string, string) (string, error) { return d.content, d.err() }

func (d *disk) err() error {
	if d.broken {
		return errors.New("input/output error")
	}
	return nil
}

// TestScript: the operator's own script succeeds on a device that keeps what is written, and on no other.
func TestScript(t *testing.T) {
	release, _ := catalogue.Embedded().Release(catalogue.Embedded().Newest())
	p := resources.Params{Cluster: "linstor", Spec: &v1alpha1.StorageClusterSpec{}, Release: release}
	pod := canary.Pod(p, &v1alpha1.StorageCluster{}, "fast")
	for _, tc := range []struct {
		name   string
		disk   disk
		script string
		code   int32
		words  string
	}{
		{"a device", disk{}, canary.Script, 0, ""},
		{"one with errors", disk{broken: true}, canary.Script, 1, "input/output error"},
		{"one that forgets", disk{forgets: true, content: "old"}, canary.Script, 1, "not what was written"},
		{"a command that is not known", disk{}, canary.Script + "reboot\n", 1, `"reboot" is not simulated`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &Driver{opts: Options{CSI: &CSI{Disks: &tc.disk}, Log: io.Discard},
				plugins: plugins{mounts: map[string]*csidriver.Records{}}}
			c := pod.Spec.Containers[0]
			c.Command = append([]string{}, c.Command...)
			c.Command[2] = tc.script
			run := &podRun{node: "n1", claims: []claimMount{{volume: "volume", target: "/target"}}}
			mount := csidriver.Mount{Volume: "v", Device: "/dev/x", Target: "/target"}
			if err := storageOf(d).mountsOn("n1").Mount(mount); err != nil {
				t.Fatal(err)
			}
			state := storageOf(d).beginScript(run, &c).state()
			if !state.ended || state.exit.code != tc.code || !strings.Contains(state.exit.message, tc.words) {
				t.Errorf("%+v", state)
			}
		})
	}
	other := &corev1.Container{Command: []string{"/bin/sh", "-c"}}
	if state := storageOf(&Driver{}).beginScript(&podRun{}, other).state(); state.exit.code != 127 {
		t.Errorf("another command: %+v", state)
	}
}

// TestApplicationScript: the script of the sample application adds a line with its pod's name and goes on; one that
// looks shows all lines in its termination log.
func TestApplicationScript(t *testing.T) {
	var kept disk
	d := &Driver{opts: Options{CSI: &CSI{Disks: &kept}, Log: io.Discard},
		plugins: plugins{mounts: map[string]*csidriver.Records{}}}
	mount := csidriver.Mount{Volume: "v", Device: "/dev/x", Target: "/target"}
	if err := storageOf(d).mountsOn("n1").Mount(mount); err != nil {
		t.Fatal(err)
	}
	run := func(pod string, script string) taskState {
		c := &corev1.Container{Command: []string{"/bin/sh", "-c"}, Args: []string{script},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}
		r := &podRun{key: "default/" + pod, node: "n1", claims: []claimMount{{volume: "data", target: "/target"}}}
		if !isScript(r, c) {
			t.Fatalf("%v is no script", c.Command)
		}
		return storageOf(d).beginScript(r, c).state()
	}
	const write = "set -eu\necho \"written by $HOSTNAME\" >> /data/log\nsync\nexec sleep infinity\n"
	for _, pod := range []string{"one", "two"} {
		if state := run(pod, write); !state.ready || state.ended {
			t.Errorf("%s: %+v", pod, state)
		}
	}
	state := run("three", "set -eu\ncat /data/log > /dev/termination-log\n")
	if want := "written by one\nwritten by two\n"; !state.ended || state.exit.code != 0 || state.exit.words != want {
		t.Errorf("%+v, want the words %q", state, want)
	}
}
