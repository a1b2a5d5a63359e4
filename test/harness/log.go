package harness

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// taps get every line of the log.
var taps struct {
	sync.Mutex
	next int
	all  map[int]func(string)
}

// TapLog gives f every line that operators log from now on, at the highest verbosity, until the test ends.
func TapLog(t testing.TB, f func(line string)) {
	t.Helper()
	taps.Lock()
	defer taps.Unlock()
	if taps.all == nil {
		taps.all = map[int]func(string){}
	}
	id := taps.next
	taps.next++
	taps.all[id] = f
	t.Cleanup(func() {
		taps.Lock()
		defer taps.Unlock()
		delete(taps.all, id)
	})
}

// highest is the verbosity of the operator's --log-level debug, above which it cannot go. Kubernetes' client would log
// the bodies of its requests, Secrets included, from 8 on.
const highest = 1

// testLogger prints the operator's log if E2E_LOG is set, and gives it to whoever taps it.
func testLogger() logr.Logger {
	show := os.Getenv("E2E_LOG") != ""
	inner := funcr.New(func(prefix, args string) {
		taps.Lock()
		defer taps.Unlock()
		for _, f := range taps.all {
			f(prefix + " " + args)
		}
		if show {
			fmt.Fprintf(os.Stderr, "%s %s %s\n", time.Now().Format("15:04:05.000"), prefix, args)
		}
	}, funcr.Options{Verbosity: highest})
	return logr.New(logSink{inner.GetSink(), show})
}

// logSink formats nothing that nobody wants to see.
type logSink struct {
	logr.LogSink
	show bool
}

// Enabled implements [logr.LogSink].
func (s logSink) Enabled(level int) bool {
	taps.Lock()
	defer taps.Unlock()
	return level <= highest && (len(taps.all) > 0 || s.show)
}

// Error implements [logr.LogSink]; a logger asks Enabled for what is no error only.
func (s logSink) Error(err error, msg string, kv ...any) {
	if s.Enabled(0) {
		s.LogSink.Error(err, msg, kv...)
	}
}

// WithValues implements [logr.LogSink].
func (s logSink) WithValues(kv ...any) logr.LogSink {
	return logSink{s.LogSink.WithValues(kv...), s.show}
}

// WithName implements [logr.LogSink].
func (s logSink) WithName(name string) logr.LogSink {
	return logSink{s.LogSink.WithName(name), s.show}
}
