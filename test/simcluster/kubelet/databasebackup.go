package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/take"
)

// Containers in which the operator's program takes a backup of LINSTOR's database, and in which LINSTOR's own restores
// it before that.
const (
	DatabaseBackup      = "backup"
	DatabaseDownload    = "download"
	DatabaseRestoreTest = "restore-test"
)

// programTask is the operator's program, which runs in this process.
type programTask struct {
	cancel context.CancelFunc
	done   chan struct{}
	end    exit // once done is closed
}

// beginAboutBackups starts what takes a backup, compares one, or restores it, and what moves LINSTOR's data.
func beginAboutBackups(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod,
	c *corev1.Container) (task, error) {
	switch c.Name {
	case DatabaseRestoreTest:
		return beginRestoreTest(run)
	case ListVolumes, ServeListing, CompareBackup:
		return beginComparison(ctx, d, run, pod, c)
	case FetchBackup, ImportDatabase, CheckImport:
		return beginRestore(ctx, d, run, pod, c)
	case MoveDatabase:
		return beginMove(ctx, d, run, pod, c)
	case CheckMove:
		return beginCheckMove(d, run, c)
	default:
		return beginBackup(ctx, d, run, pod, c)
	}
}

// beginBackup does what the program does that the container runs: it reads the Secret, has LINSTOR export its
// database, speaks to the S3 service, and leaves a note in the termination log. LINSTOR is where it answers on
// loopback.
func beginBackup(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	config, do, wrong := backupConfig(c.Args)
	if config == nil {
		return endedTask{exit{code: 1, message: "operator: " + wrong}}, nil
	}
	if config.Export != "" {
		shared, err := run.emptyDir()
		if err != nil {
			return nil, err
		}
		config.Export = filepath.Join(shared, path.Base(config.Export))
		config.Restored = filepath.Join(shared, path.Base(config.Restored))
	}
	dir, err := place(ctx, d, pod, c, &config.Store, &config.Credentials)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(config.Linstor, "https://") {
		config.Linstor = d.opts.Locked
	} else {
		config.Linstor = d.opts.Linstor
	}
	certificates, err := mountedDir(ctx, d, pod, c, &config.Certificates)
	if err != nil {
		return nil, err
	}
	return beginProgram(d, run, func(ctx context.Context) exit {
		defer func() { _, _ = os.RemoveAll(dir), os.RemoveAll(certificates) }()
		return do(ctx, config)
	}), nil
}

// beginProgram runs a program until it ends by itself, or its container does.
func beginProgram(d *Driver, run *podRun, program func(context.Context) exit) task {
	running, cancel := context.WithCancel(context.Background())
	t := &programTask{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer cancel()
		t.end = program(running)
	}()
	d.wakeWhenDone(t, run.key)
	return t
}

// backupPrograms are what the operator's program does, by its first argument.
var backupPrograms = map[string]func(context.Context, *take.Config) exit{
	"--take-backup":     takeBackup,
	"--download-export": func(ctx context.Context, c *take.Config) exit { return failed(take.Download(ctx, c)) },
}

// backupConfig is what the program's arguments say and make it do, or what is wrong with them.
func backupConfig(args []string) (config *take.Config, do func(context.Context, *take.Config) exit, wrong string) {
	if len(args) != 2 || backupPrograms[args[0]] == nil {
		return nil, nil, fmt.Sprintf("arguments %q are not simulated", args)
	}
	config, err := take.ParseConfig(args[1], time.Now())
	if err != nil {
		return nil, nil, args[0] + ": " + err.Error()
	}
	return config, backupPrograms[args[0]], ""
}

// failed is how the program ends with an error, or without.
func failed(err error) exit {
	if err != nil {
		return exit{code: 1, message: "operator: " + err.Error()}
	}
	return exit{}
}

func takeBackup(ctx context.Context, config *take.Config) exit {
	result, err := take.Run(ctx, config)
	if err != nil {
		return failed(err)
	}
	return noted(result.Note())
}

// noted is how the program ends with a note for the operator.
func noted(note []byte, err error) exit {
	if err != nil {
		return failed(err)
	}
	return exit{words: string(note)}
}

// beginRestoreTest is LINSTOR's own program, which exports what it has read: the same rows, of another database.
func beginRestoreTest(run *podRun) (task, error) {
	dir, err := run.emptyDir()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, exportFile))
	if errors.Is(err, os.ErrNotExist) {
		return endedTask{}, nil // the store has the backup
	}
	if err != nil {
		return nil, err
	}
	var export map[string]json.RawMessage
	if err := json.Unmarshal(text, &export); err != nil {
		return nil, err
	}
	export["exported_from"] = json.RawMessage(`"sql/h2"`)
	if text, err = json.Marshal(export); err != nil {
		return nil, err
	}
	return endedTask{}, os.WriteFile(filepath.Join(dir, restoredFile), text, 0o600)
}

// place puts in place of what is mounted in the container where that is on the machine that runs this. made is a
// directory that is to be removed afterwards, "" for none.
func place(ctx context.Context, d *Driver, pod *corev1.Pod, c *corev1.Container, at *store.Location,
	credentials *string) (made string, err error) {
	if at.Directory != "" {
		at.Directory, err = hostPath(ctx, d, pod, mountedAt(pod, c, at.Directory))
		return "", err
	}
	return mountedDir(ctx, d, pod, c, credentials)
}

// mountedDir puts what is mounted at a path in the container into a directory, whose name takes the path's place; ""
// if there is no path. Whoever uses it removes it.
func mountedDir(ctx context.Context, d *Driver, pod *corev1.Pod, c *corev1.Container, at *string) (made string,
	err error) {
	if *at == "" {
		return "", nil
	}
	files, err := d.files.volumeFiles(ctx, pod.Namespace, mountedAt(pod, c, *at))
	if err != nil {
		return "", err
	}
	if made, err = os.MkdirTemp("", "mounted-"); err != nil {
		return "", err
	}
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(made, name), []byte(content), 0o600))
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(made))
	}
	*at = made
	return made, nil
}

// mountedAt is the volume that is mounted at a path in the container; one without a source if none is.
func mountedAt(pod *corev1.Pod, c *corev1.Container, at string) *corev1.Volume {
	for _, m := range c.VolumeMounts {
		for i := range pod.Spec.Volumes {
			if v := &pod.Spec.Volumes[i]; v.Name == m.Name && path.Clean(m.MountPath) == path.Clean(at) {
				return v
			}
		}
	}
	return &corev1.Volume{}
}

// hostPath is the directory of the host that the volume of a claim is. No others are simulated here.
func hostPath(ctx context.Context, d *Driver, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	if v.PersistentVolumeClaim == nil {
		return "", errors.New("no claim is mounted for backups")
	}
	claims, volumes := d.client.CoreV1().PersistentVolumeClaims(pod.Namespace), d.client.CoreV1().PersistentVolumes()
	claim, err := claims.Get(ctx, v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	pv, err := volumes.Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || pv.Spec.HostPath == nil {
		return "", errors.Join(err, fmt.Errorf("the volume of claim %s is no directory of the host", claim.Name))
	}
	return pv.Spec.HostPath.Path, nil
}

// Done is closed when the program has ended.
func (t *programTask) Done() <-chan struct{} { return t.done }

// Stop ends it.
func (t *programTask) Stop() { t.stop(false) }

func (t *programTask) state() taskState {
	select {
	case <-t.done:
		return taskState{ended: true, exit: t.end}
	default:
		return taskState{ready: true}
	}
}

func (t *programTask) stop(bool) {
	t.cancel()
	<-t.done
}
