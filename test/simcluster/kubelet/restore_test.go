package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
)

// objects are ConfigMaps by name, each with one file.
type objects map[string]map[string]string

func (o objects) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if o[name] == nil {
		return nil, errors.New("no ConfigMap " + name)
	}
	return &corev1.ConfigMap{Data: o[name]}, nil
}

func (objects) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return nil, errors.New("no Secrets")
}

// importer is a LINSTOR that only imports.
type importer struct {
	Machines
	imported string
	version  string
	emptied  bool
	err      error
}

func (m *importer) ImportDatabase(_ context.Context, c ControllerConfig, export []byte) ([]byte, error) {
	if m.err != nil {
		return nil, m.err
	}
	m.imported, m.version = string(export), c.Version
	return []byte("restored from " + c.TOML), nil
}

func (m *importer) EmptyDatabase(ControllerConfig) error {
	m.emptied = true
	return m.err
}

// importPod is a pod that restores, with the command of its second init container.
func importPod(command ...string) *corev1.Pod {
	configMap := func(volume, name string) corev1.Volume {
		return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}
	}
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}
	return &corev1.Pod{Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{configMap("config", "linstor"), configMap("claim", "claim"),
			{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{token}}}}},
		InitContainers: []corev1.Container{{Name: ImportDatabase, Image: "registry.example.com/server:v1.34.0",
			Command: command, VolumeMounts: []corev1.VolumeMount{
				{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
				{Name: "config", MountPath: "/etc/linstor"}, {Name: "claim", MountPath: "/claim"},
				{Name: "work", MountPath: "/work"}}}}}}
}

// importDriver has what an import needs: LINSTOR's configuration, and a claim that says what is being restored.
func importDriver(t *testing.T, linstor Machines, restoring string) *Driver {
	d := &Driver{opts: Options{Machines: linstor}, queue: workqueue.NewTypedDelayingQueue[string](),
		faults: newFaults(func(string) {}), files: Files{objects{
			"linstor": {"linstor.toml": "[db]\n"}, "claim": {"restoring": restoring}}}}
	t.Cleanup(d.queue.ShutDown)
	return d
}

// ended is the state of the pod's import once it has ended.
func ended(t *testing.T, d *Driver, run *podRun, pod *corev1.Pod) taskState {
	t.Helper()
	begun, err := d.begin(t.Context(), run, pod, &pod.Spec.InitContainers[0])
	if err != nil {
		t.Fatal(err)
	}
	if running, ok := begun.(*controllerTask); ok {
		<-running.ended
	}
	return begun.state()
}

func TestImportDatabase(t *testing.T) {
	command := []string{"/usr/bin/k8s-await-election", "/bin/sh", "-c", "…", ImportDatabase, "mark"}
	for name, tt := range map[string]struct {
		command []string
		claim   string
		none    bool // the backup was not fetched
		empties bool
		fails   error
		code    int32
		says    string
	}{
		"imports":                  {command: command, claim: "mark"},
		"a line of words":          {command: command, claim: "mark\n"},
		"into an emptied database": {command: append(slices.Clone(command), "anew"), claim: "mark", empties: true},
		"it is not emptied": {command: append(slices.Clone(command), "anew"), claim: "mark", empties: true,
			fails: errors.New("forbidden"), code: 1, says: "kubectl delete ended with status 1: forbidden"},
		"empties for another backup": {command: append(slices.Clone(command), "anew"), claim: "other", code: 1,
			says: "the claim does not say"},
		"another word": {command: append(slices.Clone(command), "a"), claim: "mark", code: 127, says: "is not simulated"},
		"no election":  {command: command[1:], claim: "mark"},
		"another backup": {command: command, claim: "other", code: 1,
			says: "the claim does not say that this backup is being restored"},
		"no backup":  {command: command, code: 1, says: "the claim does not say that this backup is being restored"},
		"no file":    {command: command, claim: "mark", none: true, code: 1, says: "Failed to read database backup"},
		"refused":    {command: command, claim: "mark", fails: errors.New("too new"), code: 1, says: "status 1: too new"},
		"no mark":    {command: command[:5], claim: "mark", code: 127, says: "is not simulated"},
		"other form": {command: []string{"linstor-database", "import-db"}, code: 127, says: "is not simulated"},
	} {
		t.Run(name, func(t *testing.T) {
			linstor := &importer{err: tt.fails}
			d := importDriver(t, linstor, tt.claim)
			run, pod := &podRun{dir: t.TempDir()}, importPod(tt.command...)
			if !tt.none {
				if err := os.WriteFile(filepath.Join(run.dir, exportFile), []byte("the export"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := ended(t, d, run, pod)
			if !got.ended || got.exit.code != tt.code || !strings.Contains(got.exit.message, tt.says) {
				t.Errorf("%+v, want code %d, %q", got, tt.code, tt.says)
			}
			restored, _ := os.ReadFile(filepath.Join(run.dir, restoredFile)) // "" if there is none
			want := [3]string{}
			if tt.code == 0 {
				want = [3]string{"the export", "1.34.0", "restored from [db]\n"}
			}
			if linstor.emptied != tt.empties {
				t.Errorf("emptied: %t", linstor.emptied)
			}
			if got := [3]string{linstor.imported, linstor.version, string(restored)}; got != want {
				t.Errorf("imported, by and restored: %q, want %q", got, want)
			}
		})
	}
}

// TestImportWaitsForItsClaim: a container whose ConfigMap is not there is not created.
func TestImportWaitsForItsClaim(t *testing.T) {
	pod := importPod("k8s-await-election", "/bin/sh", "-c", "…", ImportDatabase, "mark")
	d := &Driver{faults: newFaults(func(string) {}), files: Files{objects{"linstor": {"linstor.toml": ""}}}}
	if begun, err := d.begin(t.Context(), &podRun{}, pod, &pod.Spec.InitContainers[0]); err == nil {
		t.Errorf("began %+v", begun)
	}
}

func TestCheckImportNeedsBothFiles(t *testing.T) {
	const config = `{"cluster":"c","id":"upgrade-1.34.0","sha256":"s","store":{"directory":"/backups"},` +
		`"export":"/work/export.json","restored":"/work/restored.json"}`
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--check-import", config}, exportFile},
		{[]string{"--check-import", "{}"}, "--check-import: "},
		{[]string{"--check-import"}, "not simulated"},
		{[]string{"--take-backup", config}, "not simulated"},
	} {
		d := &Driver{queue: workqueue.NewTypedDelayingQueue[string](), faults: newFaults(func(string) {})}
		begun, err := d.begin(t.Context(), &podRun{dir: t.TempDir()}, &corev1.Pod{},
			&corev1.Container{Name: CheckImport, Args: tt.args})
		if err != nil {
			t.Fatal(err)
		}
		if running, ok := begun.(*programTask); ok {
			<-running.Done()
		}
		if got := begun.state(); !got.ended || got.exit.code != 1 || !strings.Contains(got.exit.message, tt.says) {
			t.Errorf("%q: %+v, want %q", tt.args, got, tt.says)
		}
		d.queue.ShutDown()
	}
}
