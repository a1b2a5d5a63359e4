package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/guard"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/snapshot"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/bound"
)

// Containers of a member of etcd: the guard takes what it is to run with, and starts the real etcd on the address of
// its node, which must be one of loopback. LookForEtcd looks into the data directory, and SnapshotEtcd takes a
// snapshot beside it.
const (
	TakeMember   = pods.Take
	Etcd         = pods.Etcd
	LookForEtcd  = "look-for-etcd"
	SnapshotEtcd = "snapshot-etcd"
)

// readyEvery is how often the readiness of etcd is looked at.
const readyEvery = 200 * time.Millisecond

// etcdData is the data directory of a node's member on this machine.
func etcdData(d *Driver, node string) string { return filepath.Join(d.opts.Disks, node, "data") }

func beginEtcd(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	if c.Name == LookForEtcd {
		found, err := datadir.Look(etcdData(d, run.node))
		if err != nil {
			return endedTask{failed(err)}, nil
		}
		return endedTask{noted(json.Marshal(found))}, nil
	}
	if c.Name == SnapshotEtcd {
		return beginSnapshot(d, run, c)
	}
	dir, err := run.emptyDir()
	if err != nil {
		return nil, err
	}
	words := append(append([]string{}, c.Command...), c.Args...)
	paths := guard.Paths{Member: words[len(words)-1], Mounted: filepath.Join(dir, "mounted"), Work: dir,
		Data: etcdData(d, run.node), Message: filepath.Join(dir, c.Name+".message"), Etcd: d.opts.Etcd}
	if c.Name == Etcd {
		return startEtcd(d, run, paths)
	}
	order, err := d.files.mountedFile(ctx, pod, c, pods.Order)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(paths.Mounted, []byte(order), 0o600); err != nil {
		return nil, err
	}
	end := failed(guard.Take(paths))
	end.words = said(paths)
	return endedTask{end}, nil
}

// EtcdSnapshots is the directory with the snapshots of a node's member on this machine.
func EtcdSnapshots(d *Driver, node string) string {
	return filepath.Join(d.opts.Disks, node, filepath.Base(pods.Kept))
}

// beginSnapshot does what the operator's program does: it takes a snapshot, and leaves a note of what came of it.
func beginSnapshot(d *Driver, run *podRun, c *corev1.Container) (task, error) {
	var config snapshot.Config
	if err := json.Unmarshal([]byte(c.Args[len(c.Args)-1]), &config); err != nil {
		return nil, err
	}
	return beginProgram(d, run, func(ctx context.Context) exit {
		taken, err := snapshot.Take(ctx, EtcdSnapshots(d, run.node), config)
		if err != nil {
			taken.Error = err.Error()
		}
		end := noted(json.Marshal(taken))
		if err != nil {
			end.code, end.message = 1, taken.Error
		}
		return end
	}), nil
}

// said is the termination message.
func said(p guard.Paths) string {
	text, err := os.ReadFile(p.Message)
	if err != nil {
		return ""
	}
	return string(text)
}

// etcdTask is a running etcd.
type etcdTask struct {
	cmd     *exec.Cmd
	paths   guard.Paths
	metrics string
	done    chan struct{}
}

func startEtcd(d *Driver, run *podRun, paths guard.Paths) (task, error) {
	t := &etcdTask{paths: paths, done: make(chan struct{}), metrics: "http://" + run.hostIP + ":3381"}
	err := guard.Start(paths, time.Now(), func(program string, args, _ []string) error {
		file := strings.TrimPrefix(args[1], "--config-file=")
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// All nodes are on this machine: each has a directory of its own, and its own loopback.
		told := strings.NewReplacer(pods.Data, paths.Data, "http://127.0.0.1:3381", t.metrics).Replace(string(text))
		if err := os.WriteFile(file, []byte(told), 0o600); err != nil {
			return err
		}
		log, err := os.OpenFile(filepath.Join(d.opts.Disks, run.node, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer log.Close()
		t.cmd = exec.Command(program, args[1:]...)
		t.cmd.Stdout, t.cmd.Stderr = log, log
		return bound.Start(t.cmd)
	})
	if err != nil {
		end := failed(err)
		end.words = said(paths)
		return endedTask{end}, nil
	}
	go func() {
		_ = t.cmd.Wait()
		close(t.done)
	}()
	d.wakeWhenDone(t, run.key)
	return t, nil
}

func (t *etcdTask) state() taskState {
	select {
	case <-t.done:
		return taskState{ended: true, exit: exit{code: 1, message: "etcd ended", words: said(t.paths)}}
	default:
		return taskState{ready: t.ready(), recheck: readyEvery}
	}
}

// ready is the readiness probe.
func (t *etcdTask) ready() bool {
	client := http.Client{Timeout: machine.Slow(time.Second)}
	resp, err := client.Get(t.metrics + "/readyz")
	if err != nil {
		return false
	}
	return errors.Join(resp.Body.Close()) == nil && resp.StatusCode == http.StatusOK
}

func (t *etcdTask) stop(bool) {
	_ = t.cmd.Process.Kill()
	<-t.done
}

// Stop kills the process. The kubelet starts it again.
func (t *etcdTask) Stop() { t.stop(false) }

// Done implements Process.
func (t *etcdTask) Done() <-chan struct{} { return t.done }

// LoseEtcd kills the member of a node, and takes its data away, as a new disk would.
func LoseEtcd(d *Driver, node string) error {
	// It is taken away before the kill: the next etcd may be started at once, and would run on with removed files.
	lost := etcdData(d, node) + ".lost"
	if err := os.Rename(etcdData(d, node), lost); err != nil {
		return err
	}
	KillEtcd(d, node)
	return os.RemoveAll(lost)
}

// KillEtcd kills the member of a node. It is started again.
func KillEtcd(d *Driver, node string) {
	d.mu.Lock()
	var runs []*podRun
	for _, run := range d.runs {
		if run.node == node {
			runs = append(runs, run)
		}
	}
	d.mu.Unlock()
	for _, run := range runs {
		run.mu.Lock()
		for _, c := range run.main {
			if t, ok := c.task.(*etcdTask); ok {
				t.Stop()
			}
		}
		run.mu.Unlock()
	}
}
