// Command bench measures the operator on the simulated cluster, in one run: how long it takes from apply to Ready
// against the time that the same pods need without it, what it asks and writes meanwhile, what it does at rest, and
// what a node costs that joins or dies. Its last line on standard output is one JSON object; see docs/performance.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options say what is measured.
type options struct {
	nodes, pools int
	canary       bool
	volumes      int
	podStart     time.Duration
	podSpread    time.Duration
	latency      time.Duration
	idle         time.Duration
	patience     time.Duration
	timeline     time.Duration
	log, pprof   string
}

func main() {
	var o options
	flag.IntVar(&o.nodes, "nodes", 100, "number of nodes")
	flag.IntVar(&o.pools, "pools", 1, "storage pools on each node, 1 to 3")
	flag.BoolVar(&o.canary, "canary", false,
		"let the CSI driver work, with one StorageClass, a volume of which is tried before the cluster is Ready")
	flag.IntVar(&o.volumes, "volumes", 0, "volumes with up to three copies each that the cluster at rest has")
	flag.DurationVar(&o.podStart, "pod-start", 0, "time from a pod's binding to its start, as for an image pull")
	flag.DurationVar(&o.podSpread, "pod-spread", 0, "what chance adds to that at most")
	flag.DurationVar(&o.latency, "linstor-latency", 0,
		"time that each write to LINSTOR takes; writes then wait for each other, as under LINSTOR's lock")
	flag.DurationVar(&o.idle, "idle", 3*time.Minute, "how long the cluster at rest is watched")
	flag.DurationVar(&o.patience, "patience", 30*time.Minute, "bound of each wait")
	flag.StringVar(&o.log, "operator-log", "", "file for the operator's log; none by default")
	flag.StringVar(&o.pprof, "operator-pprof", "0", "address at which the operator serves Go's profiles; 0 for none")
	flag.DurationVar(&o.timeline, "timeline", 0, "how often it is printed how far the installation is; 0 for never")
	asTable := flag.Bool("table", false, "measure nothing: read results, one JSON object each, and write them as a table")
	flag.Parse()
	if *asTable {
		if err := table(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := measure(ctx, o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// measure runs all parts on one cluster.
func measure(ctx context.Context, o options) (*report, error) {
	if o.nodes < 2 || o.pools < 1 || o.pools > len(poolEntries) {
		return nil, fmt.Errorf("-nodes must be at least 2, -pools 1 to %d", len(poolEntries))
	}
	b, err := start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer b.stop()
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"floor", b.floor}, {"install", b.install}, {"volumes", b.makeVolumes}, {"idle", b.idle}, {"join", b.join},
		{"death", b.death},
	} {
		began := time.Now()
		if err := part.run(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", part.name, err), b.explain())
		}
		fmt.Fprintf(os.Stderr, "bench: %s done after %s\n", part.name, time.Since(began).Round(100*time.Millisecond))
	}
	return &b.report, nil
}
