package act_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/act"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// recorder lists the calls.
type recorder struct {
	calls []string
	fail  error
}

func (r *recorder) add(format string, args ...any) error {
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
	return nil
}

func (r *recorder) Note(_ context.Context, n seats.Notes, version string) error {
	_ = r.add("note %d over %s", n.Serial, version)
	return r.fail
}

func (r *recorder) Place(_ context.Context, at seats.Spot, c seats.Configuration) error {
	return r.add("place %s on %s", c.Name, at)
}

func (r *recorder) Unplace(_ context.Context, at seats.Spot) error { return r.add("unplace %s", at) }

func (r *recorder) Survey(_ context.Context, at seats.Spot) error { return r.add("survey %s", at) }

func (r *recorder) Save(_ context.Context, at string, s seats.Snapshot) error {
	return r.add("%s: save for %s", at, s.To)
}

func (r *recorder) Restart(_ context.Context, node, uid string) error {
	return r.add("restart %s on %s", uid, node)
}

func (r *recorder) Look(context.Context, string) view.Answer { return view.Answer{} }

func (r *recorder) Alarms(context.Context, string) ([]view.Alarm, error) { return nil, nil }

func (r *recorder) AddLearner(_ context.Context, at, url string) error {
	return r.add("%s: add %s", at, url)
}

func (r *recorder) Promote(_ context.Context, at string, id view.ID) error {
	return r.add("%s: promote %s", at, id)
}

func (r *recorder) Remove(_ context.Context, at string, id view.ID) error {
	return r.add("%s: remove %s", at, id)
}

func (r *recorder) Update(_ context.Context, at string, id view.ID, url string) error {
	return r.add("%s: update %s %s", at, id, url)
}

func (r *recorder) MoveLeader(_ context.Context, at string, id view.ID) error {
	return r.add("%s: move to %s", at, id)
}

func (r *recorder) Compact(_ context.Context, at string, revision int64) error {
	return r.add("%s: compact %d", at, revision)
}

func (r *recorder) Defragment(_ context.Context, at string) error { return r.add("%s: defragment", at) }

func (r *recorder) Disarm(_ context.Context, at string, id view.ID) error {
	return r.add("%s: disarm %s", at, id)
}

// TestDo: each step is one call, with its precondition, after the notes. They are to be those that the decision rests
// on also if they are not changed.
func TestDo(t *testing.T) {
	d := membership.Decision{Seat: seats.Seat{Name: "a-1", Node: "a", PeerURL: "url", ID: 7}, Endpoint: "e",
		Target: seats.Seat{ID: 9}, Revision: 8, Snapshot: seats.Snapshot{To: "3.7"}, PodUID: "uid",
		Spot:  seats.Spot{Node: "a", UID: "u", ConfigVersion: "v3"},
		Notes: seats.Notes{Serial: 3}, NotesVersion: "v5"}
	d.Configuration.Name = "a-1"
	for step, want := range map[membership.Step]string{
		membership.Rest: "", membership.Wait: "", membership.Stop: "",
		membership.Place: "place a-1 on {a u v3}", membership.Unplace: "unplace {a u v3}",
		membership.Survey: "survey {a u v3}", membership.Save: "e: save for 3.7",
		membership.Restart: "restart uid on a", membership.AddLearner: "e: add url", membership.Promote: "e: promote 7",
		membership.Remove: "e: remove 7", membership.UpdateURL: "e: update 7 url",
		membership.MoveLeader: "e: move to 9", membership.Compact: "e: compact 8",
		membership.Defragment: "e: defragment", membership.Disarm: "e: disarm 9",
	} {
		for _, changed := range []bool{true, false} {
			r := &recorder{}
			d.Step, d.Changed = step, changed
			if err := act.Do(t.Context(), r, r, d); err != nil {
				t.Fatal(err)
			}
			var calls []string
			if changed || want != "" { // the notes may be others by now
				calls = []string{"note 3 over v5"}
			}
			if want != "" {
				calls = append(calls, want)
			}
			if diff := cmp.Diff(calls, r.calls); diff != "" {
				t.Errorf("%s: %s", step, diff)
			}
		}
		r := &recorder{fail: errors.New("conflict")}
		d.Changed = want == ""
		if err := act.Do(t.Context(), r, r, d); !errors.Is(err, r.fail) || len(r.calls) != 1 {
			t.Errorf("%s: %v without notes, after %v", step, r.calls, err)
		}
	}
	r := &recorder{}
	d.Step = "Dance"
	if err := act.Do(t.Context(), r, r, d); err == nil {
		t.Error("there is no such step, and it was done")
	}
}
