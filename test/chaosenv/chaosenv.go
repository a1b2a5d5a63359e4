// Package chaosenv says how much of the fault campaigns runs, and from which seed: see docs/chaos.md.
package chaosenv

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Full reports whether whole campaigns run (CHAOS=full), not the part that fits into every test run.
func Full() bool { return os.Getenv("CHAOS") == "full" }

// fixedSeed is the seed of the bounded runs: what they find must not depend on the day.
const fixedSeed = 1

// Seed is what random decisions are made from. SEED gives it; without that, the bounded part takes a fixed one and the
// full one another each time.
func Seed(t testing.TB) (seed uint64, given bool) {
	t.Helper()
	if text := os.Getenv("SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SEED=%s: %v", text, err)
		}
		return n, true
	}
	if Full() {
		return uint64(time.Now().UnixNano()), false
	}
	return fixedSeed, false
}
