package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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

// bucket is an empty bucket of the test's own.
func bucket(t *testing.T) *Bucket {
	t.Helper()
	name := strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-")
	if err := server.MakeBucket(name); err != nil {
		t.Fatal(err)
	}
	return connect(t, Location{Endpoint: server.Endpoint, Region: server.Region, Bucket: name, Prefix: "/backups/"},
		server.AccessKey, server.SecretKey)
}

func connect(t *testing.T, l Location, id, key string) *Bucket {
	t.Helper()
	b, err := Connect(l, localID, secretWith(t, map[string]string{AccessKeyID: id, SecretAccessKey: key}))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// put stores a backup that was taken at that minute.
func put(t *testing.T, b *Bucket, id ID, minute int) *Backup {
	t.Helper()
	backup, file := packed(t, id, databaseAt(minute))
	if err := b.Put(t.Context(), backup, file); err != nil {
		t.Fatal(err)
	}
	return backup
}

func ids(t *testing.T, b *Bucket) []ID {
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
func files(t *testing.T, b *Bucket) []string {
	t.Helper()
	entries, err := os.ReadDir(server.Path(b.Bucket, "backups/"+localID))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestPutAndRead(t *testing.T) {
	b := bucket(t)
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
	meta, err := os.ReadFile(server.Path(b.Bucket, "backups/"+localID+"/"+want[1]))
	if err != nil || bytes.Contains(meta, []byte(secret)) {
		t.Errorf("the description is %s, %v", meta, err)
	}
}

// TestPutAgain: a backup that was put before, whole or without its description, is finished and changes nothing.
func TestPutAgain(t *testing.T) {
	b := bucket(t)
	put(t, b, "manual-a", 0)
	if err := b.remove(t.Context(), "20261125T080000Z-manual-a"+metaSuffix); err != nil {
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
			b := bucket(t)
			const object = "20261125T080000Z-manual-a" + exportSuffix
			if err := b.create(t.Context(), object, bytes.NewReader(there), int64(len(there))); err != nil {
				t.Fatal(err)
			}
			backup, file := packed(t, "manual-a", databaseAt(0))
			if err := b.Put(t.Context(), backup, file); !errors.Is(err, ErrDiffers) {
				t.Errorf("Put: %v", err)
			}
			if got, err := os.ReadFile(server.Path(b.Bucket, b.key(object))); err != nil || !bytes.Equal(got, there) {
				t.Error("the object was changed", err)
			}
			if got := ids(t, b); got != nil {
				t.Errorf("it is listed as a backup: %v", got)
			}
		})
	}
}

func TestListAndPrune(t *testing.T) {
	b := bucket(t)
	for minute, id := range []ID{"scheduled-1", "manual-1", "scheduled-2", "upgrade-1.34.3", "scheduled-3", "manual-2"} {
		put(t, b, id, minute)
	}
	dir := server.Path(b.Bucket, "backups/"+localID)
	for name, age := range map[string]time.Duration{
		"20261125T070000Z-scheduled-0.json.gz": 25 * time.Hour, // nobody finishes it any more
		"20261125T090000Z-scheduled-9.json.gz": time.Hour,      // somebody may
		"20261125T070000Z-diary.json.gz":       48 * time.Hour,
		"notes.txt":                            48 * time.Hour,
	} {
		then, path := time.Now().Add(-age), filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := ids(t, b), []ID{"manual-2", "scheduled-3", "upgrade-1.34.3", "scheduled-2", "manual-1",
		"scheduled-1"}; !slices.Equal(got, want) {
		t.Errorf("backups: %v, want %v", got, want)
	}
	for id, minute := range map[ID]int{"scheduled-2": 2, "scheduled-9": -1} { // the latter has no description
		found, err := b.Find(t.Context(), id)
		if err != nil || (found != nil) != (minute >= 0) || found != nil && !found.Export.Taken.Equal(taken(minute)) {
			t.Errorf("found of %s: %+v, %v", id, found, err)
		}
	}
	removed, err := b.Prune(t.Context(), 0) // of each trigger the newest stays nevertheless
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"20261125T080200Z-scheduled-2", "20261125T080100Z-manual-1", "20261125T080000Z-scheduled-1",
		"20261125T070000Z-scheduled-0"}, removed); d != "" {
		t.Errorf("removed (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"20261125T070000Z-diary.json.gz",
		"20261125T080300Z-upgrade-1.34.3.json.gz", "20261125T080300Z-upgrade-1.34.3.meta.json",
		"20261125T080400Z-scheduled-3.json.gz", "20261125T080400Z-scheduled-3.meta.json",
		"20261125T080500Z-manual-2.json.gz", "20261125T080500Z-manual-2.meta.json",
		"20261125T090000Z-scheduled-9.json.gz", "notes.txt"}, files(t, b)); d != "" {
		t.Errorf("what is left (-want +got):\n%s", d)
	}
}

// TestPruneKeepsWholeBackups: where the description cannot be removed, the export stays, too.
func TestPruneKeepsWholeBackups(t *testing.T) {
	b := bucket(t)
	old := put(t, b, "manual-1", 0)
	put(t, b, "manual-2", 1)
	target, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, metaSuffix) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer refusing.Close()
	l := b.Location
	l.Endpoint = refusing.URL
	removed, err := connect(t, l, server.AccessKey, server.SecretKey).Prune(t.Context(), 1)
	if err == nil || len(removed) != 0 || !strings.Contains(err.Error(), "DeleteObject of ") {
		t.Errorf("removed %v, %v", removed, err)
	}
	if err := b.Verify(t.Context(), old); err != nil {
		t.Error(err)
	}
}

// TestRefusals: whatever the store refuses is explained, and no credential shows.
func TestRefusals(t *testing.T) {
	there := bucket(t)
	backup, file := packed(t, "manual-a", databaseAt(0))
	for name, tc := range map[string]struct {
		change  func(*Location)
		id, key string
		says    string
	}{
		"wrong secret": {id: server.AccessKey, key: "wrong-canary",
			says: "AWS_SECRET_ACCESS_KEY is not that of the access key"},
		"wrong key": {id: "stranger-canary", key: server.SecretKey, says: "it does not know the access key"},
		"no bucket": {change: func(l *Location) { l.Bucket = "nowhere" },
			says: "there is no bucket nowhere, and none is made"},
		"wrong region": {change: func(l *Location) { l.Region = "us-west-2" },
			says: "the bucket is probably in another region than us-west-2"},
		"nobody listens": {change: func(l *Location) { l.Endpoint = "http://127.0.0.1:9" },
			says: "did not reach http://127.0.0.1:9: "},
	} {
		t.Run(name, func(t *testing.T) {
			l := there.Location
			if tc.change != nil {
				tc.change(&l)
			}
			if tc.id == "" {
				tc.id, tc.key = server.AccessKey, server.SecretKey
			}
			b := connect(t, l, tc.id, tc.key)
			_, errList := b.List(t.Context(), 10)
			for what, err := range map[string]error{"Put": b.Put(t.Context(), backup, file), "List": errList} {
				if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "canary") {
					t.Errorf("%s: %v; it does not say %q", what, err, tc.says)
				}
			}
		})
	}
}

func TestAnotherClustersExport(t *testing.T) {
	b := bucket(t)
	backup, file := packed(t, "manual-a", strings.Replace(databaseAt(0), localID, "another", 1))
	if err := b.Put(t.Context(), backup, file); err == nil || !strings.Contains(err.Error(), "is of another cluster") {
		t.Error(err)
	}
}

func TestPackRefuses(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "export.json")
	for name, tc := range map[string]struct{ text, says string }{
		"half an export": {databaseAt(0)[:200], "ends too early"},
		"nobody's export": {strings.Replace(databaseAt(0), "Cluster/LocalID", "Other", 1),
			"it has no property Cluster/LocalID"},
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
