package machine

import (
	"testing"
	"time"
)

// TestMachineTime: a machine that does the same work in n times the time has an n-th of it, and what it stood still
// does not count.
func TestMachineTime(t *testing.T) {
	now := time.Unix(0, 0)
	loop := usualProbe
	m := newClock(func() time.Time { return now }, func() { now = now.Add(loop) })
	passes := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); {
			now = now.Add(probeEvery - loop)
			m.probe()
		}
	}
	check := func(when string, least, most time.Duration, slowness float64) {
		t.Helper()
		elapsed, slow := m.read()
		if elapsed < least || elapsed > most || slow < slowness*0.9 || slow > slowness*1.1 {
			t.Errorf("%s: machine time %s, slowness %.2f, want %s to %s and %.2f", when, elapsed, slow, least, most, slowness)
		}
	}
	passes(time.Minute)
	check("a usual machine", 59*time.Second, 61*time.Second, 1)
	loop = usualProbe / 2
	passes(time.Minute)
	check("a faster one", 118*time.Second, 122*time.Second, 1)
	loop = 10 * usualProbe
	passes(10 * time.Minute)
	check("one that is ten times slower", 190*time.Second, 200*time.Second, 10)
	loop = usualProbe
	passes(time.Minute)
	check("usual again", 230*time.Second, 250*time.Second, 1)
	for range 20 { // one probe of three is slow, as with bursts
		loop = 10 * usualProbe
		m.probe()
		loop = usualProbe
		passes(4 * time.Second)
	}
	check("usual, with bursts", 320*time.Second, 350*time.Second, 1)
	before, _ := m.read()
	now = now.Add(time.Hour)
	m.probe()
	check("after an hour in which nothing ran", before, before+2*probeEvery, 1)
}
