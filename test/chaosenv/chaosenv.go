// Package chaosenv says how much of the fault campaigns runs, and from which seed: see docs/chaos.md.
package chaosenv

import (
	"fmt"
	"hash/fnv"
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

// Part reports whether a piece of a whole campaign runs in this part of it: PART=3/6 is the third of six, so that what
// takes an hour can be had in sittings of minutes. Without PART all pieces run. A piece has the name of its subtest,
// and is always in the same part.
func Part(t testing.TB, piece string) bool {
	t.Helper()
	text := os.Getenv("PART")
	if text == "" {
		return true
	}
	part, of, err := parsePart(text)
	if err != nil {
		t.Fatal(err)
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(t.Name() + "/" + piece))
	return int(sum.Sum32()%uint32(of)) == part-1
}

func parsePart(text string) (part, of int, err error) {
	if n, err := fmt.Sscanf(text, "%d/%d", &part, &of); n != 2 || err != nil || part < 1 || part > of ||
		text != fmt.Sprintf("%d/%d", part, of) {
		return 0, 0, fmt.Errorf("PART=%s is no part of a whole, such as 3/6", text)
	}
	return part, of, nil
}
