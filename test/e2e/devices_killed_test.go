package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// cut is a transport that lets a number of writes about one node's pool through and then kills: the operator hears
// nothing any more, whether the write was carried out or not.
type cut struct {
	mu   sync.Mutex
	left int  // writes that pass
	done bool // the last write reaches LINSTOR, its answer does not reach the operator
	dead chan struct{}
}

var errCut = errors.New("the operator was killed here")

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.dead:
		return nil, errCut
	default:
	}
	if !aboutPool(r) {
		return http.DefaultTransport.RoundTrip(r)
	}
	if c.left--; c.left >= 0 {
		return http.DefaultTransport.RoundTrip(r)
	}
	close(c.dead)
	if c.done {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
	}
	return nil, errCut
}

// aboutPool reports whether a request is the intent, the end of a pool, the device step or the pool step.
func aboutPool(r *http.Request) bool {
	switch {
	case r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/v1/nodes/"):
		return strings.Contains(body(r), "intent.")
	case r.Method == http.MethodDelete:
		return strings.Contains(r.URL.Path, "/storage-pools/")
	case r.Method == http.MethodPost:
		return strings.HasPrefix(r.URL.Path, "/v1/physical-storage/") || strings.HasSuffix(r.URL.Path, "/storage-pools")
	default:
		return false
	}
}

// TestKilledWhileMakingPools kills the operator before and after each of the three writes that make a pool from disks.
func TestKilledWhileMakingPools(t *testing.T) {
	t.Parallel()
	for n, name := range []string{"intent", "devices", "pool"} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/carried out=%v", name, done), func(t *testing.T) {
				e := start(t, harness.Nodes(1))
				c := &cut{left: n, done: done, dead: make(chan struct{})}
				e.Transport = c
				e.Run()
				e.Apply(harness.Manifest(harness.DevicePool))
				e.Await("the operator gets to its end", c.dead)
				e.StopOperator()
				e.Transport = nil
				e.Run()
				e.WaitPhase(v1alpha1.PhaseReady)
				e.expectGroup("n1", "vg_new", "S4EV1")
				if steps := e.deviceSteps("n1"); len(steps) != 1 {
					t.Errorf("%d device steps", len(steps))
				}
				e.expectCarefulDevices()
			})
		}
	}
}
