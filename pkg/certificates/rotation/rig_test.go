package rotation_test

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
)

const day = 24 * time.Hour

// start is when the authority of these tests was made.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// The controller opens connections to satellites, and all satellites have one certificate.
var (
	controller = certificates.Profile{Name: "linstor-controller", Uses: certificates.Client}
	satellite  = certificates.Profile{Name: "linstor-satellite", Uses: certificates.Server}
)

// rig is what there is of one kind of connection.
type rig struct {
	t *testing.T
	rotation.Facts
}

// newRig is at rest, on the day on which all was made.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t, rotation.Facts{Now: start, OtherClock: start, Authority: "linstor-internal",
		Held: []rotation.Held{{Profile: controller}, {Profile: satellite}},
		Consumers: []rotation.Consumer{{Name: "controller", Leaf: controller.Name, Known: true},
			{Name: "n1", Leaf: satellite.Name, Known: true}, {Name: "n2", Leaf: satellite.Name, Known: true}}}}
	r.settle()
	return r
}

// do carries one decision out, and says which row made it.
func (r *rig) do() rotation.Decision {
	r.t.Helper()
	d := rotation.Decide(r.Facts)
	c, err := rotation.Do(r.Facts, d)
	if err != nil {
		r.t.Fatalf("%s: %v", d.Row, err)
	}
	if c.Succession != nil {
		r.Succession = *c.Succession
	}
	r.Held = slices.Clone(r.Held)
	for _, h := range c.Held {
		i := slices.IndexFunc(r.Held, func(o rotation.Held) bool { return o.Profile.Name == h.Profile.Name })
		r.Held[i] = h
	}
	return d
}

// restart has a consumer run with what is published.
func (r *rig) restart(names ...string) {
	r.Consumers = slices.Clone(r.Consumers)
	for i := range r.Consumers {
		c := &r.Consumers[i]
		if !slices.Contains(names, c.Name) {
			continue
		}
		for _, h := range r.Held {
			if h.Profile.Name == c.Leaf && h.Leaf != nil {
				c.RunsLeaf, c.RunsTrust, c.Known = h.Leaf.Hash(), h.Trust.Hash(), true
			}
		}
	}
}

func (r *rig) restartAll() { r.restart("controller", "n1", "n2") }

// until carries decisions out until that row decides, which is not carried out, and restarts nobody.
func (r *rig) until(row string) {
	r.t.Helper()
	for range 20 {
		if rotation.Decide(r.Facts).Row == row {
			return
		}
		r.do()
	}
	r.t.Fatalf("row %s never decides, but %s", row, rotation.Decide(r.Facts).Row)
}

// settle carries decisions out and restarts whom they wait for until nothing is left to do, and lists the rows.
func (r *rig) settle() (rows []string) {
	r.t.Helper()
	for range 40 {
		d := r.do()
		rows = append(rows, d.Row)
		switch d.Step {
		case rotation.Rest:
			return rows
		case rotation.Wait:
			r.restart(d.WaitsFor...)
		}
	}
	r.t.Fatalf("never at rest: %v", rows)
	return nil
}

// loseKey leaves the authority's certificate without its key.
func (r *rig) loseKey() {
	r.Succession.Current = &certificates.Authority{Certificate: r.Succession.Current.Certificate}
}

// loseSecret leaves nothing of the authorities' Secret.
func (r *rig) loseSecret() { r.Succession = certificates.Succession{} }

// at moves both clocks, after too.
func (r *rig) at(now time.Time) { r.Now, r.OtherClock = now, now }

func (r *rig) after(d time.Duration) { r.at(r.Now.Add(d)) }

// signAnew has one more certificate of a profile signed by the authority, as when it fell due.
func (r *rig) signAnew(i int) {
	r.t.Helper()
	l, err := r.Succession.Current.Sign(r.Held[i].Profile, r.Now)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Held = slices.Clone(r.Held)
	r.Held[i].Leaf = l
}

// phase1 has the next authority published, and nobody restarted.
func phase1(r *rig) {
	r.after(fourYears - day)
	r.settle()
	r.after(day)
	r.until("restart")
}

// phase2 has all certificates signed by the next authority, and nobody restarted since.
func phase2(r *rig) {
	phase1(r)
	r.restartAll()
	r.do()
	r.until("restart")
}

// named is an authority that is not of the succession.
func named(r *rig, name string) *x509.Certificate { return made(r, name, 0).Certificate }

// made is one with its key, of that age.
func made(r *rig, name string, age time.Duration) *certificates.Authority {
	r.t.Helper()
	a, err := certificates.NewAuthority(name, r.Now.Add(-age))
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}
