package main

import (
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
)

func parse(args ...string) (operator.Options, zapcore.Level, *flag.FlagSet, error) {
	fs := flag.NewFlagSet("operator", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	s := settings{options: operator.Options{Timing: cluster.DefaultTiming()}, level: zapcore.InfoLevel}
	bindFlags(fs, &s)
	err := fs.Parse(args)
	return s.options, s.level, fs, err
}

// TestAPlanLeavesRoom for the operator that runs beside it in the same container.
func TestAPlanLeavesRoom(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(460 << 20))
	leaveRoom(false)
	if got := debug.SetMemoryLimit(-1); got != 460<<20 {
		t.Errorf("not asked for: %d", got)
	}
	leaveRoom(true)
	if got := debug.SetMemoryLimit(-1); got != 230<<20 {
		t.Errorf("%d", got)
	}
}

// TestFlagsAreDescribed compares the flags with the section of the installation page about them, names and defaults.
func TestFlagsAreDescribed(t *testing.T) {
	page, err := os.ReadFile("../../docs/installation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Operator settings\n")
	if !found {
		t.Fatal("the page has no section about the flags")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	described := map[string]string{} // the row of each flag
	for _, row := range strings.Split(section, "\n") {
		flags, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, m := range regexp.MustCompile("`--([a-zA-Z<>-]+)`").FindAllStringSubmatch(flags, -1) {
			described[m[1]] = row
		}
	}
	_, _, fs, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	fs.VisitAll(func(f *flag.Flag) {
		name := f.Name
		if strings.HasPrefix(name, "deadline-") {
			name = "deadline-<phase>"
		}
		row, ok := described[name]
		if !ok {
			t.Errorf("docs/installation.md does not describe --%s", f.Name)
		}
		if d, err := time.ParseDuration(f.DefValue); err == nil && d != 0 && name == f.Name &&
			!strings.Contains(row, short(d)) {
			t.Errorf("the row of --%s does not say its default %s: %s", f.Name, short(d), row)
		}
	})
	for name := range described {
		if !strings.HasPrefix(name, "deadline-") && fs.Lookup(name) == nil {
			t.Errorf("docs/installation.md describes --%s, which does not exist", name)
		}
	}
}

// short is a duration as people write it: 2m for 2m0s.
func short(d time.Duration) string {
	text := d.String()
	if d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// TestVersion builds the operator as a release is built, and asks it.
func TestVersion(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "operator")
	build := exec.Command("go", "build", "-ldflags", "-X main.version=v1.2.3", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(binary, "--version").CombinedOutput(); err != nil || string(out) != "v1.2.3\n" {
		t.Errorf("%q %v", out, err)
	}
	cmd := exec.Command(binary)
	cmd.Env = []string{"KUBECONFIG=/does/not/exist"}
	out, err := cmd.CombinedOutput()
	first, _, _ := strings.Cut(string(out), "\n")
	if err == nil || !strings.Contains(first, `"version":"v1.2.3"`) {
		t.Errorf("the first line is %s (%v)", first, err)
	}
}

func TestDefaults(t *testing.T) {
	o, level, _, err := parse()
	if err != nil || o.LinstorEndpoint != operator.DefaultEndpoint || o.LeaderElect ||
		o.LinstorLockedEndpoint != operator.DefaultLockedEndpoint || level != zapcore.InfoLevel {
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
		if f := fs.Lookup(name); (f != nil) != (s.Deadline > 0) {
			t.Errorf("flag %s: %v", name, f)
			continue
		} else if f != nil && !strings.Contains(f.Usage, s.Deadline.String()) {
			t.Errorf("%s does not say its default %s: %q", name, s.Deadline, f.Usage)
		}
	}
}

func TestDeadlinesAreSetOneByOne(t *testing.T) {
	o, _, _, err := parse("--deadline-StoragePools=7m", "--deadline-Controller", "90s", "--straggler-timeout=3s",
		"--poll-steady=1s")
	if err != nil {
		t.Fatal(err)
	}
	d := o.Timing.Deadlines
	if d[fsm.StoragePools] != 7*time.Minute || d[fsm.Controller] != 90*time.Second ||
		d[fsm.Satellites] != 15*time.Minute {
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
		"--deadline-StoragePools=soon", "--deadline-StoragePools=0s", "--deadline-StoragePools=-1m",
		"--deadline-StoragePools=", "--deadline-Ready=1m",
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
