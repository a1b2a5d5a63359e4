package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
)

// TestSpec changes every field of the spec that the schema has, in every way that the schema suggests, and takes it
// back:
//   - what the API server refuses names the field, and changes nothing;
//   - what cannot work ends in a hold that names the field, the pool or the nodes;
//   - everything else is what a new cluster with that spec is (CHAOS=full);
//   - the change taken back, the cluster is what it was, within a minute.
func TestSpec(t *testing.T) {
	t.Parallel()
	leaves := specLeaves(t)
	if len(leaves) < 90 {
		t.Fatalf("only %d fields were found", len(leaves))
	}
	all := bases(t)
	byBase := map[string][]leaf{}
	for _, l := range leaves {
		s := baseOf(all, l.path)
		if strings.HasPrefix(l.path, elsewhere) {
			continue
		}
		if s == nil {
			t.Errorf("%s: no base has its section: add it to one", l.path)
		} else {
			byBase[s.name] = append(byBase[s.name], l)
		}
	}
	for _, s := range all {
		// As many clusters as share the fields evenly: each takes its time for one after the other.
		clusters := 1
		if full() {
			clusters += len(byBase[s.name]) / mostFields
		}
		for i := range clusters {
			name := s.name
			if i > 0 {
				name += fmt.Sprint(i + 1)
			}
			if !chaosenv.Part(t, name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newCampaign(t, s)
				for k, l := range byBase[s.name] {
					if k%clusters == i {
						c.leaf(t, l)
					}
				}
				c.end(t)
			})
		}
	}
}

// mostFields are about as many as one cluster has time for.
const mostFields = 20

// baseOf is the base in which a field is changed; nil if none has its section.
func baseOf(all []base, path string) *base {
	var found *base
	for i, s := range all {
		if strings.HasPrefix(path, s.within) && len(locate(tree(s.spec), path)) > 0 &&
			(found == nil || len(s.within) > len(found.within)) {
			found = &all[i]
		}
	}
	return found
}

// campaign tries changes of one base.
type campaign struct {
	*bench
	spec   map[string]any
	normal state
	// new is the cluster on which specs are installed afresh; nil in the bounded run.
	new *bench
}

func newCampaign(t *testing.T, s base) *campaign {
	t.Helper()
	c := startCampaign(t, s)
	if full() {
		c.new = newBench(t, s)
	}
	return c
}

// startCampaign is newCampaign for changes that are not compared with a new cluster.
func startCampaign(t *testing.T, s base) *campaign {
	t.Helper()
	c := &campaign{bench: newBench(t, s), spec: s.tree()}
	var o verdict
	if c.normal, o = c.fresh(c.spec); c.normal == nil {
		t.Fatalf("the base is held: %+v", o.hold)
	}
	return c
}

// leaf tries what can be done to one field.
func (c *campaign) leaf(t *testing.T, l leaf) {
	t.Helper()
	p := locate(c.spec, l.path)[0]
	now := p.value(c.spec)
	quick := true
	for _, m := range l.mutations(now, l.good(t, now)) {
		if !full() && !m.invalid && (m.class != classChanged || !quick || rolls(l.path) || l.path == waitsForDeadline) {
			continue
		}
		name := fmt.Sprintf("%s: %s", l.path, m.what)
		before := t.Failed()
		c.try(t, l, p, m, name)
		if !m.invalid {
			quick = false
		}
		if t.Failed() && !before {
			t.Logf("the first failure was in %q", name)
		}
	}
}

// waitsForDeadline is held only after a phase has had its time, which the bounded run does not have.
const waitsForDeadline = "nodes.nodeSelector{}"

// rolls reports whether a change of the field restarts pods, which the bounded run has no time for.
func rolls(path string) bool {
	plain := strings.ReplaceAll(path, "{}", "")
	for _, f := range specchange.Fields() {
		if f.Class == specchange.ClassRolling && (strings.HasPrefix(plain, f.Path) || strings.HasPrefix(f.Path, plain)) {
			return true
		}
	}
	return false
}

// try makes one change and takes it back.
func (c *campaign) try(t *testing.T, l leaf, p place, m mutation, name string) {
	t.Helper()
	spec := runtime.DeepCopyJSON(c.spec)
	p.set(spec, m.value)
	before := c.Get()
	err := c.refusal(spec)
	after := c.Get()
	injected(m.class)
	switch {
	case err != nil:
		if !names(err.Error(), c.words(l, p)) {
			t.Errorf("%s: the refusal does not name the field: %v", name, err)
		}
		if after.Generation != before.Generation {
			t.Errorf("%s: refused, but the spec has changed", name)
		}
		m.checkSays(t, err.Error(), name)
		return
	case m.invalid:
		t.Errorf("%s: %v is accepted", name, m.value)
	case after.Generation == before.Generation:
		return // it means the same
	}
	start := time.Now()
	o := c.settle()
	switch {
	case o.hold != nil:
		t.Logf("%s: held after %s: %s: %s", name, time.Since(start).Round(100*time.Millisecond), o.hold.Reason,
			o.hold.Message)
		c.checkHold(t, l, p, m, o, name)
	case o.suspended:
	case m.says != nil:
		t.Errorf("%s: carried out without a question", name)
	default:
		c.checkCarriedOut(t, l, m, spec, name)
	}
	if m.check != nil {
		m.check(o)
	}
	c.mustPut(c.spec)
	start = time.Now()
	if diff := c.becomes(c.normal); diff != "" {
		t.Errorf("%s: taken back, but %s later there are differences:\n%s\n%s", name, time.Since(start).Round(time.Second),
			diff, c.Get().Status.Message)
		c.normalise(t)
	}
	c.Sim.World().ResetRequests()
}

// normalise makes the base anew after a failure, so that what follows has a fair start.
func (c *campaign) normalise(t *testing.T) {
	t.Helper()
	again, _ := c.fresh(c.spec)
	if diff := differences(c.normal, again); diff != "" {
		t.Fatalf("the base installed anew differs:\n%s", diff)
	}
}

// words are what a message about a field may name it by: its name, its section or its pool.
func (c *campaign) words(l leaf, p place) []string {
	words := []string{l.name()}
	if path := parts(l.path); len(path) > 1 {
		words = append(words, "spec."+strings.Join(path[:len(path)-1], "."))
	}
	if pool, ok := p.steps[0].(string); ok && pool == "storagePools" && len(p.steps) > 1 {
		entry, _ := place{steps: p.steps[:2]}.value(c.spec).(map[string]any)
		if n, ok := entry["name"].(string); ok {
			words = append(words, n)
		}
	}
	return words
}

// names reports whether a message names one of the words.
func names(message string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(message, w) })
}

// checkHold: whoever reads the hold must know which field, pool or node to look at.
func (c *campaign) checkHold(t *testing.T, l leaf, p place, m mutation, o verdict, name string) {
	t.Helper()
	if words := c.words(l, p); m.says == nil && !names(o.hold.Message, words) {
		t.Errorf("%s: the hold names none of %q: %s: %s", name, words, o.hold.Reason, o.hold.Message)
	}
	m.checkSays(t, o.hold.Message, name)
	if m.class == classChanged && goodButHeld[l.path] == "" {
		t.Errorf("%s: a good value is held: %s: %s", name, o.hold.Reason, o.hold.Message)
	}
}

// checkSays: a refusal, or a hold, must name these.
func (m *mutation) checkSays(t *testing.T, message, name string) {
	t.Helper()
	for _, part := range m.says {
		if !strings.Contains(message, part) {
			t.Errorf("%s: the message lacks %q: %s", name, part, message)
		}
	}
}

// checkCarriedOut: the change has an effect, and the cluster is as if it had been installed so.
func (c *campaign) checkCarriedOut(t *testing.T, l leaf, m mutation, spec map[string]any, name string) {
	t.Helper()
	// What is a bound or an odd text to the API server is a value like any other afterwards.
	if c.new != nil && m.class == classChanged && !strings.HasPrefix(l.path, madeOnce) {
		c.checkAgainstNew(t, spec, name)
	}
	if m.class != classChanged || silent(l.path) {
		return
	}
	if same := c.inTime(func() string {
		if got, err := c.look(); err == nil && differences(c.normal, got) == "" {
			return "nothing is different"
		}
		return ""
	}); same != "" {
		t.Errorf("%s: accepted, but %s", name, same)
	}
}

// silent reports whether a change of a field shows nowhere but in the spec: fields that hold at once are read when
// they are needed.
func silent(path string) bool {
	plain := strings.ReplaceAll(path, "{}", "")
	for _, f := range specchange.Fields() {
		if f.Path == plain && f.Class == specchange.ClassImmediate && plain != "nodes.minReady" {
			return true
		}
	}
	return slices.Contains([]string{"version"}, path)
}

// checkAgainstNew compares the cluster with a new one that has the same spec.
func (c *campaign) checkAgainstNew(t *testing.T, spec map[string]any, name string) {
	t.Helper()
	want, o := c.new.fresh(spec)
	switch {
	case o.hold != nil:
		t.Errorf("%s: a new cluster with this spec is held: %s: %s", name, o.hold.Reason, o.hold.Message)
	case want == nil:
	default:
		if diff := c.becomes(want); diff != "" {
			t.Errorf("%s: differences from a new cluster (-new +changed):\n%s", name, diff)
		}
	}
}

// end looks whether all that was refused and taken back left the cluster as it was.
func (c *campaign) end(t *testing.T) {
	t.Helper()
	if diff := c.becomes(c.normal); diff != "" {
		t.Errorf("after all changes:\n%s", diff)
	}
}
