package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/bound"
)

// bench is a run.
type bench struct {
	options
	report  report
	world   *sim.World
	cluster *simcluster.Cluster
	cmd     *exec.Cmd
	log     *os.File
}

// poolEntries are entries of spec.storagePools; the machines have what they name.
var poolEntries = []string{
	"{name: ssd, lvmThin: {volumeGroup: vg, thinPool: thin}}",
	"{name: hdd, lvm: {volumeGroup: vg}}",
	"{name: tank, zfsThin: {zpool: tank}}",
}

// class is the StorageClass of which there are volumes, and pool the pool that they lie in.
const class, pool = "replicated", "ssd"

// operatorUser is who the operator is to the API server.
const operatorUser = "system:serviceaccount:" + v1alpha1.OperatorNamespace + ":storagecluster-operator"

func node(i int) simcluster.NodeSpec {
	return simcluster.NodeSpec{Name: fmt.Sprintf("node-%05d", i), Machine: sim.MachineSpec{
		VolumeGroups: []sim.VolumeGroup{{Name: "vg", SizeKiB: 200 << 20,
			ThinPools: []sim.ThinPool{{Name: "thin", SizeKiB: 100 << 20}}}},
		ZPools: []sim.ZPool{{Name: "tank", SizeKiB: 300 << 20}},
	}}
}

func start(ctx context.Context, o options) (*bench, error) {
	b := &bench{options: o, world: sim.NewWorld(sim.Options{WriteLatency: o.latency})}
	specs := make([]simcluster.NodeSpec, o.nodes)
	for i := range specs {
		specs[i] = node(i)
	}
	var err error
	b.cluster, err = simcluster.Start(ctx, simcluster.Options{Nodes: specs, World: b.world, PodStart: o.podStart,
		PodSpread: o.podSpread, AuditLog: true, VolumeDriver: o.canary})
	if err != nil {
		b.world.Close()
		return nil, err
	}
	if err := b.cluster.ApplyFile(ctx, "deploy/crds", "deploy/operator.yaml", "deploy/protection.yaml"); err != nil {
		b.stop()
		return nil, err
	}
	b.report = report{Nodes: o.nodes, Pools: o.pools, Canary: o.canary, Volumes: o.volumes,
		PodStart: o.podStart.String(), PodSpread: o.podSpread.String(), LinstorLatency: o.latency.String(),
		Machine: machine()}
	return b, nil
}

func (b *bench) stop() {
	if b.cmd != nil {
		_ = b.cmd.Process.Signal(syscall.SIGTERM)
		_ = b.cmd.Wait()
	}
	if b.log != nil {
		_ = b.log.Close()
	}
	b.cluster.Stop()
	b.world.Close()
}

// startOperator runs the operator as a process of its own, so that its memory and time are nobody else's.
func (b *bench) startOperator(ctx context.Context) error {
	binary := filepath.Join(b.cluster.Dir(), "operator")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary,
		"./cmd/operator").CombinedOutput(); err != nil {
		return fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	kubeconfig, err := b.cluster.ServiceAccountKubeconfig(ctx, v1alpha1.OperatorNamespace, "storagecluster-operator")
	if err != nil {
		return err
	}
	b.cmd = exec.Command(binary, "--linstor-endpoint="+b.cluster.LinstorURL(), "--leader-elect",
		"--pprof-bind-address="+b.pprof)
	b.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	if b.options.log != "" {
		if b.log, err = os.Create(b.options.log); err != nil {
			return err
		}
		b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	}
	if err := bound.Start(b.cmd); err != nil {
		b.cmd = nil
		return fmt.Errorf("start the operator: %w", err)
	}
	return nil
}

// apply applies the StorageCluster.
func (b *bench) apply(ctx context.Context) error {
	file := filepath.Join(b.cluster.Dir(), "storagecluster.yaml")
	manifest := "apiVersion: storage.linstor.dev/v1alpha1\nkind: StorageCluster\nmetadata: {name: linstor}\nspec:\n  " +
		"tls: {mode: Disabled}\n  storagePools: [" +
		strings.Join(poolEntries[:b.pools], ", ") + "]\n"
	if b.canary {
		manifest += "  volumes: {storageClasses: [{name: " + class + ", storagePools: [" + pool + "], default: true}]}\n"
	}
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		return err
	}
	_, err := b.cluster.Kubectl(ctx, "apply", "-f", file)
	return err
}

// until waits for the StorageCluster's status.
func (b *bench) until(ctx context.Context, what string, good func(*v1alpha1.StorageClusterStatus) bool) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, b.patience, true,
		func(ctx context.Context) (bool, error) {
			var c v1alpha1.StorageCluster
			if err := b.cluster.Client().Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, &c); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			if c.Status.Hold != nil {
				return false, fmt.Errorf("hold %s: %s", c.Status.Hold.Reason, c.Status.Hold.Message)
			}
			return good(&c.Status), nil
		})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// explain is what kubectl says of the object, as an error.
func (b *bench) explain() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, _ := b.cluster.Kubectl(ctx, "describe", "storagecluster", v1alpha1.ClusterName)
	return fmt.Errorf("%s", out)
}
