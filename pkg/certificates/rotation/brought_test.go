package rotation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
)

// bring has somebody bring an authority of that age.
func (r *rig) bring(age time.Duration) {
	r.Brings, r.Brought = true, made(r, "theirs", age)
}

// brought is at rest with an authority of that age that somebody has brought.
func brought(r *rig, age time.Duration) {
	r.bring(age)
	r.settle()
}

// broughtScenarios are about authorities that somebody else makes.
var broughtScenarios = map[string]scenario{
	"a new cluster, whose authority is brought": {spoil: func(r *rig) {
		*r = rig{r.t, rotation.Facts{Now: start, OtherClock: start, Authority: "x",
			Held: []rotation.Held{{Profile: controller}}}}
		r.bring(0)
	}, row: "first", step: rotation.MakeFirst, then: []string{"first", "leaf-missing", "rest"}},
	"a new cluster, whose authority is to be brought": {spoil: func(r *rig) {
		*r = rig{r.t, rotation.Facts{Now: start, OtherClock: start, Authority: "x", Brings: true,
			Held: []rotation.Held{{Profile: controller}}}}
	}, row: rotation.RowNotBrought, step: rotation.Wait},
	"an authority is brought": {spoil: func(r *rig) { r.bring(0) }, row: "brought", step: rotation.MakeNext,
		then: []string{"brought", "publish", "restart", "trusted", "leaf-old-authority", "leaf-old-authority", "restart",
			"unused", "publish", "restart", "rest"}},
	"an authority is brought that lives no more than a month": {spoil: func(r *rig) { r.bring((5*365 - 30) * day) },
		row: "brought", step: rotation.MakeNext, then: []string{"brought", "publish", "restart", "trusted",
			"leaf-old-authority", "leaf-old-authority", "restart", "unused", "publish", "restart", "rest"}},
	"one is to be brought to a cluster that has its own": {spoil: func(r *rig) { r.Brings = true }, row: "rest",
		step: rotation.Rest},
	"another one is brought": {spoil: func(r *rig) {
		brought(r, 0)
		r.bring(0)
	}, row: "brought", step: rotation.MakeNext, then: []string{"brought", "publish", "restart", "trusted",
		"leaf-old-authority", "leaf-old-authority", "restart", "unused", "publish", "restart", "rest"}},
	"another one is brought before the one of before signs": {spoil: func(r *rig) {
		r.bring(0)
		r.until("restart")
		r.bring(0)
	}, row: "brought", step: rotation.MakeNext, waits: []string{"controller", "n1", "n2"}, then: []string{"brought",
		"publish", "unused", "publish", "restart", "trusted", "leaf-old-authority", "leaf-old-authority", "restart",
		"unused", "publish", "restart", "rest"}},
	"the key of the one that was brought is lost": {spoil: func(r *rig) {
		brought(r, 0)
		r.loseKey()
	}, row: "brought", step: rotation.MakeNext, then: []string{"brought", "trusted", "unused", "rest"}},
	"the authorities' Secret is gone, and they are brought": {spoil: func(r *rig) {
		brought(r, 0)
		r.loseSecret()
	}, row: "in-use", step: rotation.Adopt, waits: []string{"controller", "n1", "n2"}, then: []string{"in-use", "brought",
		"trusted", "unused", "rest"}},
	"the authorities' Secret is gone, and nobody brings one": {spoil: func(r *rig) {
		brought(r, 0)
		r.loseSecret()
		r.Brought = nil
		r.do()
	}, row: rotation.RowNotBrought, step: rotation.Wait},
	"what was brought is taken away": {spoil: func(r *rig) {
		brought(r, 0)
		r.Brought = nil
		r.after(70 * day)
	}, row: "leaf-due", step: rotation.Sign, leaf: controller.Name, then: []string{"leaf-due", "leaf-due", "restart",
		"rest"}},
	"the one that was brought is due, and nobody brings the next one": {spoil: func(r *rig) {
		brought(r, fourYears)
		r.after(100 * day)
	}, row: "leaf-expired", step: rotation.Sign, leaf: controller.Name, then: []string{"leaf-expired", "leaf-expired",
		"restart", "rest"}},
	"the one that was brought ends before its certificates fall due again": {spoil: func(r *rig) {
		brought(r, (5*365-30)*day)
		r.after(29 * day)
	}, row: "rest", step: rotation.Rest},
	"one consumer does not trust the one that is brought, and the present one ends in a week": {spoil: func(r *rig) {
		brought(r, (5*365-30)*day)
		r.bring(0)
		r.until("restart")
		r.after(23 * day)
	}, row: "restart", step: rotation.Wait, waits: []string{"controller", "n1", "n2"}},
	"one consumer does not trust the one that is brought, and the present one ends today": {spoil: func(r *rig) {
		brought(r, (5*365-30)*day)
		r.bring(0)
		r.until("restart")
		r.after(29*day + time.Second)
	}, row: "out-of-time", step: rotation.Promote, waits: []string{"controller", "n1", "n2"}},
	"authorities are not brought any more": {spoil: func(r *rig) {
		brought(r, 0)
		r.Brings, r.Brought = false, nil
	}, row: "not-brought-any-more", step: rotation.MakeNext, then: []string{"not-brought-any-more", "publish", "restart",
		"trusted", "leaf-old-authority", "leaf-old-authority", "restart", "unused", "publish", "restart", "rest"}},
	"the one that signs is brought again before the other one signs": {spoil: func(r *rig) {
		brought(r, 0)
		first := r.Brought
		r.bring(0)
		r.until("restart")
		r.Brought = first
	}, row: "withdrawn", step: rotation.Withdraw, waits: []string{"controller", "n1", "n2"}, then: []string{"withdrawn",
		"publish", "rest"}},
	"the next one has expired before all trust it": {spoil: func(r *rig) {
		brought(r, 0)
		r.bring((5*365 - 30) * day)
		r.until("restart")
		r.Brought = nil
		r.after(31 * day)
	}, row: "withdrawn", step: rotation.Withdraw, waits: []string{"controller", "n1", "n2"}},
	"authorities are not brought any more, and their Secret is lost": {spoil: func(r *rig) {
		brought(r, 0)
		r.Brings, r.Brought = false, nil
		r.loseSecret()
	}, row: "in-use", step: rotation.Adopt, waits: []string{"controller", "n1", "n2"}, then: []string{"in-use", "lost",
		"publish", "restart", "trusted", "leaf-old-authority", "leaf-old-authority", "restart", "unused", "publish",
		"restart", "rest"}},
	"they are not brought any more before the first one signs": {spoil: func(r *rig) {
		r.bring(0)
		r.until("restart")
		r.Brings, r.Brought = false, nil
	}, row: "withdrawn", step: rotation.Withdraw, waits: []string{"controller", "n1", "n2"}, then: []string{"withdrawn",
		"publish", "rest"}},
}

// bringOrNot has somebody change who makes the authorities, or lose their Secrets. Each one that is brought has a key
// of its own.
func bringOrNot(earlier *[]*certificates.Authority) func(*world) {
	return func(w *world) {
		switch n := w.chance.IntN(6); {
		case n == 0 && len(*earlier) > 0:
			w.Brings, w.Brought = true, (*earlier)[w.chance.IntN(len(*earlier))]
		case n <= 2:
			a, err := certificates.NewAuthority("theirs", w.Now)
			if err != nil {
				w.t.Fatal(err)
			}
			*earlier = append(*earlier, a)
			w.Brings, w.Brought = true, a
		case n == 3:
			w.Brings, w.Brought = false, nil
		case n == 4:
			w.Brought = nil
		default:
			w.Succession = certificates.Succession{}
		}
		w.last = rotation.Decision{} // it said until when nothing changes by itself
	}
}

// TestBroughtForYears: authorities are brought, replaced, put back and given up, and the authorities' Secret is lost,
// also before the step before is over. No pair ever fails to connect.
func TestBroughtForYears(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, internal())
			w.patience, w.mishap = 8*day, bringOrNot(&[]*certificates.Authority{})
			w.live(4*year, nobody)
		})
	}
}
