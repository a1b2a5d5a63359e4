package store

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// refusing is where the same bucket is, behind a proxy that refuses requests for objects whose names end so.
func refusing(t *testing.T, b kept, method, suffix string) Location {
	t.Helper()
	target, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method && strings.HasSuffix(r.URL.Path, suffix) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	l := b.Location
	l.Endpoint = s.URL
	return l
}

// TestPruneKeepsWholeBackups: where the description cannot be removed, the export stays, too.
func TestPruneKeepsWholeBackups(t *testing.T) {
	b := newBucket(t)
	old := put(t, b, "manual-1", 0)
	latest := put(t, b, "manual-2", 1)
	l := refusing(t, b, http.MethodDelete, metaSuffix)
	removed, err := connectTo(t, l, server.AccessKey, server.SecretKey).Prune(t.Context(), latest, 1)
	if err == nil || len(removed) != 0 || !strings.Contains(err.Error(), "DeleteObject of ") {
		t.Errorf("removed %v, %v", removed, err)
	}
	if err := b.Verify(t.Context(), old); err != nil {
		t.Error(err)
	}
}

// TestRefusals: whatever the store refuses is explained, and no credential shows.
func TestRefusals(t *testing.T) {
	there := newBucket(t)
	backup, file := packed(t, "manual-a", databaseAt(0))
	for name, tc := range map[string]struct {
		change  func(*Location)
		id, key string
		says    string
	}{
		"wrong secret": {id: server.AccessKey, key: "wrong-canary",
			says: "AWS_SECRET_ACCESS_KEY does not match the access key"},
		"wrong key": {id: "stranger-canary", key: server.SecretKey, says: "the access key in AWS_ACCESS_KEY_ID is unknown"},
		"no bucket": {change: func(l *Location) { l.Bucket = "nowhere" },
			says: "bucket nowhere does not exist: create it"},
		"wrong region": {change: func(l *Location) { l.Region = "us-west-2" },
			says: "the bucket is probably not in region us-west-2"},
		"odd words": {change: func(l *Location) { l.Endpoint = says(t, "canary <b>") }, says: "HTTP 403"},
		"nobody listens": {change: func(l *Location) { l.Endpoint = "http://127.0.0.1:9" },
			says: "could not be sent to http://127.0.0.1:9: "},
	} {
		t.Run(name, func(t *testing.T) {
			l := there.Location
			if tc.change != nil {
				tc.change(&l)
			}
			if tc.id == "" {
				tc.id, tc.key = server.AccessKey, server.SecretKey
			}
			b := connectTo(t, l, tc.id, tc.key)
			_, errList := b.List(t.Context(), 10)
			for what, err := range map[string]error{"Put": b.Put(t.Context(), backup, file), "List": errList} {
				if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "canary") {
					t.Errorf("%s: %v; it does not say %q", what, err, tc.says)
				}
			}
		})
	}
}

// says is an S3 service that refuses everything with that code.
func says(t *testing.T, code string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		var text strings.Builder
		_ = xml.EscapeText(&text, []byte(code))
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", text.String())
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestUnreadable: an export that cannot be read back does not stay: the next attempt has another name.
func TestUnreadable(t *testing.T) {
	b := newBucket(t)
	l := refusing(t, b, http.MethodGet, exportSuffix)
	backup, file := packed(t, "manual-a", databaseAt(0))
	err := connectTo(t, l, server.AccessKey, server.SecretKey).Put(t.Context(), backup, file)
	if err == nil || !strings.Contains(err.Error(), "GetObject of ") {
		t.Errorf("Put: %v", err)
	}
	if got := files(t, b); len(got) > 0 {
		t.Errorf("left are %v", got)
	}
}

// TestProbe: a store that can be used has nothing more afterwards.
func TestProbe(t *testing.T) {
	inEach(t, func(t *testing.T, b kept) {
		if err := b.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := files(t, b); len(got) > 0 {
			t.Errorf("left are %v", got)
		}
	})
	for method, says := range map[string]string{http.MethodPut: "PutObject of ", http.MethodGet: "GetObject of ",
		http.MethodDelete: "DeleteObject of "} {
		t.Run(method, func(t *testing.T) {
			b := connectTo(t, refusing(t, newBucket(t), method, ""), server.AccessKey, server.SecretKey)
			if err := b.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v does not say %q", err, says)
			}
		})
	}
}
