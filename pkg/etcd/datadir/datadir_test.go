package datadir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func expect(name string, mode datadir.Mode) datadir.Expectation {
	e := datadir.Expectation{Name: name, Token: "t", Mode: mode}
	if mode == datadir.Force {
		e.Recovery = "1"
	}
	return e
}

// run is etcd's first start: what it writes.
func run(t *testing.T, dir, contents string) {
	t.Helper()
	for _, name := range []string{"member/snap/db", "member/wal/0.wal"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func prepare(t *testing.T, dir string, e datadir.Expectation) {
	t.Helper()
	for range 2 { // it is idempotent
		if _, err := datadir.Prepare(dir, e, now); err != nil {
			t.Fatal(err)
		}
	}
}

// files are the contents of all files, by path, but for markers.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || d != nil && (d.IsDir() || strings.HasSuffix(path, ".json")) {
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestPrepare(t *testing.T) {
	const lost = "member.lost-20260301T120000Z"
	own := func(t *testing.T, dir string) {
		prepare(t, dir, expect("n1-1", datadir.Join))
		run(t, dir, "own")
	}
	gone := func(t *testing.T, dir string, what string) {
		own(t, dir)
		if err := os.RemoveAll(filepath.Join(dir, what)); err != nil {
			t.Fatal(err)
		}
	}
	kept := map[string]string{"member/snap/db": "own", "member/wal/0.wal": "own"}
	for name, tc := range map[string]struct {
		before func(t *testing.T, dir string)
		expect datadir.Expectation
		err    error
		after  map[string]string
	}{
		"the first member begins":  {expect: expect("n1-1", datadir.Seed)},
		"a learner begins":         {expect: expect("n1-1", datadir.Join)},
		"a voter, without a thing": {expect: expect("n1-1", datadir.Resume), err: datadir.ErrLost},
		"a voter, with its data":   {before: own, expect: expect("n1-1", datadir.Resume), after: kept},
		"a voter, with a marker only": {before: func(t *testing.T, dir string) { gone(t, dir, "member") },
			expect: expect("n1-1", datadir.Resume), err: datadir.ErrLost},
		"a voter, without its log": {before: func(t *testing.T, dir string) { gone(t, dir, "member/wal") },
			expect: expect("n1-1", datadir.Resume), err: datadir.ErrLost, after: map[string]string{"member/snap/db": "own"}},
		"a voter, with data and no marker": {before: func(t *testing.T, dir string) { run(t, dir, "own") },
			expect: expect("n1-1", datadir.Resume), err: datadir.ErrFound, after: kept},
		"a voter, with a former member's data": {before: own, expect: expect("n1-2", datadir.Resume),
			err: datadir.ErrFound, after: kept},
		"a voter to be forced, with its data":   {before: own, expect: expect("n1-1", datadir.Force), after: kept},
		"a voter to be forced, without a thing": {expect: expect("n1-1", datadir.Force), err: datadir.ErrLost},
		"a voter to be forced, with another one's data": {before: own, expect: expect("n1-2", datadir.Force),
			err: datadir.ErrFound, after: kept},
		"the first member, started before": {before: own, expect: expect("n1-1", datadir.Seed), after: kept},
		"the first member, on a former one's data": {before: own, expect: expect("n1-2", datadir.Seed),
			err: datadir.ErrFound, after: kept},
		"the first member, on unknown data": {before: func(t *testing.T, dir string) { run(t, dir, "own") },
			expect: expect("n1-1", datadir.Seed), err: datadir.ErrFound, after: kept},
		"a learner, started before": {before: own, expect: expect("n1-1", datadir.Join), after: kept},
		"a learner, on a former member's data": {before: own, expect: expect("n1-2", datadir.Join),
			after: map[string]string{lost + "/snap/db": "own", lost + "/wal/0.wal": "own"}},
		"a learner, on that of another cluster": {before: own,
			expect: datadir.Expectation{Name: "n1-1", Token: "u", Mode: datadir.Join}, err: datadir.ErrFound, after: kept},
		"a learner, on data with a marker that cannot be read": {before: func(t *testing.T, dir string) {
			own(t, dir)
			if err := os.WriteFile(filepath.Join(dir, "linstor-member.json"), []byte(`{"token":"t",`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, expect: expect("n1-2", datadir.Join), err: datadir.ErrFound, after: kept},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "etcd")
			if tc.before != nil {
				tc.before(t, dir)
			}
			for range 2 {
				if _, err := datadir.Prepare(dir, tc.expect, now); !errors.Is(err, tc.err) {
					t.Fatalf("%v, want %v", err, tc.err)
				}
				want := tc.after
				if want == nil {
					want = map[string]string{}
				}
				if d := cmp.Diff(want, files(t, dir)); d != "" {
					t.Fatal(d)
				}
			}
		})
	}
}

// TestFirstStartEnded: the first member begins again if its first start has made a log and written no entry to it. A
// log that has an entry, or in which nothing can be read, is left as it is; so is that of a member in another mode.
func TestFirstStartEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		log  string
		mode datadir.Mode
		anew bool
	}{
		"no entry":        {string(begun().out), datadir.Seed, true},
		"a torn entry":    {string(begun().big(1, 1).spoilt(1024, 0)), datadir.Seed, true},
		"an entry":        {string(begun().add(entry, 0, 1, 1).out), datadir.Seed, false},
		"nothing":         {strings.Repeat("\x00", 1<<12), datadir.Seed, false},
		"other bytes":     {string(begun().big(1, 1).spoilt(1024, 'y')), datadir.Seed, false},
		"a later log":     {string(begun().add(state, 5, 7, 90).out), datadir.Seed, false},
		"a learner":       {string(begun().out), datadir.Join, false},
		"at work already": {string(begun().out), datadir.Resume, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			prepare(t, dir, expect("n1-1", datadir.Seed))
			for range 2 { // the second time there is what the first has left
				run(t, dir, tc.log)
				v, err := datadir.Prepare(dir, expect("n1-1", tc.mode), now)
				if err != nil || v.Anew != tc.anew {
					t.Fatalf("%+v, want Anew %v, %v", v, tc.anew, err)
				}
				want := map[string]string{"member/snap/db": tc.log, "member/wal/0.wal": tc.log}
				if tc.anew {
					want = map[string]string{"member.unbegun/snap/db": tc.log, "member.unbegun/wal/0.wal": tc.log}
				}
				if d := cmp.Diff(want, files(t, dir)); d != "" {
					t.Fatal(d)
				}
			}
			prepare(t, dir, expect("n1-1", datadir.Seed))
			if tc.anew {
				run(t, dir, string(begun().add(entry, 0, 1, 1).out))
				prepare(t, dir, expect("n1-1", datadir.Resume))
			}
		})
	}
}

// TestPrepareLater: what a learner was prepared for is its own from its first start on.
func TestPrepareLater(t *testing.T) {
	dir := t.TempDir()
	prepare(t, dir, expect("n1-1", datadir.Join))
	run(t, dir, "first")
	prepare(t, dir, expect("n1-2", datadir.Join))
	run(t, dir, "second")
	prepare(t, dir, expect("n1-2", datadir.Resume))
	prepare(t, dir, expect("n1-3", datadir.Join))
	found := files(t, dir)
	const aside = "member.lost-20260301T120000Z"
	if found[aside+"/snap/db"] != "first" || found[aside+"-2/snap/db"] != "second" || len(found) != 4 {
		t.Errorf("not all former data is there: %v", found)
	}
}

// TestForceOnce: a member is forced once for each recovery, and what its disk says of that outlives its pods.
func TestForceOnce(t *testing.T) {
	dir := t.TempDir()
	prepare(t, dir, expect("n1-1", datadir.Join))
	run(t, dir, "x")
	e := expect("n1-1", datadir.Force)
	for _, id := range []string{"1", "2"} {
		e.Recovery = id
		for _, want := range []bool{true, false} {
			v, err := datadir.Prepare(dir, e, now)
			if err != nil || v.Force != want {
				t.Fatalf("recovery %s: force %v, want %v, %v", id, v.Force, want, err)
			}
			if err := datadir.MarkForced(dir, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	prepare(t, dir, expect("n1-1", datadir.Resume))
	if v, err := datadir.Prepare(dir, e, now); err != nil || v.Force {
		t.Errorf("forced again by an old copy: %+v, %v", v, err)
	}
}

// TestPrepareInterrupted stops between any two changes of the directory: the next run ends as if nothing had been.
func TestPrepareInterrupted(t *testing.T) {
	for name, state := range map[string]func(t *testing.T, dir string){
		"before the marker is written": func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "member"), filepath.Join(dir, "member.lost-x")); err != nil {
				t.Fatal(err)
			}
		},
		"while the marker is written": func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "member"), filepath.Join(dir, "member.lost-x")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "linstor-member.json.new"), []byte(`{"na`), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			prepare(t, dir, expect("n1-1", datadir.Join))
			run(t, dir, "former")
			state(t, dir)
			prepare(t, dir, expect("n1-2", datadir.Join))
			run(t, dir, "new")
			prepare(t, dir, expect("n1-2", datadir.Resume))
			if found := files(t, dir); found["member.lost-x/snap/db"] != "former" || found["member/snap/db"] != "new" {
				t.Errorf("the directory has %v", found)
			}
		})
	}
}

// TestPrepareBusy: data that a process still writes to is not renamed under it.
func TestPrepareBusy(t *testing.T) {
	dir := t.TempDir()
	prepare(t, dir, expect("n1-1", datadir.Join))
	run(t, dir, "x")
	f, err := os.OpenFile(filepath.Join(dir, "member", "snap", "db"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Prepare(dir, expect("n1-2", datadir.Join), now); !errors.Is(err, datadir.ErrBusy) {
		t.Errorf("%v, want %v", err, datadir.ErrBusy)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	prepare(t, dir, expect("n1-2", datadir.Join))
}

// TestUnreadable: a log that cannot be read is not lost.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	prepare(t, dir, expect("n1-1", datadir.Join))
	run(t, dir, "x")
	wal := filepath.Join(dir, "member", "wal")
	if err := errors.Join(os.RemoveAll(wal), os.Symlink(wal, wal)); err != nil {
		t.Fatal(err)
	}
	_, err := datadir.Prepare(dir, expect("n1-1", datadir.Resume), now)
	if err == nil || errors.Is(err, datadir.ErrLost) {
		t.Errorf("%v", err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	for _, e := range []datadir.Expectation{{Name: "a", Token: "t"}, {Name: "a", Token: "t", Mode: "Guess"},
		{Token: "t", Mode: datadir.Join}, {Name: "a", Mode: datadir.Seed}, {Name: "a", Token: "t", Mode: datadir.Force},
		{Name: "a", Token: "t", Mode: datadir.Resume, Recovery: "1"}} {
		dir := t.TempDir()
		if _, err := datadir.Prepare(dir, e, now); err == nil {
			t.Errorf("%v was prepared", e)
		}
	}
	unmounted := filepath.Join(t.TempDir(), "disk")
	if _, err := datadir.Prepare(unmounted, expect("a", datadir.Resume), now); !errors.Is(err, datadir.ErrLost) {
		t.Errorf("%v, want %v", err, datadir.ErrLost)
	}
	if _, err := os.Stat(unmounted); err == nil {
		t.Error("the directory of a disk that is not mounted was made")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := datadir.Prepare(file, expect("a", datadir.Join), now)
	if err == nil || slices.ContainsFunc([]error{datadir.ErrLost, datadir.ErrFound},
		func(e error) bool { return errors.Is(err, e) }) {
		t.Errorf("a file in its place: %v", err)
	}
}
