// Package epoch notices that Kubernetes was put back in time, and LINSTOR was not.
//
// The claim and LINSTOR's controller keep the same number, which goes up as what LINSTOR has changes. Once etcd of
// Kubernetes, or the claim alone, was restored from a backup, the claim has a number of before. LINSTOR has a later
// one: a database of its own was not restored; and with the database kubernetes LINSTOR goes on with what it has in
// memory, since it never reads its resources again while it runs (linstor-server 1.34, resources put back under a
// running controller).
package epoch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// most bounds numbers: who raises one cannot overflow.
const most = 1 << 40

// ErrBehind is the error of a view of a LINSTOR that is of a later time than the claim.
var ErrBehind = errors.New("LINSTOR's state is newer than the state of Kubernetes")

// Epoch is what the claim says.
type Epoch struct {
	// Number is 0 where the claim has none.
	Number int
	// Least is what the next number has to be higher than where the claim has none.
	Least int
	// Since is when it went up.
	Since time.Time
	// of is a digest of what LINSTOR had then.
	of string
}

// forgotten begins what Forget has made.
const forgotten = "after "

// Forget is what the claim says as long as any number of LINSTOR's is right: its data is another one by consent, such
// as a backup. The next number is higher than all so far even so. Counted on from a lower one, what LINSTOR has left
// in a database of before would have a higher number, and be taken for the newest data that there is.
func Forget(claim string) string {
	e := Parse(claim)
	if least := max(e.Number, e.Least); least > 0 {
		return forgotten + strconv.Itoa(least)
	}
	return ""
}

// Parse reads what String or Forget has made, and is zero for everything else.
func Parse(s string) Epoch {
	var e Epoch
	if rest, is := strings.CutPrefix(s, forgotten); is {
		return Epoch{Least: number(rest)}
	}
	var since string
	if _, err := fmt.Sscan(s, &e.Number, &since, &e.of); err != nil || e.Number < 1 || e.Number > most {
		return Epoch{}
	}
	var err error
	if e.Since, err = time.Parse(time.RFC3339, since); err != nil {
		return Epoch{}
	}
	return e
}

// String is the epoch as the claim has it: number, time and digest.
func (e Epoch) String() string {
	return fmt.Sprintf("%d %s %s", e.Number, e.Since.UTC().Format(time.RFC3339), e.of)
}

// In is the number that LINSTOR has; 0 for none.
func In(v *linstor.View) int { return number(v.Properties[linstor.PropEpoch]) }

func number(property string) int {
	n, err := strconv.Atoi(property)
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}

// Behind reports whether the claim is of a time before LINSTOR's.
func Behind(claim string, v *linstor.View) bool {
	return v != nil && Before(claim, v.Properties[linstor.PropEpoch])
}

// Before reports whether the claim is of a time before that of a database whose property has that value. A claim
// without an epoch says nothing: it is new, or an older operator's. Nor does a database without one.
func Before(claim, property string) bool {
	n := Parse(claim).Number
	return n > 0 && number(property) > n
}

// Next is what the claim shall say. It stays what it is as long as LINSTOR has what it had, and for the time of every
// after each change: two writes are due with it. It stays as well where it is behind LINSTOR, or a cache of it is.
func Next(claim string, v *linstor.View, now time.Time, every time.Duration) string {
	e := Parse(claim)
	age := now.Sub(e.Since) // negative where a clock was ahead
	if e.Number > 0 && (age >= 0 && age < every || In(v) > e.Number) {
		return claim // mostly: no digest of all nodes is made then
	}
	of := digest(v)
	if e.Number > 0 && e.of == of {
		return claim
	}
	return Epoch{Number: max(e.Number, e.Least, In(v)) + 1, Since: now, of: of}.String()
}

// Raise is what the claim says once LINSTOR's data is in another database: what is left in the one of before is older
// from then on, and so is a claim that comes back with a restored Kubernetes. A claim without a number gets none.
func Raise(claim string, now time.Time) string {
	e := Parse(claim)
	if e.Number == 0 {
		return claim
	}
	return Follow(claim, e.Number+1, now)
}

// Follow is what the claim shall say once a human has said that it may go on with a LINSTOR of that number.
func Follow(claim string, number int, now time.Time) string {
	e := Parse(claim)
	e.Number, e.Since = max(e.Number, number), now
	return e.String()
}

// digest sums up what LINSTOR has, as far as each look shows it: its version, and the names of its nodes, how many
// volumes there are and the names of the first of them. A change that it does not show raises no number.
func digest(v *linstor.View) string {
	names := slices.Sorted(slices.Values(v.VolumeNames))
	return text.Digest([]any{v.Version, slices.Sorted(maps.Keys(v.Nodes)), v.Volumes, names})
}
