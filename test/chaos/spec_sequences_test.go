package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
)

// How many sequences run, on how many clusters side by side. What a sequence waits for has its own limits; all of them
// together have none, because that would be a judgement about the machine.
const (
	fullSequences    = 30
	fullClusters     = 3
	boundedSequences = 1
)

// TestSpecSequences edits many fields, some while the edit before is still being carried out, some in ways that are
// refused or held. In the end the cluster is what the last spec alone makes of a new one. It is never made anew in
// between, so that each sequence begins where the one before left it.
func TestSpecSequences(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	clusters, count := 1, boundedSequences
	if full() {
		clusters, count = fullClusters, fullSequences
	}
	for i := range clusters {
		own := rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64()))
		share := (count + i) / clusters
		name := fmt.Sprintf("cluster%d", i)
		if !chaosenv.Part(t, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runSequences(t, own, share)
		})
	}
}

// runSequences runs so many sequences on one cluster.
func runSequences(t *testing.T, rnd *rand.Rand, count int) {
	rich := bases(t)[0]
	c := newCampaign(t, rich)
	if c.new == nil {
		c.new = newBench(t, rich)
	}
	// Without the Secrets that authorities name nothing can be locked, and no hold says so.
	leaves := slices.DeleteFunc(specLeaves(t), func(l leaf) bool { return strings.HasPrefix(l.path, "tls.authorities") })
	s := &sequences{campaign: c, rnd: rnd, leaves: leaves}
	begin := time.Now()
	for i := range count {
		if s.run(t, i); t.Failed() {
			return
		}
	}
	t.Logf("chaos: %d sequences in %s", count, time.Since(begin).Round(time.Second))
}

type sequences struct {
	*campaign
	rnd    *rand.Rand
	leaves []leaf
}

// run makes one sequence.
func (s *sequences) run(t *testing.T, number int) {
	t.Helper()
	injected("spec: sequence")
	spec := runtime.DeepCopyJSON(s.spec)
	accepted := []map[string]any{spec} // all that the API server took, the last at the end
	var deeds []string
	for range 3 + s.rnd.IntN(6) {
		next := runtime.DeepCopyJSON(spec)
		deed := s.edit(t, next)
		deeds = append(deeds, deed)
		if s.refusal(next) != nil {
			injected("spec: edit of a sequence, refused")
			continue
		}
		injected("spec: edit of a sequence")
		spec = next
		accepted = append(accepted, spec)
		if s.rnd.IntN(2) == 0 {
			if o := s.settle(); o.hold != nil {
				deeds = append(deeds, "(held: "+string(o.hold.Reason)+")")
			}
		}
	}
	// What ends in a hold is taken back, as the message says, edit by edit.
	for i := len(accepted) - 1; ; i-- {
		spec = withoutPolicy(accepted[i])
		if s.refusal(spec) != nil && i > 0 {
			continue
		}
		o := s.settle()
		if o.hold == nil {
			break
		}
		deeds = append(deeds, fmt.Sprintf("taken back, because of %s: %s", o.hold.Reason, o.hold.Message))
		if i == 0 {
			t.Errorf("sequence %d: the base is held after\n%s", number, strings.Join(deeds, "\n"))
			return
		}
	}
	name := fmt.Sprintf("sequence %d", number)
	s.checkAgainstNew(t, spec, name)
	if t.Failed() {
		t.Logf("%s was\n%s\nto %s", name, strings.Join(deeds, "\n"), encode(spec))
	}
	s.Sim.World().ResetRequests()
}

// edit changes one field at random, most of the time to a good value, and says which.
func (s *sequences) edit(t *testing.T, spec map[string]any) string {
	t.Helper()
	if s.rnd.IntN(8) == 0 {
		for k := range spec {
			delete(spec, k)
		}
		for k, v := range runtime.DeepCopyJSON(s.spec) {
			spec[k] = v
		}
		return "back to the base"
	}
	for {
		l := s.leaves[s.rnd.IntN(len(s.leaves))]
		places := locate(spec, l.path)
		if len(places) == 0 || strings.HasPrefix(l.path, "database.") {
			continue
		}
		p := places[s.rnd.IntN(len(places))]
		now := p.value(spec)
		var fit []mutation
		good := s.rnd.IntN(4) > 0
		for _, m := range l.mutations(now, l.good(t, now)) {
			if (m.class == classChanged) == good {
				fit = append(fit, m)
			}
		}
		if len(fit) == 0 {
			continue
		}
		m := fit[s.rnd.IntN(len(fit))]
		p.set(spec, m.value)
		return fmt.Sprintf("%s %s: %.80v", p, m.what, m.value)
	}
}

// withoutPolicy sets what makes a cluster by design depend on its past: a suspended one is not installed, a node that
// leaves under Retain is kept, and a mode of TLS that is left out stays what it was.
func withoutPolicy(spec map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(spec)
	delete(out, "suspend")
	lock, _ := out["tls"].(map[string]any)
	if lock["mode"] == nil {
		out["tls"] = map[string]any{"mode": string(tlsspec.Disabled)}
	}
	if nodes, ok := out["nodes"].(map[string]any); ok {
		nodes["removalPolicy"] = string(v1alpha1.NodesRemove)
	} else {
		out["nodes"] = map[string]any{"removalPolicy": string(v1alpha1.NodesRemove)}
	}
	return out
}
