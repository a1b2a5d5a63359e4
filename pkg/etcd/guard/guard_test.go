package guard_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/guard"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pod is one on a node, with a mounted ConfigMap.
type pod struct {
	t *testing.T
	guard.Paths
	starts []string
}

func newPod(t *testing.T, data string) *pod {
	dir := t.TempDir()
	return &pod{t: t, Paths: guard.Paths{Member: "n1-1", Mounted: filepath.Join(dir, "n1"), Work: t.TempDir(), Data: data,
		Message: filepath.Join(dir, "message"), Etcd: "/etcd"}}
}

func (p *pod) mount(mode datadir.Mode, file string) {
	p.t.Helper()
	p.order(seats.Configuration{Expectation: datadir.Expectation{Name: "n1-1", Token: "t", Mode: mode}, Revision: file},
		file)
}

func (p *pod) order(c seats.Configuration, file string) {
	p.t.Helper()
	text, err := json.Marshal(guard.Order{Configuration: c, File: file})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.Mounted, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// start is a start of the container. The fake etcd makes data.
func (p *pod) start() (guard.Report, error) {
	p.t.Helper()
	err := guard.Start(p.Paths, now, func(path string, args, _ []string) error {
		text, err := os.ReadFile(args[1][len("--config-file="):])
		if err != nil || path != "/etcd" || args[0] != "/etcd" {
			p.t.Errorf("%s %v: %v", path, args, err)
		}
		p.starts = append(p.starts, string(text))
		wal := filepath.Join(p.Data, "member", "wal")
		return errors.Join(os.MkdirAll(wal, 0o700), os.WriteFile(filepath.Join(wal, "0.wal"), nil, 0o600))
	})
	return p.report(), err
}

func (p *pod) report() guard.Report {
	p.t.Helper()
	text, err := os.ReadFile(p.Message)
	if err != nil {
		p.t.Fatal(err)
	}
	r, ok := guard.Parse(string(text))
	if !ok {
		p.t.Fatalf("message %s", text)
	}
	return r
}

func (p *pod) take() {
	p.t.Helper()
	if err := guard.Take(p.Paths); err != nil {
		p.t.Fatal(err)
	}
}

// TestContainerRestart: each start of the container is guarded, not only the first one in a pod, and a directory that
// comes back ends the refusal.
func TestContainerRestart(t *testing.T) {
	data := filepath.Join(t.TempDir(), "disk", "etcd")
	p := newPod(t, data)
	p.mount(datadir.Join, "a")
	p.take()
	if r, err := p.start(); err != nil || r.Refusal != "" || r.Configuration.Mode != datadir.Join {
		t.Fatalf("%+v, %v", r, err)
	}
	p = newPod(t, data)
	p.mount(datadir.Resume, "b")
	p.take()
	if r, err := p.start(); err != nil || r.Refusal != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	disk := filepath.Dir(data)
	if err := os.Rename(disk, disk+"-late"); err != nil { // the node has rebooted, and its disk is not mounted yet
		t.Fatal(err)
	}
	if r, err := p.start(); !errors.Is(err, datadir.ErrLost) || r.Refusal != seats.Lost || r.Message == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := os.Rename(disk+"-late", disk); err != nil {
		t.Fatal(err)
	}
	if r, err := p.start(); err != nil || r.Refusal != "" || len(p.starts) != 2 || p.starts[1] != "b" {
		t.Fatalf("%+v, %v; started with %v", r, err, p.starts)
	}
}

// TestCopy: a pod goes on with what was reported of it, whatever the ConfigMap says later.
func TestCopy(t *testing.T) {
	p := newPod(t, t.TempDir())
	p.mount(datadir.Join, "a")
	p.take()
	reported := p.report()
	p.mount(datadir.Join, "b")
	p.take() // the node has rebooted
	if r, err := p.start(); err != nil || r.Configuration != reported.Configuration || p.starts[0] != "a" {
		t.Errorf("%+v, %v; reported was %+v, started was %v", r, err, reported, p.starts)
	}
}

// TestTakeAgain: half a copy, as after a power failure, is made again of what is mounted, and an order of another
// member is not taken.
func TestTakeAgain(t *testing.T) {
	p := newPod(t, t.TempDir())
	p.mount(datadir.Join, "a")
	if err := os.WriteFile(filepath.Join(p.Work, "order.json"), []byte(`{"config`), 0o600); err != nil {
		t.Fatal(err)
	}
	p.take()
	if r, err := p.start(); err != nil || r.Configuration.Revision != "a" {
		t.Errorf("%+v, %v", r, err)
	}
	p = newPod(t, t.TempDir())
	p.mount(datadir.Join, "a")
	p.Member = "n1-2"
	if err := guard.Take(p.Paths); err == nil {
		t.Error("the order of another member was taken")
	}
}

// TestForce: a member is forced at one start only, whatever a container or another pod with an old copy does, and
// never for a choice at which another member accepted connections.
func TestForce(t *testing.T) {
	data := t.TempDir()
	p := newPod(t, data)
	p.mount(datadir.Join, "a\n")
	p.take()
	if _, err := p.start(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	force := seats.Configuration{Others: "http://127.0.0.1:1,http://" + l.Addr().String(),
		Expectation: datadir.Expectation{Name: "n1-1", Token: "t", Mode: datadir.Force, Recovery: "7"}}
	p = newPod(t, data)
	p.Log = func(string) (datadir.Log, error) { return datadir.Log{Term: 2, Index: 9, Commit: 8}, nil }
	p.order(force, "a\n")
	p.take()
	if r, err := p.start(); err == nil || r.Refusal != seats.Alive || len(p.starts) > 0 || r.Log == nil ||
		r.Log.Index != 9 {
		t.Fatalf("another member runs: %+v, %v", r, err)
	}
	_ = l.Close()
	if r, err := p.start(); err == nil || r.Refusal != seats.Alive { // it may have a quorum elsewhere
		t.Fatalf("another member ran: %+v, %v", r, err)
	}
	force.Recovery = "8" // a human has chosen again
	p = newPod(t, data)
	p.order(force, "a\n")
	p.take()
	want := []string{"a\nforce-new-cluster: true\n", "a\n", "a\n"}
	for i := range want {
		if i == 2 {
			starts := p.starts
			p = newPod(t, data)
			p.starts = starts
			p.order(force, "a\n") // another pod, with an old copy
			p.take()
		}
		if r, err := p.start(); err != nil || r.Refusal != "" || p.starts[i] != want[i] {
			t.Fatalf("start %d: %+v, %v, %q", i, r, err, p.starts)
		}
	}
}

// TestLogOfAnother: what a former member has left on the node is reported, but its log is not that of the one that is
// to start there.
func TestLogOfAnother(t *testing.T) {
	p := newPod(t, t.TempDir())
	p.Log = func(string) (datadir.Log, error) { return datadir.Log{Index: 9}, nil }
	p.mount(datadir.Join, "a")
	p.take()
	if _, err := p.start(); err != nil {
		t.Fatal(err)
	}
	again := newPod(t, p.Data)
	again.Log = p.Log
	again.mount(datadir.Resume, "a")
	again.take()
	if r := again.report(); r.Log == nil || r.Log.Index != 9 || r.Found == nil || r.Found.Owner.Name != "n1-1" {
		t.Errorf("its own: %+v", r)
	}
	other := newPod(t, p.Data)
	other.Log, other.Member = p.Log, "n1-2"
	other.order(seats.Configuration{
		Expectation: datadir.Expectation{Name: "n1-2", Token: "t", Mode: datadir.Resume}}, "b")
	other.take()
	if r := other.report(); r.Log != nil || r.Found == nil || r.Found.Owner.Name != "n1-1" {
		t.Errorf("another one's: %+v", r)
	}
	if r, err := other.start(); err == nil || r.Refusal != seats.Found || r.Log != nil || r.Found.Owner.Name != "n1-1" {
		t.Errorf("another one's: %+v, %v", r, err)
	}
}

// TestOlder: on data on which a later minor release was started, an earlier one is not, and the report says which.
func TestOlder(t *testing.T) {
	data := t.TempDir()
	for _, tc := range []struct {
		version string
		refusal seats.Refusal
		marked  string
	}{{"v3.6.14", "", "v3.6.14"}, {"3.6.13", "", "v3.6.14"}, {"3.7.1", "", "3.7.1"}, {"v3.6.14", seats.Older, "3.7.1"},
		{"v3.7.0", "", "3.7.1"}} {
		p := newPod(t, data)
		p.order(seats.Configuration{Version: tc.version,
			Expectation: datadir.Expectation{Name: "n1-1", Token: "t", Mode: datadir.Join}}, "a")
		p.take()
		r, err := p.start()
		if r.Refusal != tc.refusal || (err == nil) != (tc.refusal == "") || r.Found.Owner.Version != tc.marked ||
			len(p.starts) == 0 != (tc.refusal != "") {
			t.Errorf("%+v: %+v, %v", tc, r, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	foreign := t.TempDir()
	if err := os.MkdirAll(filepath.Join(foreign, "member", "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for data, want := range map[string]seats.Refusal{foreign: seats.Found, file: seats.Failed} {
		p := newPod(t, data)
		p.mount(datadir.Join, "a")
		p.take()
		if r, err := p.start(); err == nil || r.Refusal != want || len(p.starts) > 0 {
			t.Errorf("%s: %+v, %v", want, r, err)
		}
	}
	p := newPod(t, t.TempDir())
	if err := guard.Take(p.Paths); err == nil {
		t.Error("there is no configuration, and it was taken")
	}
	if err := guard.Start(p.Paths, now, nil); err == nil {
		t.Error("there is no configuration, and it was used")
	}
	if err := os.WriteFile(p.Mounted, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := guard.Take(p.Paths); err == nil {
		t.Error("half a configuration was taken")
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "{", `{"level":"fatal","msg":"member count is unequal"}`, "panic: x"} {
		if r, ok := guard.Parse(text); ok {
			t.Errorf("%s is %+v", text, r)
		}
	}
}
