// Command operator runs the StorageCluster operator.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	_ "golang.org/x/crypto/x509roots/fallback" // the operator's image has no root certificates, and stores of backups need them
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/take"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/compare"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
)

// settings are what the flags say.
type settings struct {
	options     operator.Options
	level       zapcore.Level
	catalogue   string
	showVersion bool
	export      string
	same        string
	backup      string
	download    string
	// compared is an export, and listings the directory with the listings of nodes that it is compared with.
	compared, listings string
	showScript         bool
	// comparison says which backup is compared, and nodes where each node's listing is served; listing is a file with the
	// listing of this node, served for token.
	comparison, listing, token string
	nodes                      []string
	machines                   compare.Machines
	// fetched and checked say which backup is brought to LINSTOR's own program, and compared afterwards.
	fetched, checked string
	// moved says what LINSTOR's own program has moved from one database into another.
	moved string
	// taken and started are members of etcd, looked the data directory of one, and saved how a snapshot of one is taken.
	taken, started, looked, saved string
	// plan and disks are manifests of a StorageCluster that is judged.
	plan, disks string
}

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
	s := settings{options: operator.Options{Version: version, Timing: cluster.DefaultTiming()}, level: zapcore.InfoLevel}
	bindFlags(flag.CommandLine, &s)
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if ran, err := s.command(); ran {
		return err
	}
	o := s.options
	zc := zap.NewProductionConfig()
	zc.Level = zap.NewAtomicLevelAt(s.level)
	zc.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	zl, err := zc.Build()
	if err != nil {
		return fmt.Errorf("build the logger: %w", err)
	}
	ctrl.SetLogger(zapr.NewLogger(zl))
	// The first line, whatever fails afterwards: kubectl logs … | head -1.
	ctrl.Log.Info("starting", "version", version, "linstor", o.LinstorEndpoint)
	if o.Catalogue, err = loadCatalogue(s.catalogue); err != nil {
		return err
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("load the Kubernetes client configuration: %w", err)
	}
	ctx := ctrl.SetupSignalHandler()
	asked := s.plan+s.disks != ""
	if asked { // from the first request on: whoever asked may be gone, and nobody else ends it
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, operator.PlanWithin, operator.ErrPlanLate)
		defer cancel()
	}
	if pod := os.Getenv("POD_NAME"); o.Image == "" && pod != "" {
		if o.Image, err = operator.OwnImage(ctx, cfg, pod); err != nil {
			ctrl.Log.Info("the operator's own image is unknown: backups are disabled", "error", err.Error())
		}
	}
	if asked {
		return s.judge(ctx, cfg, o)
	}
	mgr, err := operator.New(cfg, o)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// command does what the flags ask for in place of running the operator; ran is false if they ask for nothing.
func (s *settings) command() (ran bool, err error) {
	switch {
	case s.showVersion:
		_, err = fmt.Fprintln(os.Stdout, version)
	case s.showScript:
		_, err = fmt.Fprint(os.Stdout, listing.Script)
	case s.export != "":
		err = verifyExport(s.export, s.same)
	case s.compared != "":
		err = compareExport(os.Stdout, s.compared, s.listings, s.machines)
	case s.comparison != "":
		err = compareBackup(s.comparison, s.nodes, s.machines)
	case s.listing != "":
		err = serveListing(s.listing, s.token)
	case s.fetched != "":
		err = fetchBackup(s.fetched)
	case s.checked != "":
		err = checkImport(s.checked)
	case s.moved != "":
		err = checkMove(s.moved)
	case s.download != "":
		err = downloadExport(s.download)
	case s.backup != "":
		err = takeBackup(s.backup)
	default:
		return s.etcd()
	}
	return true, err
}

// etcd does what the flags ask for about a member of etcd.
func (s *settings) etcd() (ran bool, err error) {
	switch {
	case s.taken != "":
		err = takeMember(pods.Paths(s.taken), pods.Guard)
	case s.started != "":
		err = startMember(pods.Paths(s.started))
	case s.looked != "":
		err = lookForEtcd(s.looked, terminationLog)
	case s.saved != "":
		err = saveEtcd(s.saved, pods.Kept, terminationLog)
	default:
		return false, nil
	}
	return true, err
}

// loadCatalogue extends the embedded catalogue by a file. The file comes from an optional ConfigMap, so it may be
// absent; one that is there and wrong stops the operator, because ignoring it could run another image than the one it
// names.
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

// verifyExport prints what is in an export of LINSTOR's database, if it is whole. With the name of another one it
// compares both in place of that.
func verifyExport(path, same string) error {
	if same != "" {
		return sameRows(path, same)
	}
	summary, err := readExport(path, export.Read)
	if err != nil {
		return err
	}
	fmt.Println(summary)
	fmt.Println("Cluster/LocalID:", cmp.Or(summary.LocalID, "(none)"))
	return nil
}

// downloadExport has LINSTOR export its database into a file, unless the backup is in the store.
func downloadExport(config string) error {
	c, err := take.ParseConfig(config, time.Now())
	if err != nil {
		return fmt.Errorf("--download-export: %w", err)
	}
	return take.Download(ctrl.SetupSignalHandler(), c)
}

// terminationLog is where a kubelet looks for what a container has to say at its end.
const terminationLog = "/dev/termination-log"

// takeBackup takes one backup of LINSTOR's database and prints what it was, as one line of JSON. In a pod it leaves a
// note for the operator as well.
func takeBackup(config string) error {
	c, err := take.ParseConfig(config, time.Now())
	if err != nil {
		return fmt.Errorf("--take-backup: %w", err)
	}
	result, err := take.Run(ctrl.SetupSignalHandler(), c)
	if err != nil {
		return err
	}
	return report(result)
}

// report prints a result, and leaves a note of it for the operator, if this is a container.
func report(result interface{ Note() ([]byte, error) }) error {
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return err
	}
	return leaveNote(result.Note())
}

// leaveNote leaves a note for the operator, if this is a container.
func leaveNote(note []byte, err error) error {
	if err != nil {
		return err
	}
	file, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.Write(note)
	return errors.Join(err, file.Close())
}

// bindEndpoints binds the flags that say where LINSTOR is found.
func bindEndpoints(fs *flag.FlagSet, o *operator.Options) {
	fs.StringVar(&o.LinstorEndpoint, "linstor-endpoint", operator.DefaultEndpoint, "URL of LINSTOR's API")
	fs.StringVar(&o.LinstorLockedEndpoint, "linstor-locked-endpoint", operator.DefaultLockedEndpoint,
		"URL of LINSTOR's API when it is secured with TLS")
}

// bindComparisons binds the flags that compare a backup with what lies on the nodes.
func bindComparisons(fs *flag.FlagSet, s *settings) {
	fs.StringVar(&s.compared, "compare-export", "",
		"export of LINSTOR's database (- for standard input): compare it with the volumes on the nodes, print the "+
			"differences, and exit")
	fs.StringVar(&s.listings, "listings", "",
		"for --compare-export: directory with one listing per node, in a file named after the node")
	fs.StringVar(&s.comparison, "compare-backup", "",
		"JSON that names a backup and its store: compare it with the nodes' listings, print the differences, and exit")
	fs.Func("compare-node", "for --compare-backup: node=host:port where a node serves its listing; repeat the flag for "+
		"each node",
		func(node string) error { s.nodes = append(s.nodes, node); return nil })
	s.machines = compare.Machines{}
	fs.Func("compare-address", "for --compare-backup and --compare-export: node=address,address of a node in "+
		"Kubernetes, or of its satellite pod; repeat the flag for each node", s.machines.Set)
	fs.StringVar(&s.listing, "serve-listing", "", fmt.Sprintf(
		"file with the listing of this node: serve it on port %d for --compare-backup", listing.Port))
	fs.StringVar(&s.token, "listing-token", "",
		"for --serve-listing: token that a client must present to get the listing")
}

// bindFlags makes all flags. docs/installation.md describes them, and a test compares.
func bindFlags(fs *flag.FlagSet, s *settings) {
	o := &s.options
	wait := func(d *time.Duration, name, usage string) { fs.DurationVar(d, name, *d, usage) }
	bindQuestions(fs, s)
	fs.StringVar(&s.export, "verify-export", "",
		"export of LINSTOR's database (- for standard input): read it to the end, print its contents, and exit")
	fs.StringVar(&s.same, "same-rows-as", "",
		"for --verify-export: second export that must have the same rows, in any order; print only the result")
	bindComparisons(fs, s)
	fs.StringVar(&s.backup, "take-backup", "",
		"YAML with LINSTOR's URL and the destination of a backup: take the backup, print a summary, and exit")
	fs.StringVar(&s.download, "download-export", "",
		"the same YAML as for --take-backup: write LINSTOR's export to the file named in the field export, unless the "+
			"store already has the backup, and exit")
	fs.StringVar(&s.fetched, "fetch-backup", "",
		"JSON that names a backup, its store and a file: write the backup's export to the file, and exit")
	fs.StringVar(&s.checked, "check-import", "",
		"the same JSON as for --fetch-backup: fail unless the export that LINSTOR's own tool created afterwards has "+
			"the same rows; remove both files, and exit")
	fs.StringVar(&s.moved, "check-move", "",
		"JSON with the paths of two exports that LINSTOR's own tool created before and after the move to another "+
			"database: fail unless both have the same rows; remove both files, and exit")
	bindMembers(fs, s)
	fs.StringVar(&o.Image, "image", "",
		"the operator's own image, used to take backups (default: the image of the pod POD_NAME)")
	fs.StringVar(&s.catalogue, "catalogue", "", "optional file that adds LINSTOR releases and module loaders")
	bindEndpoints(fs, o)
	fs.StringVar(&o.MetricsAddress, "metrics-bind-address", "0", "address for metrics over TLS; 0 disables them")
	fs.StringVar(&o.ProbeAddress, "health-probe-bind-address", "0", "address for /healthz and /readyz; 0 disables them")
	fs.StringVar(&o.PprofAddress, "pprof-bind-address", "0",
		"address for Go profiles; use a loopback address, because anyone who can reach it can read the profiles; "+
			"0 disables them")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "elect a leader among the replicas")
	wait(&o.LeaseDuration, "lease-duration", "how long other replicas wait before they replace a leader that has died "+
		"(default 15s)")
	fs.IntVar(&o.Parallel, "linstor-writes", 8, "maximum number of concurrent writes to LINSTOR")
	wait(&o.RetryBase, "retry-base", "minimum pause after a failed write to LINSTOR (default 1s)")
	wait(&o.RetryMax, "retry-max", "maximum pause after a failed write to LINSTOR (default 5m)")
	fs.Var(&s.level, "log-level", "debug, info, warn or error")
	t := &o.Timing
	wait(&t.Straggler, "straggler-timeout", "how long a phase waits for the last nodes once enough nodes have passed it")
	wait(&t.HealthLost, "health-lost-after", "how long a problem must last before Ready becomes Degraded; also how long "+
		"satellites may take to connect after LINSTOR has started")
	wait(&t.HealthRegained, "health-regained-after", "how long everything must be healthy before Degraded becomes Ready")
	wait(&t.Join, "join-timeout", "how long a new node may take before it counts as a problem")
	wait(&t.Escalate, "escalate-after", "how long the controller or the database may be unavailable before a hold opens")
	wait(&t.PollWorking, "poll-working", "how often LINSTOR is polled while work is in progress")
	wait(&t.PollSteady, "poll-steady",
		"how often LINSTOR is polled otherwise; also the longest delay before a failed reconcile is retried")
	wait(&t.Safety, "poll-safety", "how often an object that must not be touched is checked")
	wait(&t.Capacity, "capacity-interval", "shortest interval between updates of the capacity in the status")
	wait(&t.TaintLasts, "leave-after",
		"how long a member node must have had a taint that spec.nodes.tolerations does not tolerate before its removal "+
			"starts; some taints are ignored")
	wait(&t.Leave, "leave-settle-after", "how long the operator waits before it acts on a leaving node")
	wait(&t.EvacuationAnswer, "evacuation-answer-timeout",
		"how long the operator waits for an evacuation to start before it repeats the request to LINSTOR")
	wait(&t.Repair, "pool-repair-pause",
		"pause before the operator retries a pool that LINSTOR has rejected three times; doubles with each further "+
			"rejection, up to twelve times this value")
	wait(&t.EvacuationStuck, "evacuation-stuck-after",
		"how long an evacuation may make no progress before the EvacuationStuck hold opens")
	wait(&t.NodeGone, "node-gone-after",
		"how long a node without a Node object must have been OFFLINE before the NodeGone hold opens")
	wait(&t.MassFailureWindow, "mass-failure-window",
		"time window in which many nodes must fail to count as a mass failure, which blocks destructive steps")
	for state, d := range t.Deadlines {
		usage := fmt.Sprintf("how long phase %s may make no progress (default %s)", state, d)
		fs.Func("deadline-"+string(state), usage, func(text string) error { return t.SetDeadline(state, text) })
	}
}
