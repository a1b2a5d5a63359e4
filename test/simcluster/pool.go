package simcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/controlplane"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// restoreTimeout bounds what putting a control plane's state back may take; it takes a second on a busy machine.
const restoreTimeout = 30 * time.Second

// memoryLimit of each component. A plane that is used again and again would otherwise grow to several times of what it
// needs, and there are as many as tests run at a time.
const memoryLimit = "1GiB"

// Pool lends control planes to clusters, see Options.Pool. To start one costs some seconds of processor, to put back
// the state that it was in before a cluster used it a tenth of that: a plane that comes back is used again. What one
// cluster leaves behind, the next does not see; its API server, controllers and their caches are the same ones.
//
// A plane is stopped and not used again
//   - if a component of it was killed, or it does not come to rest;
//   - if the cluster changed what the API server itself decides by: rights, definitions of resources, admission. The
//     API server reads that in the background, and nothing shows when it has taken up that all is as before.
type Pool struct {
	opts PoolOptions

	mu    sync.Mutex
	dir   string // holds a directory for each plane
	next  int
	free  []*pooled
	taken map[*pooled]bool
}

// PoolOptions are what the planes of a pool have in common.
type PoolOptions struct {
	// BinDir and Log are as in Options.
	BinDir string
	Log    io.Writer
	// AuditLog is as in Options. A cluster's AuditEvents begin with its own.
	AuditLog bool
	// Prepare makes what all clusters find: it gets a cluster without nodes. Nothing of it may lead to pods.
	Prepare func(context.Context, *Cluster) error
}

// pooled is a control plane of a pool.
type pooled struct {
	*controlplane.ControlPlane
	state *controlplane.State
}

// NewPool is an empty pool: a control plane is started when a cluster wants one and none is free.
func NewPool(o PoolOptions) *Pool {
	if o.Log == nil {
		o.Log = io.Discard
	}
	return &Pool{opts: o, taken: map[*pooled]bool{}}
}

// Close stops all control planes, those that clusters still use as well.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, plane := range p.free {
		errs = append(errs, plane.Stop())
	}
	for plane := range p.taken {
		errs = append(errs, plane.Stop())
	}
	p.free = nil
	clear(p.taken)
	if p.dir != "" {
		errs = append(errs, os.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}

// lend gives a cluster its plane, and takes that back when the cluster stops.
func (p *Pool) lend(ctx context.Context, c *Cluster) error {
	lent, err := p.take(ctx)
	if err != nil {
		return err
	}
	c.onStop(func() error { return p.giveBack(lent, c.killed) })
	c.plane, c.opts.BinDir, c.opts.AuditLog = lent.ControlPlane, lent.BinDir(), p.opts.AuditLog
	return StartAudit(c)
}

// take is a plane that came back, or a new one.
func (p *Pool) take(ctx context.Context) (*pooled, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		plane := p.free[n-1]
		p.free = p.free[:n-1]
		p.taken[plane] = true
		p.mu.Unlock()
		return plane, nil
	}
	dir, err := p.newDir()
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	plane, err := p.boot(ctx, dir)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken[plane] = true
	return plane, nil
}

// newDir is where the next plane has its files. The mutex is held.
func (p *Pool) newDir() (string, error) {
	if p.dir == "" {
		dir, err := os.MkdirTemp("", "planes-")
		if err != nil {
			return "", fmt.Errorf("create a directory for control planes: %w", err)
		}
		p.dir = dir
	}
	p.next++
	return filepath.Join(p.dir, strconv.Itoa(p.next)), nil
}

// boot starts a plane, prepares it and notes its state.
func (p *Pool) boot(ctx context.Context, dir string) (*pooled, error) {
	bin := p.opts.BinDir
	if bin == "" {
		var err error
		if bin, err = kubebin.Ensure(ctx, kubebin.Options{Log: os.Stderr}); err != nil {
			return nil, err
		}
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, BinDir: bin, Log: p.opts.Log,
		AuditLog: p.opts.AuditLog, MemoryLimit: memoryLimit})
	if err != nil {
		return nil, err
	}
	state, err := p.prepare(ctx, plane)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare a control plane: %w", err), plane.Stop())
	}
	return &pooled{plane, state}, nil
}

func (p *Pool) prepare(ctx context.Context, plane *controlplane.ControlPlane) (*controlplane.State, error) {
	if p.opts.Prepare != nil {
		c := &Cluster{plane: plane, opts: Options{Dir: plane.Dir(), BinDir: plane.BinDir()}}
		if err := c.connect(ctx); err != nil {
			return nil, err
		}
		if err := p.opts.Prepare(ctx, c); err != nil {
			return nil, err
		}
	}
	return plane.Note(ctx)
}

// giveBack puts the plane's state back, so that the next cluster can have it. A plane for which that does not work is
// stopped.
func (p *Pool) giveBack(plane *pooled, broken bool) error {
	why := "a component of it was killed"
	if !broken {
		ctx, cancel := machine.WithTimeout(context.Background(), restoreTimeout)
		defer cancel()
		why = plane.restore(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.taken[plane] { // the pool was closed
		return nil
	}
	delete(p.taken, plane)
	if why == "" {
		p.free = append(p.free, plane)
		return nil
	}
	fmt.Fprintf(p.opts.Log, "the control plane %s is not used again: %s\n", plane.Host(), why)
	return errors.Join(plane.Stop(), os.RemoveAll(plane.Dir()))
}

// restore puts the state back. It returns why the plane cannot be used again; "" if it can.
func (p *pooled) restore(ctx context.Context) string {
	if alive := len(p.PIDs()); alive < components {
		return fmt.Sprintf("%d of %d components run", alive, components)
	}
	keys, err := p.Restore(ctx, p.state)
	if err != nil {
		return err.Error()
	}
	for _, key := range keys {
		if decidesBy(key) {
			return key + " was changed"
		}
	}
	return ""
}

// components of a control plane.
const components = 5

// decidesBy reports whether the API server answers requests by what is under this key of etcd.
func decidesBy(key string) bool {
	for _, kind := range []string{
		"roles", "rolebindings", "clusterroles", "clusterrolebindings",
		"apiextensions.k8s.io", "apiregistration.k8s.io",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
		"flowschemas", "prioritylevelconfigurations",
	} {
		if strings.HasPrefix(key, "/registry/"+kind+"/") {
			return true
		}
	}
	return false
}
