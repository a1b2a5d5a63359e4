package sim

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/test/drbd/states"
)

// TestPromotionScore: the scores are those that a real DRBD reported in the same situation.
func TestPromotionScore(t *testing.T) {
	for _, s := range states.DRBD(t) {
		if s.Name == "diskless-primary-no-quorum-no-data" {
			continue // a lone Secondary keeps its quorum if the others left in turn, which is not simulated
		}
		w := NewWorld(Options{})
		db := &Database{world: w, content: content{nodes: map[string]*node{}}}
		dfn := &rscDfn{name: "pvc", resources: map[string]*resource{}}
		for _, r := range s.Resources {
			dfn.resources[key(r.Node)] = &resource{node: key(r.Node), nodeName: r.Node, diskState: r.States[0],
				diskless: !r.Diskful}
			db.nodes[key(r.Node)] = &node{name: r.Node, machine: r.Node}
			m := w.AddMachine(MachineSpec{Name: r.Node, Address: "10.0.0.1"})
			m.adjusted, m.module = true, "9.3.3"
			for peer, up := range r.Connected {
				if !up {
					w.Volumes().SetLink("pvc", r.Node, peer, Connecting)
				}
			}
		}
		for _, r := range s.Resources {
			if r.PromotionScore == nil {
				continue
			}
			if got := promotionScore(db, dfn, dfn.resources[key(r.Node)]); got != *r.PromotionScore {
				t.Errorf("%s: %s has the score %d, want %d", s.Name, r.Node, got, *r.PromotionScore)
			}
		}
	}
}
