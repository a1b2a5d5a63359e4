package harness

import (
	"sync"
	"time"
)

// Supervisor keeps an operator running, as its Deployment does.
type Supervisor struct {
	mu    sync.Mutex
	ends  []error
	stop  chan struct{}
	ended chan struct{}
}

// Supervise runs the operator, and starts another whenever one ends, with a back-off, until the test ends.
func (e *Env) Supervise() *Supervisor {
	s := &Supervisor{stop: make(chan struct{}), ended: make(chan struct{})}
	go s.run(e)
	e.T.Cleanup(s.Stop)
	return s
}

func (s *Supervisor) run(e *Env) {
	defer close(s.ended)
	const first, last = 100 * time.Millisecond, 2 * time.Second
	wait := first
	for {
		began := time.Now()
		op, err := e.launch()
		if err == nil {
			select {
			case err = <-op.Done:
			case <-s.stop:
				op.cancel()
				<-op.Done //nolint:errcheck // it was told to end
				return
			}
		}
		s.mu.Lock()
		s.ends = append(s.ends, err)
		s.mu.Unlock()
		if wait *= 2; time.Since(began) > 2*last {
			wait = first
		}
		select {
		case <-time.After(min(wait, last)):
		case <-s.stop:
			return
		}
	}
}

// Ends are what the operators so far ended with.
func (s *Supervisor) Ends() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.ends...)
}

// Stop ends the operator that runs and waits for it. It can be called more than once.
func (s *Supervisor) Stop() {
	s.mu.Lock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.mu.Unlock()
	<-s.ended
}
