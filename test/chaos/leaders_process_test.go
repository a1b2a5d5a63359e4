package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/bound"
)

// operatorVariable makes this test binary an operator: only a process of its own can be stopped as a whole, with its
// timers.
const operatorVariable = "CHAOS_OPERATOR"

// operatorSettings are what such an operator is told.
type operatorSettings struct {
	Kube, Linstor string
	Timing        cluster.Timing
	Lease         time.Duration
}

// runOperator is the main function of such an operator.
func runOperator(text string) error {
	var s operatorSettings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	mgr, err := operator.New(&rest.Config{Host: s.Kube}, operator.Options{
		LinstorEndpoint: s.Linstor, MetricsAddress: "0", ProbeAddress: "0", LeaderElect: true, LeaseDuration: s.Lease,
		Timing:    s.Timing,
		RetryBase: 50 * time.Millisecond, RetryMax: 500 * time.Millisecond, Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return mgr.Start(ctx)
}

// process is an operator in a process of its own. Its requests come through here, where it is stopped at one of its
// writes.
type process struct {
	e      *harness.Env
	cmd    *exec.Cmd
	exited chan struct{}
	fault  error // how it ended, once exited is closed

	mu sync.Mutex
	// writes counts; at the one numbered pauseAt the process is to be stopped. 0: at none.
	writes, pauseAt int
	// late lets the writes that are in flight then land only when the process goes on.
	late    bool
	reached chan struct{} // closed when the write has come at which it is to be stopped
	paused  chan struct{} // closed when it is stopped
	resumed chan struct{} // closed when it goes on
	// stopped is when it was stopped, stood for how long.
	stopped time.Time
	stood   time.Duration
	// inFlight are the writes that it had sent by then, after are those that it sent later, by seam.
	inFlight, after []string
}

// startProcess starts an operator that is stopped at one of its writes, counted from the call of arm.
func startProcess(e *harness.Env, lease time.Duration) *process {
	e.T.Helper()
	p := &process{e: e, exited: make(chan struct{}), reached: make(chan struct{}), paused: make(chan struct{}),
		resumed: make(chan struct{})}
	transport, err := rest.TransportFor(e.Config)
	if err != nil {
		e.T.Fatal(err)
	}
	settings, err := json.Marshal(operatorSettings{
		Kube: p.serve(e.Config.Host, p.passing("Kubernetes", transport)), Timing: e.Timing, Lease: lease,
		// What justifies a call is judged when it is sent, not when it lands.
		Linstor: p.serve(e.Sim.LinstorURL(), &invariants.Evidence{
			Next: p.passing("LINSTOR", http.DefaultTransport), Now: p.clock,
			Violate: func(m string) { e.T.Errorf("violation: %s", m) },
		}),
	})
	if err != nil {
		e.T.Fatal(err)
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), operatorVariable+"="+string(settings))
	var log bytes.Buffer
	p.cmd.Stderr = &log
	if err := bound.Start(p.cmd); err != nil {
		e.T.Fatal(err)
	}
	go func() {
		p.fault = p.cmd.Wait()
		close(p.exited)
	}()
	e.T.Cleanup(p.end)
	return p
}

// serve is a proxy in front of one of the two systems that an operator writes to.
func (p *process) serve(target string, transport http.RoundTripper) string {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		p.e.T.Fatalf("a server is at %q: %v", target, err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport: transport, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := httptest.NewServer(proxy)
	p.e.T.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// passing is a transport to one of them.
func (p *process) passing(seam string, next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if isWrite(r) {
			p.pass(seam + " " + r.Method + " " + r.URL.Path)
		}
		return next.RoundTrip(r)
	})
}

// isWrite leaves out Leases, Events and requests that only ask.
func isWrite(r *http.Request) bool {
	for _, other := range []string{"/leases", "/events", "reviews"} {
		if strings.Contains(r.URL.Path, other) {
			return false
		}
	}
	return r.Method != http.MethodGet
}

// pass lets a write through, at once or when the process goes on.
func (p *process) pass(what string) {
	p.mu.Lock()
	p.writes++
	if p.writes == p.pauseAt {
		close(p.reached)
		time.AfterFunc(beforePause, p.pause)
	}
	var until chan struct{}
	switch {
	case closed(p.resumed):
		p.after = append(p.after, what)
	case closed(p.reached):
		p.inFlight = append(p.inFlight, what)
		if until = p.paused; p.late {
			until = p.resumed
		}
	}
	p.mu.Unlock()
	if until != nil {
		select {
		case <-until:
		case <-p.exited:
		}
	}
}

// beforePause is how long the write at which the process is stopped is held before. What was past its check by then,
// for other nodes say, is sent in that time: no system could take back a write between the check and the wire.
const beforePause = 200 * time.Millisecond

// pause stops the process as a whole.
func (p *process) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if closed(p.exited) || closed(p.resumed) {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.e.T.Errorf("stop the operator: %v", err)
	}
	p.stopped = time.Now()
	close(p.paused)
}

// clock stands still while the process does: a call that was past its check when the process was stopped is sent when
// it goes on, and the look that justifies it has not aged for the operator.
func (p *process) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(-p.stood)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// arm stops the process at its k-th write from now on.
func (p *process) arm(k int, late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes, p.pauseAt, p.late = 0, k, late
}

// ofNode is a node's name in a path.
var ofNode = regexp.MustCompile(`/n[1-9]\b`)

// resume lets the process go on, and waits until it has found out that it leads no more.
func (p *process) resume() {
	p.e.T.Helper()
	p.mu.Lock()
	p.stood = time.Since(p.stopped)
	close(p.resumed)
	p.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.e.T.Fatalf("let the operator go on: %v", err)
	}
	p.e.Await("the operator that led before ends", p.exited)
	if p.fault == nil {
		p.e.T.Error("an operator that lost its Lease ended as if it was told to")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// What is done for several nodes side by side was past its check together.
	begun := map[string]bool{}
	for _, w := range p.inFlight {
		begun[ofNode.ReplaceAllString(w, "/n")] = true
	}
	bySeam := map[string][]string{}
	for _, w := range p.after {
		if seam, _, _ := strings.Cut(w, " "); !begun[ofNode.ReplaceAllString(w, "/n")] {
			bySeam[seam] = append(bySeam[seam], w)
		}
	}
	for seam, ws := range bySeam {
		if len(ws) > 1 {
			p.e.T.Errorf("after another one led, it went on to write to %s: %s", seam, strings.Join(ws, ", "))
		}
	}
}

// end kills the process, stopped or not, and waits for it.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	<-p.exited
	p.mu.Lock()
	defer p.mu.Unlock()
	if !closed(p.resumed) {
		close(p.resumed)
	}
}

// sentLater are the writes that it sent after it went on.
func (p *process) sentLater() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.after)
}

// String says where it was stopped.
func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("stopped at write %d: %s", p.pauseAt, strings.Join(p.inFlight, ", "))
}
