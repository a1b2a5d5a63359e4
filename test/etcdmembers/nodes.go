// Package etcdmembers runs real etcd members on loopback, as a DaemonSet would on nodes: what is placed on a node gets
// a pod there, whose containers the guard starts, and etcd is started again in the same pod when it ends. Nodes can be
// switched off, stopped, lose their disks, and mount them late.
package etcdmembers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/act"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/configfile"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/guard"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/snapshot"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// Node is a machine of the test.
type Node struct {
	seats.Node
	site    seats.Site
	metrics string
	dir     string
	off     bool
	pods    int
	process *process
}

// DataDir is its data directory.
func (n *Node) DataDir() string { return filepath.Join(n.dir, "data") }

// Snapshots is the directory with the snapshots of its member.
func (n *Node) Snapshots() string { return filepath.Join(n.dir, "snapshots") }

// Cluster is nodes, and what the operator has noted about the members on them.
type Cluster struct {
	t      testing.TB
	binary string
	Nodes  []*Node
	// Facts are what is wanted, with the notes.
	Facts membership.Facts
	API   api.API
	// Ahead is by how much the operator's clock is ahead.
	Ahead time.Duration
	// Rows are those that decided, without repetitions.
	Rows []string
	// Errs are what steps failed with.
	Errs   []error
	writes int
}

var _ act.Hands = (*Cluster)(nil)

// New is a cluster that has not begun. It stops with the test.
func New(t testing.TB, nodes int) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // the binaries are built once
	defer cancel()
	bin, err := kubebin.Ensure(ctx, kubebin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, binary: filepath.Join(bin, kubebin.Etcd),
		API: api.New(nil, api.Deadlines{Answer: machine.Slow(time.Second),
			Change: machine.Slow(5 * time.Second), Long: machine.Slow(30 * time.Second)})}
	c.Facts.Limits, c.Facts.Revision = membership.Default, "1"
	for i := range nodes {
		c.Nodes = append(c.Nodes, &Node{dir: t.TempDir(), metrics: local(t), Node: seats.Node{
			Name: fmt.Sprintf("n%d", i+1), PeerURL: local(t), ClientURL: local(t), Ready: true}})
	}
	t.Cleanup(func() {
		for _, n := range c.Nodes {
			n.process.kill()
			if text, err := os.ReadFile(filepath.Join(n.dir, "log")); err == nil && t.Failed() {
				t.Logf("%s:\n%s", n.Name, text[max(0, len(text)-1500):])
			}
		}
	})
	return c
}

// On is the node of that name.
func (c *Cluster) On(name string) *Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	c.t.Fatalf("there is no node %q", name)
	return nil
}

// Off kills the member of a node, which stays away until Again.
func (n *Node) Off() {
	n.off = true
	n.process.kill()
}

// Again switches a node on again.
func (n *Node) Again() { n.off = false }

// Back starts the member of a node that is off, as it was, and waits for its peer port. The kubelet does not report.
func (c *Cluster) Back(n *Node) {
	n.process = start(c.t, filepath.Join(n.dir, "log"), c.binary,
		"--config-file="+filepath.Join(n.dir, fmt.Sprint("pod-", n.pods), "etcd.yaml"))
	err := machine.Poll(c.t.Context(), 50*time.Millisecond, time.Minute,
		func(context.Context) (bool, error) {
			conn, err := net.DialTimeout("tcp", strings.TrimPrefix(n.PeerURL, "http://"), time.Second)
			if err == nil {
				return true, conn.Close()
			}
			return false, nil
		})
	if err != nil {
		c.t.Fatal(err)
	}
}

// Kill is kill -9. The member is started again.
func (n *Node) Kill() { n.process.kill() }

// Stop is SIGSTOP, and Continue its end.
func (n *Node) Stop() error { return n.process.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue ends Stop.
func (n *Node) Continue() error { return n.process.cmd.Process.Signal(syscall.SIGCONT) }

// LoseData kills the member and removes its data, as a new disk would.
func (n *Node) LoseData() error {
	n.process.kill()
	return os.RemoveAll(n.DataDir())
}

// Pod is the UID of its pod; "" for none.
func (n *Node) Pod() string {
	if n.site.Pod == nil {
		return ""
	}
	return n.site.Pod.UID
}

// Refusal is why the guard has not started etcd.
func (n *Node) Refusal() seats.Refusal {
	if n.site.Pod == nil {
		return ""
	}
	return n.site.Pod.Refusal
}

// Unmount kills the member and takes its data away, as after a reboot with a disk that is not mounted yet.
func (n *Node) Unmount() error {
	n.process.kill()
	return os.Rename(n.DataDir(), n.DataDir()+"-late")
}

// Mount ends Unmount.
func (n *Node) Mount() error { return os.Rename(n.DataDir()+"-late", n.DataDir()) }

var errConflict = errors.New("the precondition does not hold")

// Note implements act.Hands. The notes go through JSON, as they do in a cluster.
func (c *Cluster) Note(_ context.Context, notes seats.Notes, version string) error {
	if version != c.Facts.NotesVersion {
		return errConflict
	}
	text, err := json.Marshal(notes)
	if err != nil {
		return err
	}
	c.writes++
	c.Facts.Notes, c.Facts.NotesVersion = seats.Notes{}, fmt.Sprint(c.writes)
	return json.Unmarshal(text, &c.Facts.Notes)
}

// written is a write to the ConfigMap.
func (c *Cluster) written(at seats.Spot) error {
	if at.ConfigVersion != c.Facts.ConfigVersion {
		return errConflict
	}
	c.writes++
	c.Facts.ConfigVersion = fmt.Sprint(c.writes)
	return nil
}

// Place implements act.Hands.
func (c *Cluster) Place(_ context.Context, at seats.Spot, conf seats.Configuration) error {
	n := c.On(at.Node)
	peers := configfile.Peers(conf.Peers)
	if len(peers) == 0 {
		peers = []configfile.Peer{{Name: conf.Name, URL: conf.PeerURL}}
	}
	text, err := configfile.Write(configfile.Settings{Name: conf.Name, DataDir: n.DataDir(), PeerURL: conf.PeerURL,
		ClientURL: conf.ClientURL, MetricsURL: n.metrics, Token: conf.Token, Peers: peers,
		New: conf.Mode == datadir.Seed, Version: conf.Version,
		Quota: c.Facts.Quota, Heartbeat: 50, Election: 500})
	if err != nil {
		return err
	}
	order, err := json.Marshal(guard.Order{Configuration: conf, File: string(text)})
	if err != nil {
		return err
	}
	if err := c.written(at); err != nil {
		return err
	}
	template := conf.Template()
	n.site.Configuration, n.site.Template, n.site.Label, n.site.Used = &conf, &template, conf.Name, conf.Name
	return os.WriteFile(filepath.Join(n.dir, "mounted"), order, 0o600)
}

// Unplace implements act.Hands.
func (c *Cluster) Unplace(_ context.Context, at seats.Spot) error {
	n := c.On(at.Node)
	if err := c.written(at); err != nil {
		return err
	}
	n.site.Label, n.site.Template, n.site.Configuration = "", nil, nil
	return nil
}

// Survey implements act.Hands. Nodes are always looked into.
func (c *Cluster) Survey(context.Context, seats.Spot) error { return nil }

// Save implements act.Hands. The pod has ended when it returns.
func (c *Cluster) Save(ctx context.Context, endpoint string, s seats.Snapshot) error {
	n := c.On(s.Node)
	taken, err := snapshot.Take(ctx, n.Snapshots(), snapshot.Config{ID: s.ID, Endpoint: endpoint,
		ClusterID: s.ClusterID.String()})
	if err != nil {
		taken.Error = err.Error()
	}
	n.site.Taken = &taken
	return err
}

// Restart implements act.Hands.
func (c *Cluster) Restart(_ context.Context, node, uid string) error {
	n := c.On(node)
	if n.site.Pod == nil || n.site.Pod.UID != uid {
		return errConflict
	}
	n.process.kill()
	n.site.Pod = nil
	return nil
}

// kubelet starts what is to run on a node and does not, and reports.
func (c *Cluster) kubelet(n *Node) error {
	n.site.Down = n.off
	if n.off {
		return nil
	}
	if n.site.Configuration == nil {
		n.process.kill()
		n.site.Pod = nil
	}
	found, err := datadir.Look(n.DataDir())
	n.site.Data = &found
	if err != nil || n.site.Configuration == nil {
		return err
	}
	paths := guard.Paths{Member: n.site.Configuration.Name, Mounted: filepath.Join(n.dir, "mounted"),
		Message: filepath.Join(n.dir, "message"), Work: filepath.Join(n.dir, fmt.Sprint("pod-", n.pods)),
		Data: n.DataDir(), Etcd: c.binary, Log: datadir.End}
	if n.site.Pod == nil {
		n.pods++
		paths.Work = filepath.Join(n.dir, fmt.Sprint("pod-", n.pods))
		if err := errors.Join(os.Mkdir(paths.Work, 0o700), guard.Take(paths)); err != nil {
			return err
		}
		n.site.Pod = &seats.Pod{UID: fmt.Sprintf("%s/%d", n.Name, n.pods), Template: *n.site.Template}
		r, err := report(paths)
		if err != nil {
			return err
		}
		n.site.Pod.Configuration, n.site.Pod.Log, n.site.Pod.Disk = &r.Configuration, r.Log, r.Found
	}
	if !n.process.runs() {
		started := guard.Start(paths, time.Now(), func(path string, args, _ []string) error {
			n.process = start(c.t, filepath.Join(n.dir, "log"), path, args[1:]...)
			return nil
		})
		r, err := report(paths)
		if err != nil || started != nil && r.Refusal == seats.Failed {
			return errors.Join(started, err)
		}
		n.site.Pod.Refusal, n.site.Pod.Message, n.site.Pod.Log, n.site.Pod.Disk = r.Refusal, r.Message, r.Log, r.Found
	}
	n.site.Pod.Ready = c.ready(n)
	return nil
}

func report(p guard.Paths) (guard.Report, error) {
	text, err := os.ReadFile(p.Message)
	r, ok := guard.Parse(string(text))
	if err == nil && !ok {
		err = fmt.Errorf("%q is no report", text)
	}
	return r, err
}

// ready is the readiness probe.
func (c *Cluster) ready(n *Node) bool {
	ctx, cancel := context.WithTimeout(c.t.Context(), 500*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.metrics+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Look is what there is.
func (c *Cluster) Look() membership.Facts {
	f := c.Facts
	f.Now, f.NewToken, f.Sites = time.Now().Add(c.Ahead), configfile.NewToken(), map[string]seats.Site{}
	for _, n := range c.Nodes {
		if err := c.kubelet(n); err != nil {
			c.t.Fatal(err)
		}
		f.Nodes = append(f.Nodes, n.Node)
		f.Sites[n.Name] = n.site
	}
	f.Look = api.LookAll(c.t.Context(), c.API, f.Ask()...)
	return f
}

// Step is one reconcile.
func (c *Cluster) Step() membership.Decision {
	d := membership.Plan(c.Look())
	if n := len(c.Rows); n == 0 || c.Rows[n-1] != d.Row {
		c.Rows = append(c.Rows, d.Row)
	}
	if err := act.Do(c.t.Context(), c.API, c, d); err != nil {
		c.Errs = append(c.Errs, fmt.Errorf("%s: %w", d.Row, err))
	}
	return d
}

// Until reconciles until a decision is as it is expected.
func (c *Cluster) Until(what string, done func(membership.Decision) bool) membership.Decision {
	c.t.Helper()
	var last membership.Decision
	err := machine.Poll(c.t.Context(), 100*time.Millisecond, 2*time.Minute,
		func(context.Context) (bool, error) {
			last = c.Step()
			return done(last), nil
		})
	if err != nil {
		c.t.Fatalf("%s: %v; row %s, step %s, hold %+v; rows %v; errors %v", what, err, last.Row, last.Step, last.Hold,
			c.Rows, c.Errs[max(0, len(c.Errs)-5):])
	}
	return last
}

// Rest reconciles until nothing is left to be done.
func (c *Cluster) Rest() membership.Decision {
	c.t.Helper()
	return c.Until("rest", func(d membership.Decision) bool { return d.Step == membership.Rest })
}

// Later reconciles, with a clock that is set forward to the end of each wait, until a decision is as it is expected.
func (c *Cluster) Later(what string, done func(membership.Decision) bool) membership.Decision {
	c.t.Helper()
	return c.Until(what, func(d membership.Decision) bool {
		if d.Step == membership.Wait {
			c.Ahead = max(c.Ahead, time.Until(d.Until))
		}
		return done(d)
	})
}

// Hold reconciles, as Later does, until a human is called.
func (c *Cluster) Hold(reason membership.Reason) *membership.Hold {
	c.t.Helper()
	return c.Later(string(reason), func(d membership.Decision) bool {
		return d.Hold != nil && d.Hold.Reason == reason
	}).Hold
}
