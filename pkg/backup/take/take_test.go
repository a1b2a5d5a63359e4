package take

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/test/s3server"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// database is the one of the tests' LINSTOR, which opens it with a password.
const database = "jdbc:postgresql://db/linstor"

var server *s3server.Server

func TestMain(m *testing.M) { os.Exit(s3server.Main(m, &server)) }

// linstor is a LINSTOR of that version with a node, and its URL.
func linstor(t *testing.T, version string) (*sim.World, string) {
	t.Helper()
	w := sim.NewWorld(sim.Options{ConnectTimeout: time.Millisecond}) // the node has no satellite
	t.Cleanup(w.Close)
	w.Database(database).SetCredentials("linstor", "canary-password")
	if _, err := w.StartController(sim.ControllerConfig{Version: version, TOML: "[db]\nconnection_url = \"" + database +
		"\"\nuser = \"linstor\"\npassword = \"canary-password\"\n"}); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	for url, body := range map[string]string{
		"/v1/nodes": `{"name":"n1","type":"SATELLITE","net_interfaces":[{"name":"default","address":"10.0.0.1",` +
			`"satellite_port":3366,"satellite_encryption_type":"PLAIN"}]}`,
		"/v1/encryption/passphrase": `{"new_passphrase":"canary-passphrase"}`,
	} {
		r, err := http.Post(s.URL+url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusCreated {
			t.Fatal(url, r.Status)
		}
	}
	return w, s.URL
}

// config is one that works.
func config(t *testing.T, linstor string) *Config {
	t.Helper()
	bucket := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	if err := server.MakeBucket(bucket); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := server.WriteCredentials(dir); err != nil {
		t.Fatal(err)
	}
	return &Config{Linstor: linstor, ID: "manual-a", Credentials: dir,
		Store: store.Location{Endpoint: server.Endpoint, Region: server.Region, Bucket: bucket}}
}

func TestRun(t *testing.T) {
	w, url := linstor(t, "1.34.2")
	c := config(t, url)
	c.Cluster, c.Keep = w.Database(database).LocalID(), 1
	first, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if e := &first.Export; e.Linstor != "1.34.2" || e.From != "sql/postgresql" || e.LocalID != c.Cluster || e.Nodes != 1 {
		t.Errorf("the backup is of %+v", e)
	}
	c.ID = "manual-b"
	second, err := Run(t.Context(), c)
	if err != nil || second.Problem != "" || len(second.Removed) == 0 {
		t.Fatalf("%+v, %v", second, err)
	}
	said, err := json.Marshal(second)
	if err != nil || strings.Contains(string(said), "masterkey") {
		t.Errorf("the result is %s, %v", said, err)
	}
	text := onlyBackup(t, c, "manual-b")
	if !strings.Contains(text, "encrypted/masterkey") || strings.Contains(text, "canary") {
		t.Error("the backup lacks the master key, or holds more than the export")
	}
}

// TestAnotherVersion: LINSTOR may have been upgraded since the backup was asked for.
func TestAnotherVersion(t *testing.T) {
	w, url := linstor(t, "1.34.2")
	c := config(t, url)
	c.Cluster = w.Database(database).LocalID()
	for _, version := range []string{"1.33.3", "1.34"} {
		c.Version = version
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(),
			"expected an export from LINSTOR "+version+", but this one is from 1.34.2") {
			t.Errorf("%s: %v", version, err)
		}
	}
	if left, err := os.ReadDir(server.Path(c.Store.Bucket, c.Cluster)); err == nil && len(left) > 0 {
		t.Errorf("in the store: %v", left)
	}
	c.Version = "1.34.2"
	if _, err := Run(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// TestRunAgain: what the store has under the same name is the result.
func TestRunAgain(t *testing.T) {
	_, url := linstor(t, "1.34.2")
	c := config(t, url)
	first, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(t.Context(), c)
	if err != nil || !again.Export.Equal(&first.Export) || again.SHA256 != first.SHA256 {
		t.Errorf("taken again: %+v, %v, and not %+v", again, err, first)
	}
}

// downloaded is a configuration with an export that was downloaded for a restore test, and what is in it.
func downloaded(t *testing.T) (*Config, []byte) {
	t.Helper()
	w, url := linstor(t, "1.34.2")
	c := config(t, url)
	dir := t.TempDir()
	c.Cluster, c.Begun = w.Database(database).LocalID(), time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	c.Export, c.Restored = filepath.Join(dir, "export.json"), filepath.Join(dir, "restored.json")
	if err := Download(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.Export)
	if err != nil {
		t.Fatal(err)
	}
	return c, text
}

// TestRestoreTestFails: an export that LINSTOR's own program cannot restore, row by row, is not kept.
func TestRestoreTestFails(t *testing.T) {
	c, text := downloaded(t)
	for _, tc := range []struct{ old, restored, says string }{
		{"", "", "check the export of the restored database"}, // there is none
		{`"node_dsp_name":"n1"`, `"node_dsp_name":"n2"`, "database export: rows in table NODES differ"},
		{`"tables"`, `"tabels"`, "field tables is missing"},
	} {
		if err := os.WriteFile(c.Export, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if tc.old != "" {
			if !bytes.Contains(text, []byte(tc.old)) {
				t.Fatalf("the export lacks %s", tc.old)
			}
			changed := bytes.Replace(text, []byte(tc.old), []byte(tc.restored), 1)
			if err := os.WriteFile(c.Restored, changed, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v; it does not say %q", err, tc.says)
		}
	}
	if left, err := os.ReadDir(server.Path(c.Store.Bucket, c.Cluster)); err == nil && len(left) > 0 {
		t.Errorf("in the store: %v", left)
	}
	c.Export = ""
	if err := Download(t.Context(), c); err == nil || !strings.Contains(err.Error(), "lacks export") {
		t.Errorf("without a file: %v", err)
	}
}

// TestRestoreTest: what was restored is kept. Once it is in the store, nothing is downloaded any more.
func TestRestoreTest(t *testing.T) {
	c, text := downloaded(t)
	restored := bytes.Replace(text, []byte(`"exported_from":"sql/postgresql"`), []byte(`"exported_from":"sql/h2"`), 1)
	if err := os.WriteFile(c.Restored, restored, 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := Run(t.Context(), c)
	if err != nil || !result.Restored || result.Export.From != "sql/postgresql" {
		t.Fatalf("%+v, %v", result, err)
	}
	if got := onlyBackup(t, c, c.ID); got != string(text) {
		t.Error("something else was kept")
	}
	for _, file := range []string{c.Export, c.Restored} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left", file)
		}
	}
	if err := Download(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.Export); err == nil {
		t.Error("it is downloaded again")
	}
	if again, err := Run(t.Context(), c); err != nil || !again.Found || !again.Restored {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestNote: a container's termination log holds what was taken, and what is none of that is refused.
func TestNote(t *testing.T) {
	taken := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	full := &Result{Backup: store.Backup{ID: "manual-a", Bytes: 12, SHA256: "ab"}, Problem: strings.Repeat("ü", 9000),
		Removed: make([]string, 1000)}
	full.Export.Taken = taken
	note, err := full.Note()
	if err != nil || len(note) > 4096 {
		t.Fatalf("%d bytes, %v", len(note), err)
	}
	got, err := ParseNote(string(note))
	if err != nil || got.ID != "manual-a" || got.Bytes != 12 || !got.Export.Taken.Equal(taken) || got.Problem == "" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "done", "{}", `{"id":"other-a"}`, `{"id":"manual-a"}`,
		`{"id":"manual-a","bytes":1}`, strings.Replace(string(note), `"bytes":12`, `"bytes":-1`, 1), string(note[:100])} {
		if got, err := ParseNote(text); err == nil {
			t.Errorf("%q says %+v", text, got)
		}
	}
}

// onlyBackup is the export of the only backup that there is.
func onlyBackup(t *testing.T, c *Config, id store.ID) string {
	t.Helper()
	bucket, err := store.Connect(c.Store, c.Cluster, c.Credentials)
	if err != nil {
		t.Fatal(err)
	}
	list, err := bucket.List(t.Context(), 10)
	if err != nil || len(list) != 1 || list[0].ID != id {
		t.Fatalf("%+v, %v", list, err)
	}
	r, err := bucket.Open(t.Context(), &list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRunFails: what keeps a backup from being taken is said, no secret shows, and nothing is a backup then.
func TestRunFails(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		prepare func(*testing.T, *sim.World, *Config)
		says    string
	}{
		"an old LINSTOR": {version: "1.33.2",
			says: "LINSTOR versions before 1.34 cannot export their database while they are running"},
		"another cluster": {prepare: func(_ *testing.T, _ *sim.World, c *Config) { c.Cluster = "another" },
			says: "belongs to another cluster"},
		"no database": {prepare: func(_ *testing.T, w *sim.World, _ *Config) { w.Database(database).SetUnreachable(true) },
			says: "LINSTOR could not export its database; see its error report 683D2A11-00000-"},
		"no credentials": {prepare: func(t *testing.T, _ *sim.World, c *Config) { c.Credentials = t.TempDir() },
			says: "has no AWS_ACCESS_KEY_ID key"},
		"no bucket": {prepare: func(_ *testing.T, _ *sim.World, c *Config) { c.Store.Bucket = "nowhere" },
			says: "bucket nowhere does not exist"},
		"LINSTOR is away": {prepare: func(_ *testing.T, w *sim.World, _ *Config) { w.CrashController() },
			says: "get a database export from LINSTOR: "},
		"LINSTOR says no": {prepare: func(_ *testing.T, w *sim.World, _ *Config) {
			w.SetFault(func(*http.Request) *sim.Fault { return &sim.Fault{Status: 503, Body: "canary"} })
		}, says: "LINSTOR responded with 503"},
		"LINSTOR is asked only if the store can be used": {prepare: func(_ *testing.T, w *sim.World, c *Config) {
			c.Cluster, c.Linstor, c.Store.Bucket = w.Database(database).LocalID(), "http://127.0.0.1:9", "nowhere"
		}, says: "bucket nowhere does not exist"},
		"nobody's endpoint": {prepare: func(_ *testing.T, _ *sim.World, c *Config) { c.Store.Endpoint = "s3" },
			says: "https://host[:port]"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if tc.version == "" {
				tc.version = "1.34.2"
			}
			w, url := linstor(t, tc.version)
			c := config(t, url)
			bucket := c.Store.Bucket
			if tc.prepare != nil {
				tc.prepare(t, w, c)
			}
			_, err := Run(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v; it does not say %q", err, tc.says)
			}
			left, err := os.ReadDir(server.Path(bucket, ""))
			left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) // the server's
			if err != nil || len(left) != 0 {
				t.Errorf("in the bucket: %v, %v", left, err)
			}
		})
	}
}

// report is one of LINSTOR with these files, which are names and texts in turn.
func report(files ...string) []byte {
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	archive := tar.NewWriter(zip)
	for i := 0; i < len(files); i += 2 {
		_ = archive.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))})
		_, _ = archive.Write([]byte(files[i+1]))
	}
	_, _ = archive.Close(), zip.Close()
	return body.Bytes()
}

func TestExtract(t *testing.T) {
	const name = "sos_2026/_Controller/dbexport.json"
	whole := report("sos_2026/query-params", "x", name, "the export", "sos_2026/_Controller/dbexport.json.bak", "other")
	damaged := slices.Clone(whole)
	damaged[len(damaged)-6] ^= 1
	for what, tc := range map[string]struct {
		body []byte
		says string
	}{
		"whole":          {body: whole},
		"with a dot":     {body: report("./"+name, "the export")},
		"no report":      {body: []byte(`[{"ret_code":-1}]`), says: "decompress the report"},
		"nothing":        {says: "decompress the report"},
		"half of it":     {body: whole[:len(whole)/2], says: "read the report"},
		"damaged":        {body: damaged, says: "read the report to its end"},
		"a node's":       {body: report("sos_2026/n1/dbexport.json", "other"), says: "LINSTOR's report contains no export"},
		"two of them":    {body: report(name, "the export", name, "the export"), says: "two exports"},
		"failed":         {body: report(name+".failed", "ErrorReport-68A-0-1\n"), says: "see its error report 68A-0-1"},
		"failed somehow": {body: report(name+".failed", "canary"), says: "LINSTOR could not export its database"},
	} {
		var out bytes.Buffer
		err := extract(bytes.NewReader(tc.body), &out)
		switch {
		case tc.says == "":
			if err != nil || out.String() != "the export" {
				t.Errorf("%s: %q, %v", what, out.String(), err)
			}
		case err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "canary"):
			t.Errorf("%s: %v; it does not say %q", what, err, tc.says)
		}
	}
}

func TestParseConfig(t *testing.T) {
	const good = "linstor: http://l\ncredentials: /c\nstore: {endpoint: https://s, bucket: b}\n"
	now := time.Date(2026, 11, 25, 9, 0, 0, 0, time.FixedZone("", 3600))
	c, err := ParseConfig(good, now)
	if err != nil || c.ID != "scheduled-20261125t080000z" || c.Store.Bucket != "b" {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = ParseConfig(good+"id: manual-x\nkeep: 3\ncluster: c", now)
	if err != nil || c.ID != "manual-x" || c.Keep != 3 || c.Cluster != "c" {
		t.Errorf("%+v, %v", c, err)
	}
	for text, says := range map[string]string{
		"":                         "lacks linstor",
		good + "id: x":             `"x" is not a valid backup ID`,
		good + "keep: -1":          "keep is -1",
		good + "kepe: 1":           "kepe",
		good + "export: /e":        "export and restored must be set together",
		"store: {bucket: b}":       "lacks store.endpoint",
		"store: {endpoint: e}":     "lacks store.bucket",
		"linstor: http://l":        "lacks credentials",
		good + "id: manual-../../": "is not a valid backup ID",
	} {
		if _, err := ParseConfig(text, now); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; it does not say %q", text, err, says)
		}
	}
}
