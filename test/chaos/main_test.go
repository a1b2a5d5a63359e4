// Package chaos breaks things while the operator works, and compares how it ends with a run in which nothing broke.
//
// Each campaign is one file: what it breaks (its classes of faults), when, and what must hold afterwards. In "go test"
// each runs a bounded part; CHAOS=full runs all of it. The random ones take their seed from SEED; without it, the
// bounded part takes a fixed one and the full one another each time. What was broken how often is counted and printed
// at the end.
package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

func TestMain(m *testing.M) {
	if settings := os.Getenv(operatorVariable); settings != "" {
		if err := runOperator(settings); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := harness.Main(m)
	faults.print()
	os.Exit(code)
}

// lookEvery is how often a whole cluster is looked at while something is waited for. Each look is some twenty lists,
// and the machine has other campaigns to run.
const lookEvery = 500 * time.Millisecond

// full reports whether whole campaigns run, not the part that fits into every test run.
func full() bool { return chaosenv.Full() }

// seeded is a source of random decisions. Its seed is printed, and SEED repeats a run.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed, _ := chaosenv.Seed(t)
	t.Logf("chaos: SEED=%d repeats this run of %s", seed, t.Name())
	return rand.New(rand.NewPCG(seed, seed))
}

// tally counts faults by class.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

var faults = tally{n: map[string]int{}}

// injected counts a fault of a class, such as "crash: reply lost". It is safe for concurrent use.
func injected(class string) {
	faults.mu.Lock()
	defer faults.mu.Unlock()
	faults.n[class]++
}

// print lists the classes with their counts.
func (t *tally) print() {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := 0
	for _, class := range slices.Sorted(maps.Keys(t.n)) {
		fmt.Fprintf(os.Stdout, "chaos: %6d × %s\n", t.n[class], class)
		sum += t.n[class]
	}
	fmt.Fprintf(os.Stdout, "chaos: %6d faults in all\n", sum)
}
