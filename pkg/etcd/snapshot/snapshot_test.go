package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/snapshot"
)

const id = "before-3.7-20261127T231500Z"

// whole is what etcd sends of a database: its pages, and their hash.
func whole() []byte {
	pages := bytes.Repeat([]byte("etcd"), 1024)
	sum := sha256.Sum256(pages)
	return append(pages, sum[:]...)
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestVerify: what is cut off or damaged is no snapshot.
func TestVerify(t *testing.T) {
	good := whole()
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"whole":            {good, ""},
		"empty":            {nil, "truncated"},
		"only a hash":      {good[4096:], "truncated"},
		"without its hash": {good[:4096], "truncated"},
		"cut at a page":    {append(bytes.Clone(good[:2048]), good[2048:2080]...), "corrupt"},
		"a bit has flipped": {func() []byte {
			bad := bytes.Clone(good)
			bad[7] ^= 1
			return bad
		}(), "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			write(t, path, c.text)
			size, hash, err := snapshot.Verify(path)
			switch {
			case c.want == "" && (err != nil || size != 4128 || hash != hex.EncodeToString(good[4096:])):
				t.Errorf("%d bytes, hash %s: %v", size, hash, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v", err)
			}
		})
	}
}

// TestThere: a snapshot that is there is reported, and neither taken again nor replaced, whatever state it is in.
func TestThere(t *testing.T) {
	good := whole()
	hash := hex.EncodeToString(good[4096:])
	of := func(cluster, id, hash string) string {
		return `{"id":"` + id + `","clusterID":"` + cluster + `","revision":7,"bytes":4128,"sha256":"` + hash + `"}`
	}
	said := func(id, hash string) string { return of("ff", id, hash) }
	for name, c := range map[string]struct {
		file []byte
		said string
		want string
	}{
		"it is whole":            {good, said(id, hash), ""},
		"it is damaged":          {append(bytes.Clone(good[:4127]), 'x'), said(id, hash), "corrupt"},
		"it is another one":      {good, said(id, "00"), "does not match its description"},
		"it is that of another":  {good, said("before-3.6-20261127T231500Z", hash), "does not match its description"},
		"of another cluster":     {good, of("fe", id, hash), `to cluster "fe", not to cluster ff`},
		"of nobody knows which":  {good, of("", id, hash), `to cluster "", not to cluster ff`},
		"it has no description":  {good, "", "description"},
		"its description is bad": {good, "{", "description"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, snapshot.File(id))
			write(t, path, c.file)
			if c.said != "" {
				write(t, path+".json", []byte(c.said))
			}
			// Nobody is at this endpoint: whoever asks fails otherwise.
			taken, err := snapshot.Take(t.Context(), dir, snapshot.Config{ID: id, Endpoint: "http://127.0.0.1:1",
				ClusterID: "ff"})
			switch {
			case taken.ID != id:
				t.Errorf("%+v is not about %s", taken, id)
			case c.want == "" && (err != nil || taken.Revision != 7 || taken.SHA256 != hash):
				t.Errorf("%+v, %v", taken, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v", err)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, c.file) {
				t.Errorf("it was changed: %v", err)
			}
		})
	}
}

// TestNames: an order for a file elsewhere is refused.
func TestNames(t *testing.T) {
	for _, id := range []string{"", "x", "../before-3.7-20261127T231500Z", id + "/x"} {
		if _, err := snapshot.Take(t.Context(), t.TempDir(), snapshot.Config{ID: id}); err == nil {
			t.Errorf("%q was taken", id)
		}
	}
}
