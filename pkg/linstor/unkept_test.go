package linstor

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fake keeps properties as LINSTOR does.
type fake struct {
	props   map[string]string
	ignores map[string]bool
	moves   map[string]string
	writes  int
}

func (f *fake) write(set map[string]string, del []string) error {
	f.writes++
	lost := map[string]string{}
	for k, v := range set {
		if to := f.moves[k]; to != "" || f.ignores[k] {
			lost[k], k = v, to
		}
		if k != "" {
			f.props[k] = v
		}
	}
	for _, k := range del {
		delete(f.props, k)
	}
	if len(lost) > 0 {
		return &NotKeptError{Op: "set", Properties: lost}
	}
	return nil
}

// reconcile writes what differs, as often as asked.
func (f *fake) reconcile(t *testing.T, times int, version string, want map[string]string) Change {
	t.Helper()
	for range times {
		if change := Diff(f.props, want, version); !change.Empty() {
			if err := change.Send(version, f.write); err != nil {
				t.Fatal(err)
			}
		}
	}
	return Diff(f.props, want, version)
}

// TestSend: a property that LINSTOR accepts and does not keep is written once, and again when its value or LINSTOR's
// version changes; all others are kept as they should be.
func TestSend(t *testing.T) {
	f := &fake{props: map[string]string{}, ignores: map[string]bool{"gone": true}, moves: map[string]string{"old": "new"}}
	want := map[string]string{"gone": "a", "old": "b", "stays": "c"}
	change := f.reconcile(t, 5, "1.34.2", want)
	if diff := cmp.Diff(map[string]string{"gone": "a", "old": "b"}, change.Unkept); diff != "" || !change.Empty() {
		t.Errorf("what is not kept (-want +got):\n%s, left to be written: %+v", diff, change)
	}
	if f.writes != 3 || f.props["stays"] != "c" || f.props["new"] != "b" {
		t.Errorf("%d writes, properties %v", f.writes, f.props)
	}
	// Somebody deletes one that is kept: it is written again, and not taken for one that is not kept.
	for range 2 {
		delete(f.props, "stays")
		if f.reconcile(t, 3, "1.34.2", want); f.props["stays"] != "c" {
			t.Fatalf("properties %v", f.props)
		}
	}
	if f.writes != 5 {
		t.Errorf("%d writes", f.writes)
	}
	want["gone"] = "z"
	if change := f.reconcile(t, 3, "1.34.2", want); f.writes != 8 || change.Unkept["gone"] != "z" {
		t.Errorf("another value: %d writes, not kept %v", f.writes, change.Unkept)
	}
	f.ignores, f.moves = nil, nil
	if change := f.reconcile(t, 3, "1.36.0", want); f.writes != 9 || len(change.Unkept) > 0 || f.props["gone"] != "z" ||
		f.props[PropUnkept] != "" {
		t.Errorf("a version that keeps them: %d writes, not kept %v, properties %v", f.writes, change.Unkept, f.props)
	}
}

// TestSendFails: a write that fails says nothing about what is kept.
func TestSendFails(t *testing.T) {
	failed, calls := errors.New("LINSTOR does not answer"), 0
	change := Change{Set: map[string]string{"a": "b"}}
	if err := change.Send("1.34.2", func(map[string]string, []string) error { calls++; return failed }); calls != 1 ||
		!errors.Is(err, failed) {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

// TestSendRace: another client writes the property between the operator's write and its look at it. LINSTOR has kept
// what it was sent.
func TestSendRace(t *testing.T) {
	f, raced := &fake{props: map[string]string{}}, false
	change := Diff(f.props, map[string]string{"a": "b"}, "1.34.2")
	if err := change.Send("1.34.2", func(set map[string]string, del []string) error {
		err := f.write(set, del)
		if !raced {
			raced = true
			f.props["a"] = "x"
			return &NotKeptError{Op: "set", Properties: map[string]string{"a": "b"}}
		}
		return err
	}); err != nil || f.props["a"] != "b" || f.props[PropUnkept] != "" {
		t.Errorf("error %v, properties %v", err, f.props)
	}
}

// TestSendOwnNotes: a note of the operator's own that LINSTOR loses is a failure, however often it is written.
func TestSendOwnNotes(t *testing.T) {
	f := &fake{props: map[string]string{}, ignores: map[string]bool{PropKeys: true}}
	change := Diff(f.props, map[string]string{"a": "b"}, "1.34.2")
	var lost *NotKeptError
	if err := change.Send("1.34.2", f.write); !errors.As(err, &lost) || f.props[PropUnkept] != "" {
		t.Errorf("error %v, properties %v", err, f.props)
	}
}

// TestLongValuesAreNoted: LINSTOR stores no value of more than 4096 characters, the note included.
func TestLongValuesAreNoted(t *testing.T) {
	long := strings.Repeat("x", 4096)
	f := &fake{props: map[string]string{}, ignores: map[string]bool{"a": true}}
	if change := f.reconcile(t, 3, "1.34.2", map[string]string{"a": long}); change.Unkept["a"] != long ||
		len(f.props[PropUnkept]) > 200 {
		t.Errorf("not kept %v, properties %v", change.Unkept, f.props)
	}
}
