// Command operator runs the StorageCluster operator.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // memory is dearer than time to a process that rests nearly always
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func run() error {
	o := operator.Options{Timing: phases.DefaultTiming()}
	level := zapcore.InfoLevel
	bindFlags(flag.CommandLine, &o, &level)
	catalogueFile := flag.String("catalogue", "", "file that extends the catalogue of LINSTOR releases; it may be absent")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	zc := zap.NewProductionConfig()
	zc.Level = zap.NewAtomicLevelAt(level)
	zc.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	zl, err := zc.Build()
	if err != nil {
		return fmt.Errorf("build the logger: %w", err)
	}
	ctrl.SetLogger(zapr.NewLogger(zl))
	if o.Catalogue, err = loadCatalogue(*catalogueFile); err != nil {
		return err
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	mgr, err := operator.New(cfg, o)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version, "linstor", o.LinstorEndpoint)
	return mgr.Start(ctrl.SetupSignalHandler())
}

// loadCatalogue extends the embedded catalogue by a file. The file comes from an optional ConfigMap, so it may be absent;
// one that is there and wrong stops the operator, because ignoring it could run another image than the one it names.
func loadCatalogue(path string) (*catalogue.Catalogue, error) {
	c := catalogue.Embedded()
	if path == "" {
		return c, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	return c.Extend(text)
}

func bindFlags(fs *flag.FlagSet, o *operator.Options, level *zapcore.Level) {
	fs.StringVar(&o.LinstorEndpoint, "linstor-endpoint", operator.DefaultEndpoint, "URL of LINSTOR's API")
	fs.StringVar(&o.MetricsAddress, "metrics-bind-address", "0", "address for metrics over TLS; 0 for none")
	fs.StringVar(&o.ProbeAddress, "health-probe-bind-address", "0", "address for /healthz and /readyz; 0 for none")
	fs.StringVar(&o.PprofAddress, "pprof-bind-address", "0", "address for Go's profiles, which anybody who reaches it may read: loopback; 0 for none")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "take turns with other replicas")
	fs.DurationVar(&o.LeaseDuration, "lease-duration", 0, "how long a leader that died is waited for (default 15s)")
	fs.IntVar(&o.Parallel, "linstor-writes", 8, "how many writes to LINSTOR run at once")
	fs.DurationVar(&o.RetryBase, "retry-base", 0, "first back-off of a failed write to LINSTOR (default 1s)")
	fs.DurationVar(&o.RetryMax, "retry-max", 0, "longest back-off of a failed write to LINSTOR (default 5m)")
	fs.Var(level, "log-level", "debug, info, warn or error")
	t := &o.Timing
	fs.DurationVar(&t.Straggler, "straggler-timeout", t.Straggler, "how long a phase waits for the last nodes once enough are through")
	fs.DurationVar(&t.HealthLost, "health-lost-after", t.HealthLost, "how long trouble lasts before Ready becomes Degraded")
	fs.DurationVar(&t.HealthRegained, "health-regained-after", t.HealthRegained, "how long all is well before Degraded becomes Ready")
	fs.DurationVar(&t.Join, "join-timeout", t.Join, "how long a new node may take before it counts as trouble")
	fs.DurationVar(&t.Escalate, "escalate-after", t.Escalate, "how long controller or database may be away before a human is asked")
	fs.DurationVar(&t.PollWorking, "poll-working", t.PollWorking, "how often LINSTOR is looked at while something is being done")
	fs.DurationVar(&t.PollSteady, "poll-steady", t.PollSteady, "how often LINSTOR is looked at otherwise, and the longest that a failed reconcile waits for its next try")
	fs.DurationVar(&t.Safety, "poll-safety", t.Safety, "how often an object that must not be touched is looked at")
	fs.DurationVar(&t.Capacity, "capacity-interval", t.Capacity, "how often capacity is written to the status at most")
	fs.DurationVar(&t.Leave, "leave-after", t.Leave, "how long a node must have been leaving before anything is done about it")
	fs.DurationVar(&t.EvacuationAnswer, "evacuation-answer-timeout", t.EvacuationAnswer, "after what time LINSTOR is asked again to evacuate a node")
	fs.DurationVar(&t.EvacuationStuck, "evacuation-stuck-after", t.EvacuationStuck, "how long an evacuation may stand still before a human is asked")
	fs.DurationVar(&t.NodeGone, "node-gone-after", t.NodeGone, "how long a node without Node object is OFFLINE before a human is asked whether it is lost")
	fs.DurationVar(&t.MassFailureWindow, "mass-failure-window", t.MassFailureWindow, "within which time many nodes must fail to freeze destructive steps")
	for state, d := range t.Deadlines {
		fs.Func("deadline-"+string(state), fmt.Sprintf("how long phase %s may go on without progress (default %s)", state, d), func(text string) error {
			return t.SetDeadline(state, text)
		})
	}
}
