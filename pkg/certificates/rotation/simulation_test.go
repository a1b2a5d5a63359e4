package rotation_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/certificatestest"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
)

const (
	year = 365 * day
	tick = day
)

// process is a part of LINSTOR, with what it has read when it started.
type process struct {
	name    string
	profile certificates.Profile
	certificates.Material
	// restart is when its turn comes; zero if it is not to be restarted.
	restart time.Time
	// fresh is one that has started, and that nobody has spoken to since.
	fresh bool
}

// world is one kind of connection, with a clock that is moved forward.
type world struct {
	t *testing.T
	rotation.Facts
	processes []*process
	chance    *rand.Rand
	// patience is within which time a process is restarted that is to be.
	patience time.Duration
	// away are the times at which the operator, or a process by that name, does nothing.
	away map[string][2]time.Duration
	// keys are those ever seen, with the certificate that each belongs to.
	keys map[string]string
	last rotation.Decision
	// mishap happens about every 90 days; nil for none.
	mishap func(*world)
	// backups are successions as they were once.
	backups []certificates.Succession
	// writes is how often a Secret was written.
	writes, handshakes int
}

func newWorld(t *testing.T, seed uint64, profiles map[string]certificates.Profile) *world {
	w := &world{t: t, chance: rand.New(rand.NewPCG(seed, 1)),
		patience: 25 * day, keys: map[string]string{},
		Facts: rotation.Facts{Now: start, Authority: "linstor-test"}}
	for name, p := range profiles {
		w.processes = append(w.processes, &process{name: name, profile: p})
		if !slices.ContainsFunc(w.Held, func(h rotation.Held) bool { return h.Profile.Name == p.Name }) {
			w.Held = append(w.Held, rotation.Held{Profile: p})
		}
	}
	slices.SortFunc(w.processes, func(a, b *process) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	slices.SortFunc(w.Held, func(a, b rotation.Held) int {
		return bytes.Compare([]byte(a.Profile.Name), []byte(b.Profile.Name))
	})
	for range 10 { // the installation: nothing runs before its Secret is there
		w.step(w.Now)
	}
	for _, p := range w.processes {
		w.start(p)
	}
	return w
}

func (w *world) isAway(who string) bool {
	times, ok := w.away[who]
	since := w.Now.Sub(start)
	return ok && since >= times[0] && since < times[1]
}

// start has a process read what is published.
func (w *world) start(p *process) {
	for _, h := range w.Held {
		if h.Profile.Name == p.profile.Name {
			p.Leaf, p.Trust = h.Leaf, h.Trust
		}
	}
	p.restart, p.fresh = time.Time{}, true
}

// step is one reconcile of the operator, by its clock.
func (w *world) step(now time.Time) {
	w.t.Helper()
	f := w.Facts
	f.Now, f.OtherClock, f.Consumers = now, w.Now, nil
	if w.chance.IntN(100) == 0 {
		f.OtherClock = time.Time{} // it was not seen
	}
	for _, p := range w.processes {
		c := rotation.Consumer{Name: p.name, Leaf: p.profile.Name, Known: w.chance.IntN(50) > 0, RunsTrust: p.Trust.Hash()}
		if p.Leaf != nil {
			c.RunsLeaf = p.Leaf.Hash()
		}
		f.Consumers = append(f.Consumers, c)
	}
	d := rotation.Decide(f)
	change, err := rotation.Do(f, d)
	if err != nil {
		w.t.Fatalf("%v: %s: %v", w.Now, d.Row, err)
	}
	if w.last.Step == rotation.Rest && now.Before(w.last.Again) && d.Step != rotation.Rest && d.Step != rotation.Wait {
		w.t.Fatalf("%v: at rest until %v, and then %s", now, w.last.Again, d.Row)
	}
	w.last = d
	if s := change.Succession; s != nil {
		w.Succession = *s
		w.writes++
	}
	for _, h := range change.Held {
		w.Held[slices.IndexFunc(w.Held, func(o rotation.Held) bool { return o.Profile.Name == h.Profile.Name })] = h
		w.writes++
	}
	for _, p := range w.processes {
		if slices.Contains(d.WaitsFor, p.name) && p.restart.IsZero() && d.Step == rotation.Wait {
			p.restart = w.Now.Add(time.Duration(w.chance.Int64N(int64(w.patience))))
		}
	}
	w.keysOnce()
}

// keysOnce fails if a key belongs to two certificates.
func (w *world) keysOnce() {
	w.t.Helper()
	var all []*x509.Certificate
	for _, a := range []*certificates.Authority{w.Succession.Current, w.Succession.Next} {
		if a != nil {
			all = append(all, a.Certificate)
		}
	}
	for _, h := range w.Held {
		if h.Leaf != nil {
			all = append(all, h.Leaf.Certificate)
		}
	}
	for _, c := range all {
		key, cert := string(c.RawSubjectPublicKeyInfo), certificates.Fingerprint(c)
		if other, ok := w.keys[key]; ok && other != cert {
			w.t.Fatalf("%v: the key of %s belongs to another certificate, too", w.Now, c.Subject)
		}
		w.keys[key] = cert
	}
}

// speak has pairs speak to each other that can, those with a fresh one or all, but for those of whom one is excused.
// It lists those that fail.
func (w *world) speak(all bool, excused func(*process) bool) (failed []string) {
	for _, c := range w.processes {
		for _, s := range w.processes {
			if c == s || c.profile.Uses&certificates.Client == 0 || s.profile.Uses&certificates.Server == 0 ||
				excused(c) || excused(s) || !all && !c.fresh && !s.fresh {
				continue
			}
			w.handshakes++
			err := certificatestest.Handshake(certificatestest.Server(s.Material, w.Now),
				certificatestest.Client(c.Material, "", w.Now))
			if err != nil {
				failed = append(failed, fmt.Sprintf("%s to %s: %v", c.name, s.name, err))
			}
		}
	}
	return failed
}

// reconcile has the operator do a step, if it is not away, and then a mishap, if it is time for one.
func (w *world) reconcile() {
	w.t.Helper()
	if !w.isAway("operator") {
		now := w.Now
		if w.chance.IntN(100) == 0 {
			now = now.Add(time.Duration(w.chance.IntN(12)-2) * year) // its clock is wrong for once
		}
		w.step(now)
	}
	if w.mishap != nil && w.chance.IntN(90) == 0 {
		w.mishap(w)
	}
}

// live moves the clock forward for so long. All pairs must speak to each other at every moment, but for those of whom
// one is excused.
func (w *world) live(long time.Duration, excused func(*process) bool) {
	w.t.Helper()
	for i := 0; w.Now.Sub(start) < long; i++ {
		w.Now = w.Now.Add(tick)
		w.reconcile()
		for _, p := range w.processes {
			itself := w.chance.IntN(100) == 0 // it crashes
			if !w.isAway(p.name) && (itself || !p.restart.IsZero() && w.Now.After(p.restart)) {
				w.start(p)
			}
		}
		// Between changes only the dates can end something; they are looked at always, the rest now and then.
		expired := slices.ContainsFunc(w.processes, func(p *process) bool {
			return !excused(p) && w.Now.After(p.Leaf.Certificate.NotAfter)
		})
		if failed := w.speak(expired || i%60 == 0, excused); len(failed) > 0 {
			w.t.Fatalf("%v, after %s: %v", w.Now, w.last.Row, failed)
		}
		for _, p := range w.processes {
			p.fresh = p.fresh && excused(p)
		}
	}
}

func nobody(*process) bool { return false }

// internal is a controller and its satellites.
func internal() map[string]certificates.Profile {
	return map[string]certificates.Profile{"controller": controller, "n1": satellite, "n2": satellite, "n3": satellite}
}

// members are those of etcd, who speak to each other.
func members() map[string]certificates.Profile {
	out := map[string]certificates.Profile{"linstor": {Name: "etcd-client", Uses: certificates.Client}}
	for _, n := range []string{"etcd-0", "etcd-1"} {
		out[n] = certificates.Profile{Name: n, Uses: certificates.Both}
	}
	return out
}

// TestTwelveYears has processes that are restarted up to 25 days late, that crash at any time, and of which nothing is
// known now and then; the operator's clock is behind now and then. No pair ever fails to connect.
func TestTwelveYears(t *testing.T) {
	years := 12
	if testing.Short() {
		years = 5
	}
	for name, world := range map[string]*world{"internal": newWorld(t, 0, internal()),
		"internal, another order": newWorld(t, 1, internal()), "etcd": newWorld(t, 0, members())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world
			w.t = t
			w.live(time.Duration(years)*year, nobody)
			// Each certificate is renewed every 60 days, and every four years there is another authority.
			most := (years*365/60+1)*len(w.Held) + years/4*(3+3*len(w.Held)) + 10
			if w.writes > most {
				t.Errorf("%d writes, %d at most", w.writes, most)
			}
			if got := w.Succession.Current.Certificate.NotBefore.Sub(start); got < time.Duration((years-1)/4)*fourYears-day {
				t.Errorf("the authority is of day %d", got/day)
			}
			t.Logf("%d writes, %d handshakes, %d keys", w.writes, w.handshakes, len(w.keys))
		})
	}
}

// loseAuthorities has something happen to the Secret of the authorities.
func loseAuthorities(w *world) {
	keyless := func(a *certificates.Authority) *certificates.Authority {
		if a == nil {
			return nil
		}
		return &certificates.Authority{Certificate: a.Certificate}
	}
	s := w.Succession
	switch w.chance.IntN(6) {
	case 0:
		s.Current = keyless(s.Current)
	case 1:
		s.Next = keyless(s.Next)
	case 2:
		s = certificates.Succession{}
	case 3:
		s.Old = nil
	case 4:
		if len(w.backups) > 0 {
			s = w.backups[w.chance.IntN(len(w.backups))]
		}
	default:
		w.backups = append(w.backups, s)
	}
	w.Succession, w.last = s, rotation.Decision{}
}

// TestAuthoritiesAreLost: keys are lost, and the Secret of the authorities is, or is put back from whatever backup. No
// pair ever fails to connect, since what is in use can be seen.
func TestAuthoritiesAreLost(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, internal())
			w.patience, w.mishap = 8*day, loseAuthorities
			w.live(4*year, nobody)
		})
	}
}

// TestOneIsAway: one satellite is away for most of a year while the authority changes, or longer than the overlap. All
// others speak to each other always, and it is one of them again once it is restarted.
func TestOneIsAway(t *testing.T) {
	for name, times := range map[string][2]time.Duration{
		"while the authority changes": {fourYears - 10*day, fourYears + 200*day},
		"longer than the overlap":     {fourYears - 10*day, fourYears + 500*day},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 7, internal())
			w.away = map[string][2]time.Duration{"n3": times}
			away := func(p *process) bool {
				since := w.Now.Sub(start)
				return p.name == "n3" && since >= times[0] && since < times[1]+w.patience
			}
			w.live(7*year, away)
			if rest := w.Succession; rest.Next != nil || len(rest.Old) != 0 {
				t.Error("the authority's change has not ended")
			}
		})
	}
}

// TestTheOperatorIsAway: what has expired meanwhile is mended when it comes back, and all speak to each other within
// the time that restarts take.
func TestTheOperatorIsAway(t *testing.T) {
	for name, times := range map[string][2]time.Duration{
		"for a year":                    {2 * year, 3 * year},
		"while the authority fell due":  {fourYears - 50*day, fourYears + 310*day},
		"when the authority had days":   {fourYears - 50*day, 5*year - 5*day},
		"when the authority had ended":  {fourYears - 50*day, 6 * year},
		"when it had begun with that":   {fourYears + 30*day, 5*year + 30*day},
		"when all of it was long since": {fourYears + 30*day, 11 * year},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3, internal())
			w.away = map[string][2]time.Duration{"operator": times}
			mended := times[1] + w.patience + 10*tick
			w.live(times[1]+2*year, func(*process) bool {
				since := w.Now.Sub(start)
				return since >= times[0] && since < mended
			})
			if rest := w.Succession; rest.Next != nil || len(rest.Old) != 0 {
				t.Error("the authority's change has not ended")
			}
		})
	}
}

// TestStoresStayTheSame: what is at rest is made anew at every reconcile, and must be the same.
func TestStoresStayTheSame(t *testing.T) {
	r := newRig(t)
	for _, h := range r.Held {
		one, err := javastore.Data(h.Leaf, h.Trust)
		if err != nil {
			t.Fatal(err)
		}
		two, err := javastore.Data(h.Leaf, h.Trust)
		if err != nil {
			t.Fatal(err)
		}
		for entry := range one {
			if !bytes.Equal(one[entry], two[entry]) {
				t.Errorf("%s is another one each time", entry)
			}
		}
	}
}
