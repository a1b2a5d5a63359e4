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
		return fmt.Errorf("find the cluster: %w", err)
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
			ctrl.Log.Info("the operator does not know its own image, and takes no backups", "error", err.Error())
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
	fmt.Println("of the cluster with Cluster/LocalID", cmp.Or(summary.LocalID, "(none)"))
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
		"URL of LINSTOR's API where it is locked")
}

// bindComparisons binds the flags that compare a backup with what lies on the nodes.
func bindComparisons(fs *flag.FlagSet, s *settings) {
	fs.StringVar(&s.compared, "compare-export", "",
		"export of LINSTOR's database to compare with what lies on the nodes, - for the standard input; print what "+
			"differs, and end")
	fs.StringVar(&s.listings, "listings", "",
		"directory with a listing of each node, in a file of the node's name, for --compare-export")
	fs.StringVar(&s.comparison, "compare-backup", "",
		"JSON that names a backup and its store; compare it with what nodes list, print what differs, and end")
	fs.Func("compare-node", "node=host:port of where a node serves its listing, for --compare-backup; once for each node",
		func(node string) error { s.nodes = append(s.nodes, node); return nil })
	s.machines = compare.Machines{}
	fs.Func("compare-address", "node=address,address of a node in Kubernetes, or of its satellite's pod, for "+
		"--compare-backup and --compare-export; once for each", s.machines.Set)
	fs.StringVar(&s.listing, "serve-listing", "", fmt.Sprintf(
		"file with the listing of this node to serve on port %d, for --compare-backup", listing.Port))
	fs.StringVar(&s.token, "listing-token", "", "what the listing is served for")
}

// bindFlags makes all flags. docs/installation.md describes them, and a test compares.
func bindFlags(fs *flag.FlagSet, s *settings) {
	o := &s.options
	wait := func(d *time.Duration, name, usage string) { fs.DurationVar(d, name, *d, usage) }
	bindQuestions(fs, s)
	fs.StringVar(&s.export, "verify-export", "",
		"export of LINSTOR's database to read to its end, - for the standard input; print what is in it, and end")
	fs.StringVar(&s.same, "same-rows-as", "",
		"another export, which must hold the same rows, in whatever order, for --verify-export; say so, and end")
	bindComparisons(fs, s)
	fs.StringVar(&s.backup, "take-backup", "",
		"YAML that says where LINSTOR is and where a backup of its database goes; take it, print what it was, and end")
	fs.StringVar(&s.download, "download-export", "",
		"the same YAML: write LINSTOR's export of its database into the file that it names, unless the store has the "+
			"backup, and end")
	fs.StringVar(&s.fetched, "fetch-backup", "",
		"JSON that names a backup, its store and a file: write the backup's export into that, and end")
	fs.StringVar(&s.checked, "check-import", "",
		"the same JSON, which names what LINSTOR's own program has exported afterwards as well: end with an error unless "+
			"both hold the same rows, and remove both")
	fs.StringVar(&s.moved, "check-move", "",
		"JSON that names what LINSTOR's own program has exported of two databases, one of which was moved into the other: "+
			"end with an error unless both hold the same rows, and remove both")
	bindMembers(fs, s)
	fs.StringVar(&o.Image, "image", "",
		"the operator's own image, which takes backups (default: that of the pod POD_NAME)")
	fs.StringVar(&s.catalogue, "catalogue", "", "file that extends the catalogue of LINSTOR releases; it may be absent")
	bindEndpoints(fs, o)
	fs.StringVar(&o.MetricsAddress, "metrics-bind-address", "0", "address for metrics over TLS; 0 for none")
	fs.StringVar(&o.ProbeAddress, "health-probe-bind-address", "0", "address for /healthz and /readyz; 0 for none")
	fs.StringVar(&o.PprofAddress, "pprof-bind-address", "0",
		"address for Go's profiles, which anybody who reaches it may read: loopback; 0 for none")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "take turns with other replicas")
	wait(&o.LeaseDuration, "lease-duration", "how long a leader that died is waited for (default 15s)")
	fs.IntVar(&o.Parallel, "linstor-writes", 8, "how many writes to LINSTOR run at once")
	wait(&o.RetryBase, "retry-base", "first back-off of a failed write to LINSTOR (default 1s)")
	wait(&o.RetryMax, "retry-max", "longest back-off of a failed write to LINSTOR (default 5m)")
	fs.Var(&s.level, "log-level", "debug, info, warn or error")
	t := &o.Timing
	wait(&t.Straggler, "straggler-timeout", "how long a phase waits for the last nodes once enough are through")
	wait(&t.HealthLost, "health-lost-after", "how long trouble lasts before Ready becomes Degraded, and satellites may "+
		"take to connect to a LINSTOR that has just started")
	wait(&t.HealthRegained, "health-regained-after", "how long all is well before Degraded becomes Ready")
	wait(&t.Join, "join-timeout", "how long a new node may take before it counts as trouble")
	wait(&t.Escalate, "escalate-after", "how long controller or database may be away before a human is asked")
	wait(&t.PollWorking, "poll-working", "how often LINSTOR is looked at while something is being done")
	wait(&t.PollSteady, "poll-steady",
		"how often LINSTOR is looked at otherwise, and the longest that a failed reconcile waits for its next try")
	wait(&t.Safety, "poll-safety", "how often an object that must not be touched is looked at")
	wait(&t.Capacity, "capacity-interval", "how often capacity is written to the status at most")
	wait(&t.TaintLasts, "leave-after",
		"how long a member must have had a taint that spec.nodes.tolerations does not tolerate before it leaves; some "+
			"taints never make it leave")
	wait(&t.Leave, "leave-settle-after", "how long a node must have been leaving before anything is done about it")
	wait(&t.EvacuationAnswer, "evacuation-answer-timeout", "after what time LINSTOR is asked again to evacuate a node")
	wait(&t.Repair, "pool-repair-pause",
		"how long to wait before a pool that LINSTOR refused three times is tried again, doubling up to twelve times of it")
	wait(&t.EvacuationStuck, "evacuation-stuck-after", "how long an evacuation may stand still before a human is asked")
	wait(&t.NodeGone, "node-gone-after",
		"how long a node without Node object is OFFLINE before a human is asked whether it is lost")
	wait(&t.MassFailureWindow, "mass-failure-window",
		"within which time many nodes must fail to freeze destructive steps")
	for state, d := range t.Deadlines {
		usage := fmt.Sprintf("how long phase %s may go on without progress (default %s)", state, d)
		fs.Func("deadline-"+string(state), usage, func(text string) error { return t.SetDeadline(state, text) })
	}
}
