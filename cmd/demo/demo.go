package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// patience bounds each wait of the demo.
const patience = 3 * time.Minute

type demo struct {
	out  io.Writer
	exit bool
	dir  string

	cluster *simcluster.Cluster
	// building is nil once the sidecars of the CSI driver exist.
	building *sidecars
	started  time.Time
	printed  v1alpha1.Transition
	// backup is the ID of the backup that was taken.
	backup string
}

// manifests are what an installation applies, in its order.
var manifests = []string{"deploy/crds", "deploy/operator.yaml", "deploy/protection.yaml"}

// sample is the manifest that an administrator applies, from the repository's root.
const sample = "deploy/samples/storagecluster.yaml"

func (d *demo) run(ctx context.Context, scenario string) error {
	play, ok := scenarios[scenario]
	if !ok {
		return fmt.Errorf("unknown SCENARIO=%q: use install, human-intervention, node-loss, upgrade, evacuate, volumes, "+
			"failover, backup or etcd", scenario)
	}
	if d.dir == "" {
		d.dir = filepath.Join(".cache", "demo")
	}
	bin, err := kubebin.Ensure(ctx, kubebin.Options{Log: d.out})
	if err != nil {
		return err
	}
	if err := d.prepare(); err != nil {
		return err
	}
	nodes := play.nodes()
	if play.etcd {
		if err := simcluster.EtcdAddresses(nodes); err != nil {
			return err
		}
	}
	d.say("Starting etcd, the API server, controller manager, scheduler and %d simulated nodes …", len(nodes))
	d.cluster, err = simcluster.Start(ctx, simcluster.Options{Dir: d.dir, BinDir: bin, Nodes: nodes,
		PodStart: 1500 * time.Millisecond, VolumeDriver: true, SidecarsLater: true})
	if err != nil {
		return err
	}
	defer d.cluster.Stop()
	d.say("$ kubectl apply --server-side -f %s", strings.Join(manifests, " -f "))
	if err := d.cluster.ApplyFile(ctx, manifests...); err != nil {
		return err
	}
	var flags []string
	if play.etcd {
		if flags, err = (etcdDemo{d}).flags(nodes); err != nil {
			return err
		}
	}
	stop, err := d.startOperator(ctx, flags...)
	if err != nil {
		return err
	}
	defer stop()
	if d.building, err = buildSidecars(ctx, d.out); err != nil {
		return err
	}
	if err := play.run(ctx, d); err != nil {
		return d.explain(err)
	}
	if d.exit {
		return nil
	}
	sayHowToLook(d.out, d.cluster.Kubeconfig(), bin, d.operatorLog())
	<-ctx.Done()
	return ctx.Err()
}

// sayHowToLook says what to type to look at the cluster, with the directory of kubectl and the operator's log.
func sayHowToLook(out io.Writer, kubeconfig, bin, log string) {
	fmt.Fprintf(out, `
The cluster keeps running. In another terminal:

  export KUBECONFIG=%s PATH=%s:$PATH
  kubectl describe storagecluster linstor
  kubectl -n linstor-storage get pods
  tail -f %s      # the demo does not run containers, so kubectl logs shows nothing

Press Ctrl-C to stop the cluster and everything that the demo has started.
`, quote(kubeconfig), quote(bin), quote(log))
}

// operatorLog is what the operator writes.
func (d *demo) operatorLog() string { return filepath.Join(d.dir, "operator.log") }

// prepare empties the demo's directory. Only a directory that a demo made is emptied.
func (d *demo) prepare() error {
	abs, err := filepath.Abs(d.dir)
	if err != nil {
		return err
	}
	d.dir = abs
	mark := filepath.Join(d.dir, ".demo")
	if entries, err := os.ReadDir(d.dir); err == nil && len(entries) > 0 {
		if _, err := os.Stat(mark); err != nil {
			return fmt.Errorf("directory %s is not empty and was not created by the demo", d.dir)
		}
		if err := os.RemoveAll(d.dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o644)
}

// startOperator builds the operator and runs it as the ServiceAccount of deploy/operator.yaml. In a real cluster its
// pods do that; here there are no containers.
func (d *demo) startOperator(ctx context.Context, flags ...string) (func(), error) {
	d.say("Building the operator and starting it as ServiceAccount %s/storagecluster-operator …",
		v1alpha1.OperatorNamespace)
	binary := filepath.Join(d.dir, "operator")
	// With the flags of the demo (GOFLAGS): most of its packages were compiled for that a moment ago.
	build := gobin.Compilation{Package: "./cmd/operator", Out: binary, Log: d.out}
	if err := build.Run(ctx); err != nil {
		return nil, fmt.Errorf("build the operator: %w", err)
	}
	kubeconfig, err := d.cluster.ServiceAccountKubeconfig(ctx, v1alpha1.OperatorNamespace, "storagecluster-operator")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(d.operatorLog())
	if err != nil {
		return nil, err
	}
	plain, locked := simcluster.LinstorPorts(d.cluster)
	cmd := exec.Command(binary, append([]string{"--linstor-endpoint=" + plain, "--linstor-locked-endpoint=" + locked,
		"--leader-elect",
		"--poll-working=500ms", "--poll-steady=2s", "--health-lost-after=3s", "--health-regained-after=3s",
		"--retry-base=500ms", "--straggler-timeout=20s", "--leave-after=1s", "--leave-settle-after=3s",
		"--image=example.com/storagecluster-operator:demo"}, flags...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
	}, nil
}

// explain adds what a user needs to find out why the demo failed.
func (d *demo) explain(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if out, describeErr := d.cluster.Kubectl(ctx, "describe", "storagecluster",
		v1alpha1.ClusterName); describeErr == nil {
		fmt.Fprintln(d.out, out)
	}
	if log, readErr := os.ReadFile(d.operatorLog()); readErr == nil {
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		fmt.Fprintln(d.out, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return err
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// kubectl runs kubectl and shows command and output as in a terminal.
func (d *demo) kubectl(ctx context.Context, args ...string) error {
	d.say("\n$ %s", commandLine("kubectl", args...))
	out, err := d.cluster.Kubectl(ctx, args...)
	fmt.Fprint(d.out, out)
	return err
}

// applyWithDriver applies a manifest once the sidecars of the CSI driver exist.
func (d *demo) applyWithDriver(ctx context.Context, path string) error {
	if d.building != nil {
		d.say("\nWaiting for the CSI sidecars to be compiled …")
		if err := d.awaitSidecars(); err != nil {
			return err
		}
	}
	return d.apply(ctx, path)
}

// apply applies a manifest of the cluster.
func (d *demo) apply(ctx context.Context, path string) error {
	d.started = time.Now()
	return d.kubectl(ctx, "apply", "--server-side", "-f", path)
}

// waitPhase waits for a phase and prints the transitions that pass meanwhile. A hold is an error unless it is waited
// for.
func (d *demo) waitPhase(ctx context.Context, want v1alpha1.Phase) (*v1alpha1.StorageCluster, error) {
	return d.wait(ctx, "phase "+string(want), func(c *v1alpha1.StorageCluster) (bool, error) {
		if h := c.Status.Hold; h != nil && want != v1alpha1.PhaseHumanIntervention {
			return false, fmt.Errorf("%s: %s", h.Reason, h.Message)
		}
		if want == v1alpha1.PhaseReady && c.Status.AcceptedGeneration != c.Generation {
			return false, nil // Ready with the previous spec
		}
		return c.Status.Phase == want, nil
	})
}

func (d *demo) wait(ctx context.Context, what string,
	done func(*v1alpha1.StorageCluster) (bool, error)) (*v1alpha1.StorageCluster, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("waiting for %s: timed out after %s", what, patience))
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		c := &v1alpha1.StorageCluster{}
		err := d.cluster.Client().Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c)
		if err == nil {
			d.transitions(c)
			if ok, err := done(c); ok || err != nil {
				return c, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// news are the entries of a history, the newest first, that were not printed yet.
func (d *demo) news(history []v1alpha1.Transition) []v1alpha1.Transition {
	if i := slices.Index(history, d.printed); i >= 0 {
		history = history[:i]
	}
	if len(history) > 0 {
		d.printed = history[0]
	}
	return history
}

// transitions prints what is new in the history.
func (d *demo) transitions(c *v1alpha1.StorageCluster) {
	for _, h := range slices.Backward(d.news(c.Status.History)) {
		fmt.Fprintf(d.out, "%6.1fs  %-18s %s\n", time.Since(d.started).Seconds(), h.To, because(c, &h))
	}
}

// because says why a phase began. The history names but the id of a hold, and leaves what a phase has brought about to
// the condition of its link: a reader of the demo's lines has neither in sight.
func because(c *v1alpha1.StorageCluster, h *v1alpha1.Transition) string {
	if hold := c.Status.Hold; hold != nil && h.To == v1alpha1.PhaseHumanIntervention &&
		strings.Contains(h.Message, hold.ID) {
		return hold.Message
	}
	return cmp.Or(h.Message, reached(c, h.From))
}

// reached is what the condition of a phase's link says.
func reached(c *v1alpha1.StorageCluster, p v1alpha1.Phase) string {
	if l, ok := phases.LinkOf(fsm.State(p)); ok {
		if cond := meta.FindStatusCondition(c.Status.Conditions, l.Condition); cond != nil {
			return cond.Message
		}
	}
	return ""
}

// show prints what an administrator looks at.
func (d *demo) show(ctx context.Context) error {
	if err := d.kubectl(ctx, "get", "storagecluster"); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "get", "storagecluster", "-o", "wide"); err != nil {
		return err
	}
	return d.kubectl(ctx, "describe", "storagecluster", v1alpha1.ClusterName)
}

// demoNodes is how many nodes the demo has.
const demoNodes = 3

func hardware(i int, signature string) sim.MachineSpec {
	return sim.MachineSpec{
		Disks: []sim.Disk{
			{Name: "sda", SizeBytes: 120 << 30, Model: "SAMSUNG MZ7LH", Serial: fmt.Sprintf("OS-%03d", i),
				WWN: fmt.Sprintf("0x5002538e0000%04d", i), Signature: "gpt"},
			{Name: "sdb", SizeBytes: 960 << 30, Model: "SAMSUNG MZQLB", Serial: fmt.Sprintf("S4EVNX%03d", i),
				WWN: fmt.Sprintf("0x5002538e1111%04d", i), Signature: signature},
		},
		VolumeGroups: []sim.VolumeGroup{{Name: "vg_ssd", SizeKiB: 400 << 20,
			ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 380 << 20}}}},
	}
}

func specs(signature func(i int) string, vg bool) []simcluster.NodeSpec {
	var out []simcluster.NodeSpec
	for i := 1; i <= demoNodes; i++ {
		out = append(out, spec(i, signature(i), vg))
	}
	return out
}

// spec is node-i; vg reports whether it has the sample's volume group.
func spec(i int, signature string, vg bool) simcluster.NodeSpec {
	m := hardware(i, signature)
	if !vg {
		m.VolumeGroups = nil
	}
	return simcluster.NodeSpec{Name: fmt.Sprintf("node-%d", i), Machine: m,
		Labels: map[string]string{"example.com/storage": "true"}}
}
