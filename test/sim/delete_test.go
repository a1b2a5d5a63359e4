package sim_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answered sends a request and returns the messages of its answer, which must be a success.
func (b *bench) answered(method, path, body string) []string {
	b.Helper()
	status, raw := b.raw(method, path, body)
	if status >= 300 {
		b.Errorf("%s %s: %d %s", method, path, status, raw)
	}
	return messages(b.entries(raw))
}

// TestDeleteOfAnOfflineNode: its copies go with it in LINSTOR, and stay on its disks.
func TestDeleteOfAnOfflineNode(t *testing.T) {
	b := newBench(t)
	s := b.online(2)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	s[0].Stop()
	b.pass(2 * time.Second)
	want := []string{"Node 'n1' marked for deletion.", "No active connection to satellite 'n1'",
		"Deleted resource 'pvc-1' on 'n1'",
		"(n2) Volume number 0 of resource 'pvc-1' [LVM THIN] resized",
		"Notified 'n2' that resource 'pvc-1' on 'n1' is being deleted", "Node 'n1' deleted."}
	if diff := cmp.Diff(want, b.answered(http.MethodDelete, "/v1/nodes/n1", "")); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	b.status("n1", "")
	b.data("pvc-1", "n1", "n2")
	b.violations()
}

// TestDeleteOfANodeWithASnapshot: the snapshot goes, the node stays until it is deleted again. Until then LINSTOR
// commits what it is told and does not answer.
func TestDeleteOfANodeWithASnapshot(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.must(b.world.Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"))
	b.must(b.world.Volumes().CreateSnapshot("pvc-1", "snap"))
	b.raw(http.MethodDelete, "/v1/resource-definitions/pvc-1/resources/n2", "")
	want := []string{"Node 'n2' marked for deletion.",
		"Marked snapshot for deletion snapshot 'snap' of resource 'pvc-1' on nodes 'n2'",
		"(n2) Snapshot [LVM THIN] with name 'snap' of resource 'pvc-1', volume number 0 deleted.",
		"Deleted snapshot 'snap' of 'pvc-1' on 'n2'",
		"Updated snapshot 'snap' of 'pvc-1' on 'n1'", "Snapshot 'snap' of resource 'pvc-1' on nodes 'n2' deleted."}
	if diff := cmp.Diff(want, b.answered(http.MethodDelete, "/v1/nodes/n2", "")); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	b.status("n2", "ONLINE", "DELETE")

	for _, r := range []struct{ method, path, body, state, stored string }{
		{http.MethodPost, "/v1/encryption/passphrase", `{"new_passphrase":"secret"}`, "/v1/encryption/passphrase",
			"unlocked"},
		{http.MethodPut, "/v1/node-connections/n1/n2", `{"override_props":{"Aux/a":"b"}}`, "/v1/node-connections", "Aux/a"},
	} {
		stored := func() bool {
			_, body := b.raw(http.MethodGet, r.state, "")
			return strings.Contains(string(body), r.stored)
		}
		if err := b.giveUpOn(r.method, r.path, r.body, stored); err == nil {
			t.Errorf("%s %s was answered", r.method, r.path)
		}
	}

	if diff := cmp.Diff([]string{"Node 'n2' deleted."}, b.answered(http.MethodDelete, "/v1/nodes/n2", "")); diff != "" {
		t.Errorf("second deletion (-want +got):\n%s", diff)
	}
	b.status("n2", "")
}

// giveUpOn sends a request, and once LINSTOR has stored it does not wait for an answer longer than a moment.
func (b *bench) giveUpOn(method, path, body string, stored func() bool) error {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, b.server.URL+path, strings.NewReader(body))
	b.must(err)
	answer := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		answer <- err
	}()
	b.eventually(stored)
	moment := time.AfterFunc(200*time.Millisecond, cancel)
	defer moment.Stop()
	return <-answer
}

// TestDeleteOfANodeWithCopyAndSnapshot: with the last copy the node goes at once.
func TestDeleteOfANodeWithCopyAndSnapshot(t *testing.T) {
	b := newBench(t)
	b.online(1)
	b.must(b.world.Volumes().CreateWithoutDRBD("pvc-1", 1<<20, "ssd", "n1"))
	b.must(b.world.Volumes().CreateSnapshot("pvc-1", "snap"))
	if got := b.answered(http.MethodDelete, "/v1/nodes/n1", ""); len(got) != 9 || got[8] != "Node 'n1' deleted." {
		t.Errorf("answer %q", got)
	}
	b.status("n1", "")
}

// TestStorageOnlyVolumes: LINSTOR tells no state of a volume without DRBD, and cannot move it.
func TestStorageOnlyVolumes(t *testing.T) {
	b := newBench(t)
	b.online(2)
	b.must(b.world.Volumes().CreateWithoutDRBD("pvc-1", 1<<20, "ssd", "n1"))
	view := func() (list []struct {
		Flags []string          `json:"flags"`
		Props map[string]string `json:"props"`
		State json.RawMessage   `json:"state"`
		Layer struct {
			Type string `json:"type"`
		} `json:"layer_object"`
		Volumes []map[string]any `json:"volumes"`
	}) {
		_, body := b.raw(http.MethodGet, "/v1/view/resources", "")
		b.must(json.Unmarshal(body, &list))
		return list
	}
	before := view()[0]
	if string(before.State) != "{}" || before.Layer.Type != "STORAGE" || before.Volumes[0]["state"] != nil {
		t.Errorf("the copy is %+v", before)
	}
	status, body := b.raw(http.MethodPut, "/v1/nodes/n1/evacuate", "{}")
	if got := b.entries(body); status != 200 || len(got) != 1 || got[0].RetCode != -9223372036854774788 ||
		got[0].Message != "Resource 'pvc-1' cannot be evacuated as it is not a DRBD resource" {
		t.Errorf("evacuation: %d %s", status, body)
	}
	b.pass(time.Minute)
	after := view()[0]
	if cmp.Diff([]string{"EVACUATE"}, after.Flags) != "" || after.Props["MigrateFrom"] != "N1" {
		t.Errorf("the copy is %+v", after)
	}
	b.data("pvc-1", "n1")
}

// TestUnservedEndPoints: nothing that could be taken for LINSTOR's answer.
func TestUnservedEndPoints(t *testing.T) {
	b := newBench(t)
	b.online(1)
	for _, r := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/v1/schedules", 501}, {"GET", "/v1/view/backup/queue", 501},
		{"POST", "/v1/remotes/x/backups/ship", 501},
		{"PUT", "/v1/nodes/n1/config", 501}, {"DELETE", "/v1/storage-pool-definitions/x", 501},
		{"OPTIONS", "/v1/query-max-volume-size", 501},
		{"PATCH", "/v1/key-value-store", 405}, {"GET", "/v1/nope", 404}, {"GET", "/v1//nodes", 404},
		{"OPTIONS", "/v1/nodes", 200},
		{"GET", "/v1/nodes?limit=x", 500},
	} {
		status, body := b.raw(r.method, r.path, "")
		if status != r.status {
			t.Errorf("%s %s: %d, want %d", r.method, r.path, status, r.status)
		}
		if status == 501 && !strings.Contains(string(body), r.method+" "+r.path) {
			t.Errorf("%s %s: %q does not name it", r.method, r.path, body)
		}
	}
}

// TestTwoNodesOnOneSatellite: a host name that another node has is not taken over.
func TestTwoNodesOnOneSatellite(t *testing.T) {
	b := newBench(t)
	b.online(1)
	got := b.answered(http.MethodPost, "/v1/nodes", strings.Replace(createN1, `"n1"`, `"n9"`, 1))
	if diff := cmp.Diff([]string{"New node 'n9' registered."}, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	b.status("n9", "DUPLICATE_UNAME")
	b.status("n1", "CONNECTED")
	b.pass(11 * time.Second)
	b.status("n1", "ONLINE")
}

// TestMissingDirectory: the pool fails once, and has its directory a moment later.
func TestMissingDirectory(t *testing.T) {
	b := newBench(t)
	b.online(1)
	body := `{"storage_pool_name":"files","provider_kind":"FILE_THIN",` +
		`"props":{"StorDriver/StorPoolName":"/data/deep/pools"}}`
	status, raw := b.raw(http.MethodPost, "/v1/nodes/n1/storage-pools", body)
	if got := codes(b.entries(raw)); status != 500 || len(got) != 4 || got[2] != -4611686018409298978 {
		t.Errorf("create: %d %s", status, raw)
	}
	p, err := b.client.Nodes.GetStoragePool(t.Context(), "n1", "files")
	b.must(err)
	if p.TotalCapacity == 0 {
		t.Errorf("pool %+v", p)
	}
	b.answered(http.MethodPut, "/v1/nodes/n1/storage-pools/files", `{"override_props":{"Aux/a":"b"}}`)
}

// TestPoolsOfAnUnreachableNode: nothing is known of them, and that is told.
func TestPoolsOfAnUnreachableNode(t *testing.T) {
	b := newBench(t)
	b.online(1)[0].Stop()
	b.pass(2 * time.Second)
	list, err := b.client.Nodes.GetStoragePools(t.Context(), "n1")
	b.must(err)
	for _, p := range list {
		if p.TotalCapacity != 0 || len(p.Reports) != 1 {
			t.Errorf("pool %s: %+v", p.StoragePoolName, p)
		}
	}
}
