package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/test/s3server"
)

// localID is the identity of the tests' cluster, and secret a value of its database.
const localID, secret = "1b1e8c6e-0d7f", "c2VjcmV0IGtleQ=="

// server is one S3 service for all tests, each of which has a bucket of its own.
var server *s3server.Server

func TestMain(m *testing.M) { os.Exit(s3server.Main(m, &server)) }

// databaseAt is an export that was taken at that minute.
func databaseAt(minute int) string {
	var tables []string
	for _, name := range []string{"NODES", "RESOURCE_DEFINITIONS", "RESOURCES", "NODE_STOR_POOL", "VOLUMES"} {
		tables = append(tables, fmt.Sprintf(`{"name":%q,"column_description":[],"data":[]}`, name))
	}
	tables = append(tables, `{"name":"PROPS_CONTAINERS","column_description":[],"data":[
		{"props_instance":"/CTRL","prop_key":"Cluster/LocalID","prop_value":"`+localID+`"},
		{"props_instance":"/CTRL","prop_key":"encrypted/masterkey","prop_value":"`+secret+`"}]}`)
	return fmt.Sprintf(`{"linstor_version":"1.34.2","export_timestamp_ms":%d,"exported_from":"k8s","tables":[%s]}`,
		taken(minute).UnixMilli(), strings.Join(tables, ","))
}

func taken(minute int) time.Time { return time.Date(2026, 11, 25, 8, minute, 0, 0, time.UTC) }

// packed is a backup of that ID, and the file with its compressed export.
func packed(t *testing.T, id ID, text string) (*Backup, string) {
	t.Helper()
	dir := t.TempDir()
	source, target := filepath.Join(dir, "export.json"), filepath.Join(dir, "export.json.gz")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	backup, err := Pack(id, source, target)
	if err != nil {
		t.Fatal(err)
	}
	return backup, target
}

// secretWith is a directory with these keys of a Secret.
func secretWith(t *testing.T, keys map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for key, value := range keys {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// kept is a store of the test's own, and where its files lie.
type kept struct {
	*Store
	Location
	dir string
}

// stores are the kinds of stores, by name.
var stores = map[string]func(*testing.T) kept{"bucket": newBucket, "directory": newDirectory}

// inEach runs a test on a store of each kind.
func inEach(t *testing.T, test func(*testing.T, kept)) {
	t.Helper()
	for name, empty := range stores {
		t.Run(name, func(t *testing.T) { test(t, empty(t)) })
	}
}

// newDirectory is an empty directory.
func newDirectory(t *testing.T) kept {
	t.Helper()
	root := t.TempDir()
	s, err := Connect(Location{Directory: root, Prefix: "backups"}, localID, "")
	if err != nil {
		t.Fatal(err)
	}
	return kept{s, Location{}, filepath.Join(root, "backups", localID)}
}

// newBucket is an empty bucket of an S3 service.
func newBucket(t *testing.T) kept {
	t.Helper()
	name := strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-")
	if err := server.MakeBucket(name); err != nil {
		t.Fatal(err)
	}
	l := Location{Endpoint: server.Endpoint, Region: server.Region, Bucket: name, Prefix: "/backups/"}
	return kept{connectTo(t, l, server.AccessKey, server.SecretKey), l, server.Path(name, "backups/"+localID)}
}

func connectTo(t *testing.T, l Location, id, key string) *Store {
	t.Helper()
	b, err := Connect(l, localID, secretWith(t, map[string]string{AccessKeyID: id, SecretAccessKey: key}))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// put stores a backup that was taken at that minute.
func put(t *testing.T, b kept, id ID, minute int) *Backup {
	t.Helper()
	backup, file := packed(t, id, databaseAt(minute))
	if err := b.Put(t.Context(), backup, file); err != nil {
		t.Fatal(err)
	}
	return backup
}

func ids(t *testing.T, b kept) []ID {
	t.Helper()
	list, err := b.List(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var out []ID
	for _, backup := range list {
		out = append(out, backup.ID)
	}
	return out
}

// files are the names of the cluster's objects.
func files(t *testing.T, b kept) []string {
	t.Helper()
	entries, err := os.ReadDir(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestPutAndRead(t *testing.T) { inEach(t, putAndRead) }

func putAndRead(t *testing.T, b kept) {
	backup := put(t, b, "manual-first", 0)
	want := []string{"20261125T080000Z-manual-first.json.gz", "20261125T080000Z-manual-first.meta.json"}
	if d := cmp.Diff(want, files(t, b)); d != "" {
		t.Errorf("objects (-want +got):\n%s", d)
	}
	list, err := b.List(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Backup{*backup}, list); d != "" {
		t.Errorf("list (-want +got):\n%s", d)
	}
	r, err := b.Open(t.Context(), &list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != databaseAt(0) {
		t.Errorf("the export came back as %q, %v", text, err)
	}
	meta, err := os.ReadFile(filepath.Join(b.dir, want[1]))
	if err != nil || bytes.Contains(meta, []byte(secret)) {
		t.Errorf("the description is %s, %v", meta, err)
	}
}

// TestPutAgain: a backup that was put before, whole or without its description, is finished and changes nothing.
func TestPutAgain(t *testing.T) { inEach(t, putAgain) }

func putAgain(t *testing.T, b kept) {
	put(t, b, "manual-a", 0)
	if err := b.objects.remove(t.Context(), "20261125T080000Z-manual-a"+metaSuffix); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, b); got != nil {
		t.Errorf("what has no description is listed: %v", got)
	}
	put(t, b, "manual-a", 0)
	put(t, b, "manual-a", 0)
	if got := ids(t, b); !slices.Equal(got, []ID{"manual-a"}) {
		t.Errorf("backups: %v", got)
	}
}

// TestNothingIsOverwritten: another object under a backup's name stays, and there is no backup then.
func TestNothingIsOverwritten(t *testing.T) {
	other := func(text string) []byte {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		_, _ = zip.Write([]byte(text))
		_ = zip.Close()
		return out.Bytes()
	}
	whole := other(databaseAt(0))
	for name, there := range map[string][]byte{
		"text":              []byte("not compressed"),
		"nothing":           {},
		"another database":  other(strings.Replace(databaseAt(0), secret, "another", 1)),
		"half of it":        whole[:len(whole)/2],
		"one byte wrong":    append(slices.Clone(whole[:len(whole)-3]), 1, 2, 3),
		"something follows": append(slices.Clone(whole), other("more")...),
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			inEach(t, func(t *testing.T, b kept) { notOverwritten(t, b, there) })
		})
	}
}

func notOverwritten(t *testing.T, b kept, there []byte) {
	t.Helper()
	const object = "20261125T080000Z-manual-a" + exportSuffix
	if err := b.objects.create(t.Context(), object, bytes.NewReader(there), int64(len(there))); err != nil {
		t.Fatal(err)
	}
	backup, file := packed(t, "manual-a", databaseAt(0))
	if err := b.Put(t.Context(), backup, file); !errors.Is(err, ErrDiffers) {
		t.Errorf("Put: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(b.dir, object)); err != nil || !bytes.Equal(got, there) {
		t.Error("the object was changed", err)
	}
	if got := ids(t, b); got != nil {
		t.Errorf("it is listed as a backup: %v", got)
	}
}

func TestListAndPrune(t *testing.T) { inEach(t, listAndPrune) }

func listAndPrune(t *testing.T, b kept) {
	for minute, id := range []ID{"scheduled-1", "manual-1", "scheduled-2", "upgrade-1.34.3", "scheduled-3", "manual-2"} {
		put(t, b, id, minute)
	}
	for name, age := range map[string]time.Duration{
		"20261125T070000Z-scheduled-0.json.gz": 25 * time.Hour, // nobody finishes it any more
		"20261125T090000Z-scheduled-9.json.gz": time.Hour,      // somebody may
		"20261125T070000Z-diary.json.gz":       48 * time.Hour,
		"notes.txt":                            48 * time.Hour,
	} {
		then, path := time.Now().Add(-age), filepath.Join(b.dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := ids(t, b), []ID{"manual-2", "scheduled-3", "upgrade-1.34.3", "scheduled-2", "manual-1",
		"scheduled-1"}; !slices.Equal(got, want) {
		t.Errorf("backups: %v, want %v", got, want)
	}
	for id, minute := range map[ID]int{"scheduled-2": 2, "scheduled-9": -1} { // the latter has no description
		found, err := b.Find(t.Context(), id, time.Time{})
		if err != nil || (found != nil) != (minute >= 0) || found != nil && !found.Export.Taken.Equal(taken(minute)) {
			t.Errorf("found of %s: %+v, %v", id, found, err)
		}
	}
	latest, err := b.Find(t.Context(), "scheduled-3", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	// Others' and other triggers' objects stay, and what nobody finished goes, however many are kept.
	for _, tc := range []struct {
		keep int
		want []string
	}{
		{0, []string{"20261125T070000Z-scheduled-0"}},
		{3, nil},
		{2, []string{"20261125T080000Z-scheduled-1"}},
		{1, []string{"20261125T080200Z-scheduled-2"}},
	} {
		removed, err := b.Prune(t.Context(), latest, tc.keep)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tc.want, removed); d != "" {
			t.Errorf("removed of which %d are kept (-want +got):\n%s", tc.keep, d)
		}
	}
	if d := cmp.Diff([]string{"20261125T070000Z-diary.json.gz",
		"20261125T080100Z-manual-1.json.gz", "20261125T080100Z-manual-1.meta.json",
		"20261125T080300Z-upgrade-1.34.3.json.gz", "20261125T080300Z-upgrade-1.34.3.meta.json",
		"20261125T080400Z-scheduled-3.json.gz", "20261125T080400Z-scheduled-3.meta.json",
		"20261125T080500Z-manual-2.json.gz", "20261125T080500Z-manual-2.meta.json",
		"20261125T090000Z-scheduled-9.json.gz", "notes.txt"}, files(t, b)); d != "" {
		t.Errorf("what is left (-want +got):\n%s", d)
	}
}

// TestPruneWithAWrongClock: what LINSTOR took while its clock was ahead is as old as the store says, and what was just
// taken stays in any case.
func TestPruneWithAWrongClock(t *testing.T) { inEach(t, pruneWithAWrongClock) }

func pruneWithAWrongClock(t *testing.T, b kept) {
	for i := range 2 {
		put(t, b, ID(fmt.Sprintf("scheduled-ahead-%d", i)), 60*24*(i+1))
	}
	for _, name := range files(t, b) {
		then := taken(-60)
		if err := os.Chtimes(filepath.Join(b.dir, name), then, then); err != nil {
			t.Fatal(err)
		}
	}
	old := put(t, b, "scheduled-1", 0)
	for _, name := range files(t, b) { // by a node whose clock is ahead
		if ahead := time.Now().Add(1000 * time.Hour); strings.Contains(name, "scheduled-1.") {
			if err := os.Chtimes(filepath.Join(b.dir, name), ahead, ahead); err != nil {
				t.Fatal(err)
			}
		}
	}
	latest := put(t, b, "scheduled-2", 1)
	if _, err := b.Prune(t.Context(), latest, 2); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, b); !slices.Equal(got, []ID{"scheduled-2", "scheduled-1"}) {
		t.Errorf("left are %v", got)
	}
	if _, err := b.Prune(t.Context(), old, 1); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, b); !slices.Equal(got, []ID{"scheduled-1"}) {
		t.Errorf("left are %v", got)
	}
}

// TestFind: a backup of the same name that was begun at another time is another one.
func TestFind(t *testing.T) {
	b := newDirectory(t)
	for minute := range 2 {
		backup, file := packed(t, "manual-a", databaseAt(minute))
		backup.Begun = taken(minute)
		if err := b.Put(t.Context(), backup, file); err != nil {
			t.Fatal(err)
		}
	}
	for minute, want := range map[int]bool{0: true, 1: true, 2: false} {
		found, err := b.Find(t.Context(), "manual-a", taken(minute))
		if err != nil || (found != nil) != want || want && !found.Export.Taken.Equal(taken(minute)) {
			t.Errorf("begun at minute %d: %+v, %v", minute, found, err)
		}
	}
}

func TestAnotherClustersExport(t *testing.T) {
	b := newDirectory(t)
	backup, file := packed(t, "manual-a", strings.Replace(databaseAt(0), localID, "another", 1))
	if err := b.Put(t.Context(), backup, file); err == nil || !strings.Contains(err.Error(), "to another cluster") {
		t.Error(err)
	}
}

func TestPackRefuses(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "export.json")
	for name, tc := range map[string]struct{ text, says string }{
		"half an export": {databaseAt(0)[:200], "ends unexpectedly"},
		"nobody's export": {strings.Replace(databaseAt(0), "Cluster/LocalID", "Other", 1),
			"it has no Cluster/LocalID property"},
	} {
		if err := os.WriteFile(source, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Pack("manual-a", source, filepath.Join(dir, "out"))
		if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseID(t *testing.T) {
	for text, ok := range map[string]bool{
		"manual-a": true, "scheduled-20261125t080000z": true, "upgrade-1.34.3": true,
		"manual-" + strings.Repeat("x", 63): true,
		"manual-" + strings.Repeat("x", 64): false, "manual-": false, "manual": false, "other-a": false,
		"manual-../x": false,
		"manual-A":    false, "manual-a.": false, "manual-.a": false, "": false, "manual-a/b": false, "manual-a\n": false,
	} {
		if id, err := ParseID(text); (err == nil) != ok || ok && string(id) != text {
			t.Errorf("ParseID(%q) = %q, %v", text, id, err)
		}
	}
}
