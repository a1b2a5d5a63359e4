package restclient

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/secret"
)

// always answers every request alike.
type always struct {
	status int
	body   []byte
}

func (a always) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a.body))), Request: r,
	}, nil
}

// mostError bounds an error's text: what was tried, three of LINSTOR's texts, and why, in bytes.
const mostError = 4 * (3*maxText + 500)

// FuzzAnswers gives every call an answer from elsewhere. No answer makes a call panic, an error is one short line
// without the secret that was sent, and an answer with an error in it never passes for success.
func FuzzAnswers(f *testing.F) {
	for _, a := range answers {
		f.Add(a.status, []byte(a.body))
	}
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `[null]`, `[[]]`, `{"count":-1}`,
		`{"name":"n1","net_interfaces":[null],"props":{"encrypted/master":"` + fuzzSecret + `"}}`,
		`[{"name":"N1","connection_status":"online","net_interfaces":[{"address":"::FFFF:10.0.0.1"}],` +
			`"eviction_timestamp":9223372036854775807}]`,
		`[{"storage_pool_name":"p","node_name":"n1","free_capacity":9,"total_capacity":1,"reports":[{"ret_code":-1,` +
			`"message":"\u0000\n"}]}]`,
		`[{"ret_code":-4611686018427387904,"message":"wrong value ` + fuzzSecret + `"}]`, `plain ` + fuzzSecret, `<html>`,
		`[{"size":1,"nodes":{"n1":[{"device":"/dev/sdb"},null]}}]`,
		`[{"name":"r","layer_object":{"children":[{"drbd":{"connections":{"n2":null}}}]}}]`,
	} {
		f.Add(200, []byte(body))
		f.Add(500, []byte(body))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 100 || status > 999 {
			return
		}
		api, err := New(Options{Endpoint: "http://linstor", Transport: always{status, body}})
		if err != nil {
			t.Fatal(err)
		}
		c := api.(*client)
		check := func(name string, err error) {
			if err == nil {
				return
			}
			text := err.Error()
			if len(text) > mostError || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) ||
				name == "a secret" && strings.Contains(text, fuzzSecret) {
				t.Errorf("%s: error %q", name, text)
			}
		}
		fuzzWrites(t, c, always{status, body}, check)
		fuzzReads(t, c, check)
	})
}

const fuzzSecret = "s3cr3t-of-the-fuzzer"

// hasError is whether a list of return codes has an error among its entries.
func hasError(body []byte) bool {
	var list []struct {
		RetCode int64 `json:"ret_code"`
	}
	if json.Unmarshal(body, &list) != nil {
		return false
	}
	for _, e := range list {
		if e.RetCode>>62 == -1 {
			return true
		}
	}
	return false
}

// fuzzWrites makes every write. An answer that tells of an error may pass for success only where something is deleted.
func fuzzWrites(t *testing.T, c *client, a always, check func(string, error)) {
	t.Helper()
	for name, do := range writes {
		err := do(t.Context(), c)
		check(name, err)
		if err == nil && (!isSuccess(a.status) || hasError(a.body)) && !strings.HasPrefix(name, "Delete") {
			t.Errorf("%s: HTTP %d %q passes for success", name, a.status, a.body)
		}
	}
	check("a secret", c.SetProperties(t.Context(), map[string]string{"encrypted/master": fuzzSecret}, nil))
}

func fuzzReads(t *testing.T, c *client, check func(string, error)) {
	t.Helper()
	version, err := c.version(t.Context())
	check("Version", err)
	if err == nil && version == "" {
		t.Error("an empty version")
	}
	n, err := c.Node(t.Context(), "n1")
	check("Node", err)
	if err == nil {
		checkNode(t, n)
	}
	p, err := c.Pool(t.Context(), "n1", "p")
	check("Pool", err)
	if err == nil {
		checkPool(t, p)
	}
	for name, read := range map[string]func(context.Context) error{
		"Devices":    func(ctx context.Context) error { _, err := c.Devices(ctx, "n1"); return err },
		"Resources":  func(ctx context.Context) error { _, err := c.Resources(ctx, linstor.ResourceQuery{}); return err },
		"Snapshots":  func(ctx context.Context) error { _, err := c.Snapshots(ctx, "n1"); return err },
		"Passphrase": func(ctx context.Context) error { _, err := c.Passphrase(ctx); return err },
	} {
		check(name, read(t.Context()))
	}
	nodes, err := c.nodes(t.Context())
	check("nodes", err)
	for key, n := range nodes {
		if key != strings.ToLower(n.Name) || key == "" {
			t.Errorf("node %q is kept as %q", n.Name, key)
		}
		checkNode(t, n)
	}
	pools, err := c.pools(t.Context(), nil)
	check("pools", err)
	for _, p := range pools {
		checkPool(t, p)
	}
	v, err := c.View(t.Context(), linstor.ViewOptions{Devices: true, Resources: true})
	check("View", err)
	if err == nil && (v.Volumes < len(v.VolumeNames) || len(v.VolumeNames) > 10) {
		t.Errorf("%d volumes with %d names", v.Volumes, len(v.VolumeNames))
	}
}

func checkNode(t *testing.T, n *linstor.Node) {
	t.Helper()
	if n.Name == "" {
		t.Error("a node without a name")
	}
	for key, value := range n.Properties {
		if secret.Is(key) {
			t.Errorf("secret property %s=%s is kept", key, value)
		}
	}
}

func checkPool(t *testing.T, p *linstor.Pool) {
	t.Helper()
	if p.TotalKiB != nil && *p.TotalKiB <= 0 {
		t.Errorf("a pool of %d KiB is told to be known", *p.TotalKiB)
	}
	for _, text := range p.Errors {
		if len(text) > mostError || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("report %q", text)
		}
	}
}
