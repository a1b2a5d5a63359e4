package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

// TestAPIServerStops stops etcd, and in full the API server and both as well, while the cluster is at rest, while it
// is installed and while its spec changes. The operator asks neither the API server nor LINSTOR more than a little,
// and goes on when it is back.
func TestAPIServerStops(t *testing.T) {
	away, rounds, outages := 4*time.Second, 1, [][]string{{kubebin.Etcd}}
	if full() {
		away, rounds, outages = 20*time.Second, 2,
			append(outages, []string{kubebin.APIServer}, []string{kubebin.Etcd, kubebin.APIServer})
	}
	net := &apiNet{}
	e := harness.Start(t, harness.Nodes(3))
	net.attach(e)
	e.Lease = longLease // outlives the outages
	// Kubernetes' garbage collector, which removes the pods of a deleted DaemonSet, takes minutes to get over an outage,
	// and more than five where the machine is busy.
	e.Patience = 15 * time.Minute
	sup := e.Supervise()
	c := &course{scenario: installScenario(""), Env: e, wire: &wire{}}
	c.learn()
	install, remove := &c.steps[0], &c.steps[1]
	for round := range rounds {
		for _, components := range outages {
			t.Run(fmt.Sprint(round, components), func(t *testing.T) {
				r := *c
				r.Env = e.For(t)
				// In the middle of an installation.
				install.do(r.Env)
				r.Eventually("the installation is on its way", func() error {
					if p := status(r.Env).Phase; p == "" || p == v1alpha1.PhasePending {
						return errNotYet
					}
					return nil
				})
				r.outage(func() { r.quiet(net, away/2) }, components...)
				r.Eventually("the installation ends", func() error { return install.done(r.Env) })
				// At rest, and then there is something to do.
				r.settle()
				r.outage(func() { r.quiet(net, away) }, components...)
				apply(harness.ThinPool + devicePool +
					"  deletionPolicy: Delete\n  controller: {properties: {Aux/example.com/after: outage}}\n")(r.Env)
				r.Eventually("the changed spec is carried out", func() error {
					if got := r.View().Properties["Aux/example.com/after"]; got != "outage" {
						return fmt.Errorf("the property is %q", got)
					}
					return install.done(r.Env)
				})
				remove.play(r.Env)
				r.rewind()
			})
			if t.Failed() {
				return
			}
		}
	}
	if ends := sup.Ends(); len(ends) > 0 {
		t.Errorf("the operator ended %d times, first with %v", len(ends), ends[0])
	}
}

// quiet waits, and checks that the operator asks neither side in a hot loop meanwhile.
func (c *course) quiet(net *apiNet, d time.Duration) {
	c.T.Helper()
	api, asked := net.count(), len(c.Sim.World().Requests())
	began := time.Now()
	c.During(d, "the outage", func() error { return nil })
	seconds := time.Since(began).Seconds()
	api, asked = net.count()-api, len(c.Sim.World().Requests())-asked
	c.T.Logf("in %.1f s without API server: %d requests to it, %d to LINSTOR", seconds, api, asked)
	// A dozen watches try again about once a second at first, then less often. LINSTOR is looked at with five requests,
	// at most every PollWorking.
	if most := 25 + 25*seconds; float64(api) > most {
		c.T.Errorf("%d requests to the API server in %.1f s, at most %.0f are wanted", api, seconds, most)
	}
	if most := 20 + 8*seconds/c.Timing.PollWorking.Seconds(); float64(asked) > most {
		c.T.Errorf("%d requests to LINSTOR in %.1f s, at most %.0f are wanted", asked, seconds, most)
	}
}

// TestLeaseLostInAnOutage: an operator that cannot renew its lease ends, and the next one goes on where it was.
func TestLeaseLostInAnOutage(t *testing.T) {
	if !full() {
		t.Skip("the control plane takes long to come back: CHAOS=full runs this")
	}
	net := &apiNet{}
	e := harness.Start(t, harness.Nodes(3))
	net.attach(e)
	sup := e.Supervise()
	c := &course{scenario: installScenario(""), Env: e, wire: &wire{}}
	install := &c.steps[0]
	install.do(e)
	e.Eventually("the installation is on its way", func() error {
		if p := status(e).Phase; p == "" || p == v1alpha1.PhasePending {
			return errNotYet
		}
		return nil
	})
	c.outage(func() {
		e.Eventually("the operator ends", func() error {
			if len(sup.Ends()) == 0 {
				return errNotYet
			}
			return nil
		})
		c.quiet(net, 2*time.Second)
	}, kubebin.Etcd, kubebin.APIServer)
	e.Eventually("the installation ends", func() error { return install.done(e) })
	for what, n := range c.made() {
		if n > 1 {
			t.Errorf("%s was created %d times", what, n)
		}
	}
}
