package main

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

func parse(args ...string) (operator.Options, zapcore.Level, *flag.FlagSet, error) {
	fs := flag.NewFlagSet("operator", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o := operator.Options{Timing: phases.DefaultTiming()}
	level := zapcore.InfoLevel
	bindFlags(fs, &o, &level)
	err := fs.Parse(args)
	return o, level, fs, err
}

func TestDefaults(t *testing.T) {
	o, level, _, err := parse()
	if err != nil || o.LinstorEndpoint != operator.DefaultEndpoint || o.LeaderElect || level != zapcore.InfoLevel {
		t.Errorf("%+v %s %v", o, level, err)
	}
	if o.Timing.Straggler != 2*time.Minute || o.Timing.Deadlines[fsm.StoragePools] != 20*time.Minute {
		t.Errorf("timing %+v", o.Timing)
	}
}

func TestEveryWorkingStateHasADeadlineFlag(t *testing.T) {
	_, _, fs, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range fsm.Cluster().States {
		name := "deadline-" + string(s.State)
		if f := fs.Lookup(name); (f != nil) != (s.Class == fsm.Working) {
			t.Errorf("flag %s: %v", name, f)
			continue
		} else if f != nil && !strings.Contains(f.Usage, s.Deadline.String()) {
			t.Errorf("%s does not say its default %s: %q", name, s.Deadline, f.Usage)
		}
	}
}

func TestDeadlinesAreSetOneByOne(t *testing.T) {
	o, _, _, err := parse("--deadline-StoragePools=7m", "--deadline-Controller", "90s", "--straggler-timeout=3s", "--poll-steady=1s")
	if err != nil {
		t.Fatal(err)
	}
	d := o.Timing.Deadlines
	if d[fsm.StoragePools] != 7*time.Minute || d[fsm.Controller] != 90*time.Second || d[fsm.Satellites] != 15*time.Minute {
		t.Errorf("deadlines %v", d)
	}
	if o.Timing.Straggler != 3*time.Second || o.Timing.PollSteady != time.Second {
		t.Errorf("timing %+v", o.Timing)
	}
	if again, _, _, err := parse(); err != nil || again.Timing.Deadlines[fsm.StoragePools] != 20*time.Minute {
		t.Errorf("a flag changed the defaults of others: %v %v", again.Timing.Deadlines, err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, arg := range []string{
		"--deadline-StoragePools=soon", "--deadline-StoragePools=0s", "--deadline-StoragePools=-1m", "--deadline-StoragePools=", "--deadline-Ready=1m",
		"--deadline-storagepools=1m", "--log-level=loud", "--straggler-timeout=x", "--no-such-flag",
	} {
		if _, _, _, err := parse(arg); err == nil {
			t.Errorf("%s is taken", arg)
		}
	}
}

func TestLogLevel(t *testing.T) {
	if _, level, _, err := parse("--log-level=debug"); err != nil || level != zapcore.DebugLevel {
		t.Errorf("%s %v", level, err)
	}
}
