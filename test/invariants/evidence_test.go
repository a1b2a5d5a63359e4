package invariants

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

type answers struct{ status int }

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(strings.NewReader("[]"))}, nil
}

func TestEvidence(t *testing.T) {
	const look, deed = "GET /v1/view/resources?nodes=n1", "DELETE /v1/nodes/n1"
	tests := map[string]struct {
		// log has requests as "METHOD url [status]", and "wait" for a time that is too long.
		log  []string
		want string // "" for no violation
	}{
		"looked":                     {log: []string{look, deed}},
		"looked at several nodes":    {log: []string{"GET /v1/view/resources?nodes=n2&nodes=N1", deed}},
		"other looks between":        {log: []string{look, "GET /v1/nodes", deed}},
		"not looked":                 {log: []string{deed}, want: "without its evidence"},
		"looked at another node":     {log: []string{"GET /v1/view/resources?nodes=n2", deed}, want: "without its evidence"},
		"looked at all, as polls do": {log: []string{"GET /v1/view/resources", deed}, want: "without its evidence"},
		"looked afterwards":          {log: []string{deed, look}, want: "without its evidence"},
		"looked long ago":            {log: []string{look, "wait", deed}, want: "without its evidence"},
		"the look failed":            {log: []string{look + " 500", deed}, want: "without its evidence"},
		"tried again without a look": {log: []string{look, deed, deed}, want: "without its evidence"},
		"tried again with a look":    {log: []string{look, deed, look, deed}},
		"one look, two deeds":        {log: []string{look, "DELETE /v1/nodes/n1/storage-pools/ssd", deed}},
		"lost":                       {log: []string{look, "DELETE /v1/nodes/n1/lost"}},
		"lost without a look":        {log: []string{"DELETE /v1/nodes/n1/lost"}, want: "without its evidence"},
		"evacuate":                   {log: []string{look, "PUT /v1/nodes/n1/evacuate"}},
		"evacuate without a look": {log: []string{"GET /v1/nodes", "PUT /v1/nodes/n1/evacuate"},
			want: "without its evidence"},
		"pool": {log: []string{"GET /v1/nodes/n1/storage-pools/SSD?cached=false",
			"DELETE /v1/nodes/n1/storage-pools/ssd"}},
		"pool from the cache": {log: []string{"GET /v1/nodes/n1/storage-pools/ssd",
			"DELETE /v1/nodes/n1/storage-pools/ssd"}, want: "without its evidence"},
		"another pool": {log: []string{"GET /v1/nodes/n1/storage-pools/hdd?cached=false",
			"DELETE /v1/nodes/n1/storage-pools/ssd"}, want: "without its evidence"},
		"disks": {log: []string{"GET /v1/physical-storage/n1", "POST /v1/physical-storage/n1"}},
		"disks of another node": {log: []string{"GET /v1/physical-storage/n2", "POST /v1/physical-storage/n1"},
			want: "without its evidence"},
		"disks as polls list them": {log: []string{"GET /v1/physical-storage", "POST /v1/physical-storage/n1"},
			want: "without its evidence"},
		"evict": {log: []string{look, "PUT /v1/nodes/n1/evict"}},
		"evict without a look": {log: []string{"GET /v1/nodes", "PUT /v1/nodes/n1/evict"},
			want: "without its evidence"},
		"no rule": {log: []string{look, "DELETE /v1/resource-definitions/pvc-1"},
			want: "DELETE /v1/resource-definitions/pvc-1 is a write without a rule"},
		"an unknown POST": {log: []string{look, "POST /v1/resource-definitions/pvc-1/resources/n1/toggle-disk"},
			want: "is a write without a rule"},
		"an unknown PUT": {log: []string{look, "PUT /v1/nodes/n1/shutdown"},
			want: "PUT /v1/nodes/n1/shutdown is a write without a rule"},
		"an unknown PATCH":        {log: []string{"PATCH /v1/encryption/passphrase"}, want: "is a write without a rule"},
		"another method":          {log: []string{"PATCH /v1/nodes/n1"}, want: "is a write without a rule"},
		"reads that nobody knows": {log: []string{"GET /v1/anything", "HEAD /v1/anything"}},
		"restore":                 {log: []string{"PUT /v1/nodes/n1/restore {}"}},
		"restore with deletion": {log: []string{`PUT /v1/nodes/n1/restore {"delete_resources":true}`},
			want: "gives up replicas"},
		"writes that destroy nothing": {log: []string{"POST /v1/controller/properties", "POST /v1/nodes", "PUT /v1/nodes/n1",
			"PUT /v1/nodes/n1/reconnect",
			"POST /v1/nodes/n1/net-interfaces", "PUT /v1/nodes/n1/net-interfaces/data", "POST /v1/nodes/n1/storage-pools",
			"PUT /v1/nodes/n1/storage-pools/ssd"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			now, next := begin, &answers{}
			e := &Evidence{Next: next, Violate: func(m string) { got = append(got, m) }, Now: func() time.Time { return now }}
			for _, line := range tt.log {
				if line == "wait" {
					now = now.Add(evidenceSpan + time.Millisecond)
					continue
				}
				f := append(strings.Fields(line), "")
				next.status = http.StatusOK
				if f[2] == "500" {
					next.status = http.StatusInternalServerError
				}
				req, err := http.NewRequestWithContext(t.Context(), f[0], "http://linstor"+f[1], strings.NewReader(f[2]))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := e.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if left, _ := io.ReadAll(req.Body); string(left) != f[2] {
					t.Errorf("%s: the body became %q", line, left)
				}
			}
			if text := strings.Join(got, "\n"); (text == "") != (tt.want == "") || !strings.Contains(text, tt.want) {
				t.Errorf("violations %q, want %q", text, tt.want)
			}
		})
	}
}

func TestDestructive(t *testing.T) {
	for request, want := range map[string]bool{
		"GET /v1/nodes/n1":         false,
		"PUT /v1/nodes/n1":         false,
		"PUT /v1/nodes/n1/restore": false,
		`PUT /v1/nodes/n1/restore {"delete_resources":true}`: true,
		"PUT /v1/nodes/n1/evict":                             true,
		"POST /v1/physical-storage/n1":                       true,
		"DELETE /v1/nodes/n1":                                true,
		"PUT /v1/nodes/n1/something-new":                     true,
		"POST /v1/nodes/n1/storage-pools/ssd/something-new":  true,
	} {
		f := append(strings.Fields(request), "")
		r, err := http.NewRequestWithContext(t.Context(), f[0], "http://linstor"+f[1], strings.NewReader(f[2]))
		if err != nil {
			t.Fatal(err)
		}
		if got := Destructive(r); got != want {
			t.Errorf("%s: destructive is %t, want %t", request, got, want)
		}
	}
}
