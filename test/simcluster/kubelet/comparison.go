package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/restore/compare"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
)

// Containers in which a script lists what lies on a node, and the operator's program serves that and compares a backup
// with it.
const (
	ListVolumes   = "list-volumes"
	ServeListing  = "serve-listing"
	CompareBackup = "compare-backup"
)

// listingFile is the one in the directory that both containers of a listing share.
const listingFile = "listing"

func beginComparison(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	if c.Name == CompareBackup {
		return beginCompare(ctx, d, run, pod, c)
	}
	dir, err := run.emptyDir()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, listingFile)
	if c.Name == ListVolumes { // sh -c <script> <name> <directory>…
		text := d.opts.Machines.Listing(run.node, c.Command[min(4, len(c.Command)):]...)
		return endedTask{}, os.WriteFile(file, []byte(text), 0o600)
	}
	if len(c.Args) != 4 {
		return endedTask{exit{code: 1, message: fmt.Sprintf("arguments %q are not simulated", c.Args)}}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.served[net.JoinHostPort(run.podIP, strconv.Itoa(listing.Port))] = l.Addr().String()
	d.mu.Unlock()
	return beginProgram(d, run, func(ctx context.Context) exit {
		return failed(listing.Serve(ctx, l, file, c.Args[3]))
	}), nil
}

func beginCompare(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	if len(c.Args) < 2 {
		return endedTask{exit{code: 1, message: fmt.Sprintf("arguments %q are not simulated", c.Args)}}, nil
	}
	config, err := compare.ParseConfig(c.Args[1])
	if err != nil {
		return endedTask{failed(err)}, nil
	}
	config.Machines = compare.Machines{}
	for i := 3; i < len(c.Args); i += 2 { // --compare-backup <config> [--compare-node|--compare-address <node>]…
		set := map[string]func(string) error{"--compare-node": config.SetNode,
			"--compare-address": config.Machines.Set}[c.Args[i-1]]
		if err := set(c.Args[i]); err != nil {
			return endedTask{failed(err)}, nil
		}
	}
	dir, err := place(ctx, d, pod, c, &config.Store, &config.Credentials)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	for node, address := range config.Nodes {
		config.Nodes[node] = d.served[address]
	}
	d.mu.Unlock()
	return beginProgram(d, run, func(ctx context.Context) exit {
		defer func() { _ = os.RemoveAll(dir) }()
		result, err := compare.Run(ctx, config, io.Discard)
		if err != nil {
			return failed(err)
		}
		return noted(result.Note())
	}), nil
}
