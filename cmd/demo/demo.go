package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// patience bounds each wait of the demo.
const patience = 3 * time.Minute

type demo struct {
	out  io.Writer
	exit bool
	dir  string

	cluster *simcluster.Cluster
	started time.Time
	printed int
}

// sample is the manifest that an administrator applies, from the repository's root.
const sample = "deploy/samples/storagecluster.yaml"

func (d *demo) run(ctx context.Context, scenario string) error {
	play, ok := scenarios[scenario]
	if !ok {
		return fmt.Errorf("SCENARIO=%q: there are install, human-intervention, node-loss, upgrade and evacuate", scenario)
	}
	if d.dir == "" {
		d.dir = filepath.Join(".cache", "demo")
	}
	d.say("Building the control plane's binaries, if they are not there yet (some minutes, once) …")
	bin, err := kubebin.Ensure(ctx, kubebin.Options{Log: d.out})
	if err != nil {
		return err
	}
	if err := d.prepare(); err != nil {
		return err
	}
	nodes := play.nodes()
	d.say("Starting etcd, API server, controller manager, scheduler and %d simulated nodes …", len(nodes))
	d.cluster, err = simcluster.Start(ctx, simcluster.Options{Dir: d.dir, BinDir: bin, Nodes: nodes, PodStart: 1500 * time.Millisecond})
	if err != nil {
		return err
	}
	defer d.cluster.Stop()
	d.say("$ kubectl apply -f deploy/crds -f deploy/operator.yaml")
	if err := d.cluster.ApplyFile(ctx, "deploy/crds", "deploy/operator.yaml"); err != nil {
		return err
	}
	stop, err := d.startOperator(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := play.run(ctx, d); err != nil {
		return d.explain(err)
	}
	if d.exit {
		return nil
	}
	d.say("\nThe cluster stays up. In another terminal:\n\n  export KUBECONFIG=%s PATH=%s:$PATH\n  kubectl describe storagecluster linstor\n", d.cluster.Kubeconfig(), bin)
	d.say("Ctrl-C stops it and all that it started.")
	<-ctx.Done()
	return ctx.Err()
}

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
			return fmt.Errorf("directory %s is not empty and was not made by the demo", d.dir)
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

// startOperator builds the operator and runs it as the ServiceAccount of deploy/operator.yaml. In a real cluster its pods do
// that; here there are no containers.
func (d *demo) startOperator(ctx context.Context) (func(), error) {
	d.say("Building and starting the operator, as ServiceAccount %s/storagecluster-operator …", v1alpha1.OperatorNamespace)
	binary := filepath.Join(d.dir, "operator")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/operator")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	kubeconfig, err := d.cluster.ServiceAccountKubeconfig(ctx, v1alpha1.OperatorNamespace, "storagecluster-operator")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(d.dir, "operator.log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "--linstor-endpoint="+d.cluster.LinstorURL(), "--leader-elect", "--poll-working=500ms", "--poll-steady=2s",
		"--health-lost-after=3s", "--health-regained-after=3s", "--retry-base=500ms", "--straggler-timeout=20s",
		"--leave-after=3s")
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
	if out, describeErr := d.cluster.Kubectl(ctx, "describe", "storagecluster", v1alpha1.ClusterName); describeErr == nil {
		fmt.Fprintln(d.out, out)
	}
	if log, readErr := os.ReadFile(filepath.Join(d.dir, "operator.log")); readErr == nil {
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		fmt.Fprintln(d.out, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return err
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// kubectl runs kubectl and shows command and output as in a terminal.
func (d *demo) kubectl(ctx context.Context, args ...string) error {
	d.say("\n$ kubectl %s", strings.Join(args, " "))
	out, err := d.cluster.Kubectl(ctx, args...)
	fmt.Fprint(d.out, out)
	return err
}

// apply applies the sample.
func (d *demo) apply(ctx context.Context, path string) error {
	d.started = time.Now()
	d.printed = 0
	return d.kubectl(ctx, "apply", "-f", path)
}

// waitPhase waits for a phase and prints the transitions that pass meanwhile. A hold is an error unless it is waited for.
func (d *demo) waitPhase(ctx context.Context, want v1alpha1.Phase) (*v1alpha1.StorageCluster, error) {
	return d.wait(ctx, "phase "+string(want), func(c *v1alpha1.StorageCluster) (bool, error) {
		if h := c.Status.Hold; h != nil && want != v1alpha1.PhaseHumanIntervention {
			return false, fmt.Errorf("%s: %s", h.Reason, h.Message)
		}
		return c.Status.Phase == want, nil
	})
}

func (d *demo) wait(ctx context.Context, what string, done func(*v1alpha1.StorageCluster) (bool, error)) (*v1alpha1.StorageCluster, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s: not within %s", what, patience))
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

// transitions prints what is new in the history.
func (d *demo) transitions(c *v1alpha1.StorageCluster) {
	for d.printed < len(c.Status.History) {
		h := c.Status.History[len(c.Status.History)-1-d.printed]
		d.printed++
		fmt.Fprintf(d.out, "%6.1fs  %-18s %s\n", time.Since(d.started).Seconds(), h.To, h.Message)
	}
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
			{Name: "sda", SizeBytes: 120 << 30, Model: "SAMSUNG MZ7LH", Serial: fmt.Sprintf("OS-%03d", i), WWN: fmt.Sprintf("0x5002538e0000%04d", i), Signature: "gpt"},
			{Name: "sdb", SizeBytes: 960 << 30, Model: "SAMSUNG MZQLB", Serial: fmt.Sprintf("S4EVNX%03d", i), WWN: fmt.Sprintf("0x5002538e1111%04d", i), Signature: signature},
		},
		VolumeGroups: []sim.VolumeGroup{{Name: "vg_ssd", SizeKiB: 400 << 20, ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 380 << 20}}}},
	}
}

func specs(signature func(i int) string, vg bool) []simcluster.NodeSpec {
	var out []simcluster.NodeSpec
	for i := 1; i <= demoNodes; i++ {
		out = append(out, spec(i, signature(i), vg))
	}
	return out
}

// spec is node-i; vg is whether it has the sample's volume group.
func spec(i int, signature string, vg bool) simcluster.NodeSpec {
	m := hardware(i, signature)
	if !vg {
		m.VolumeGroups = nil
	}
	return simcluster.NodeSpec{Name: fmt.Sprintf("node-%d", i), Machine: m, Labels: map[string]string{"example.com/storage": "true"}}
}
