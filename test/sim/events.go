package sim

import (
	"container/heap"
	"time"
)

// event is something that happens at a time of the world's clock.
type event struct {
	due time.Time
	seq int // keeps events of one instant in the order in which they were planned
	run func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].seq < q[j].seq
	}
	return q[i].due.Before(q[j].due)
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// after plans run for d from now. The caller holds the lock, and so will run.
func (w *World) after(d time.Duration, run func()) {
	w.seq++
	heap.Push(&w.events, event{due: w.now.Add(d), seq: w.seq, run: run})
}

// lock takes the world's lock and carries out everything that is due.
func (w *World) lock() {
	w.mu.Lock()
	w.advance(w.opts.Clock.Now())
}

func (w *World) advance(now time.Time) {
	for len(w.events) > 0 && !w.events[0].due.After(now) {
		next := heap.Pop(&w.events).(event)
		if next.due.After(w.now) {
			w.now = next.due
		}
		next.run()
	}
	if now.After(w.now) {
		w.now = now
	}
}
