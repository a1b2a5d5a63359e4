package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/difference"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
)

const localID = "1b1e-id"

// backedUp is a directory with two backups of one ID, the newer one with these nodes and no volumes.
func backedUp(t *testing.T, nodes ...string) store.Location {
	t.Helper()
	at := store.Location{Directory: t.TempDir()}
	to, err := store.Connect(at, localID, "")
	if err != nil {
		t.Fatal(err)
	}
	for minute, rows := range [][]string{{"older"}, nodes} {
		var names, addresses []string
		for _, n := range rows {
			names = append(names, fmt.Sprintf(`{"node_name":%q,"node_dsp_name":%q}`, strings.ToUpper(n), n))
			addresses = append(addresses, fmt.Sprintf(`{"node_name":%q,"inet_address":"10.0.0.%s"}`, strings.ToUpper(n), n[1:]))
		}
		tables := []string{`{"name":"PROPS_CONTAINERS","column_description":[],"data":[{"props_instance":"/CTRL",` +
			`"prop_key":"Cluster/LocalID","prop_value":"` + localID + `"}]}`,
			`{"name":"NODES","column_description":[],"data":[` + strings.Join(names, ",") + `]}`,
			`{"name":"NODE_NET_INTERFACES","column_description":[],"data":[` + strings.Join(addresses, ",") + `]}`}
		for _, name := range []string{"RESOURCE_DEFINITIONS", "RESOURCES", "NODE_STOR_POOL", "VOLUMES", "VOLUME_DEFINITIONS",
			"LAYER_RESOURCE_IDS", "LAYER_STORAGE_VOLUMES", "LAYER_DRBD_RESOURCES"} {
			tables = append(tables, fmt.Sprintf(`{"name":%q,"column_description":[],"data":[]}`, name))
		}
		source, packed := filepath.Join(t.TempDir(), "export"), filepath.Join(t.TempDir(), "packed")
		text := fmt.Sprintf(`{"linstor_version":"1.34.2","export_timestamp_ms":%d,"exported_from":"k8s","tables":[%s]}`,
			time.Date(2026, 11, 25, 8, minute, 0, 0, time.UTC).UnixMilli(), strings.Join(tables, ","))
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := store.Pack("manual-a", source, packed)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Put(t.Context(), b, packed); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// serves puts up a listing for the token "right", and returns its address.
func serves(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "listing")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return servesFile(t, file)
}

func servesFile(t *testing.T, file string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- listing.Serve(ctx, l, file, "right") }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// machines have the addresses that the backup has for them.
var machines = Machines{"n1": {"10.0.0.1"}, "n2": {"10.0.0.2"}}

const (
	empty = "VG\tvg\t4194304\nEND\n"
	more  = "VG\tvg\t4194304\nLV\tvg\tpvc-1_00000\t1048576\nEND\n"
)

func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		listings map[string]string
		token    string
		nodes    int
		found    map[difference.Kind]int
		worst    string
		errs     string
	}{
		"nothing": {map[string]string{"n1": serves(t, empty), "n2": serves(t, empty)}, "right", 2, nil, "", ""},
		"what the backup does not know": {map[string]string{"n1": serves(t, empty), "n2": serves(t, more)}, "right", 2,
			map[difference.Kind]int{difference.Unknown: 1}, "Unknown: vg/pvc-1_00000 on n2: it is not in the backup", ""},
		"a node is not listed": {map[string]string{"n1": serves(t, empty)}, "right", 1,
			map[difference.Kind]int{difference.Unseen: 1}, "Unseen: n2: the node was not checked", ""},
		"a node that the backup does not know, and nobody has listed": {map[string]string{"n1": serves(t, empty),
			"n2": serves(t, empty), "n3": ""}, "right", 2, map[difference.Kind]int{difference.Unseen: 1},
			"Unseen: n3: the node was not checked", ""},
		"LVM could not be asked, where the backup has nothing": {map[string]string{"n1": serves(t, "FAILED\tLVM\nEND\n"),
			"n2": serves(t, empty)}, "right", 2, map[difference.Kind]int{difference.Unseen: 1}, "Unseen: LVM on n1", ""},
		"one is not whole": {map[string]string{"n1": serves(t, "VG\tvg\t1024\n"), "n2": serves(t, empty)}, "right", 1,
			map[difference.Kind]int{difference.Unseen: 1}, "Unseen: n1", "list of node n1 cannot be read: the listing"},
		"another comparison's": {map[string]string{"n1": serves(t, empty), "n2": serves(t, empty)}, "wrong", 0,
			map[difference.Kind]int{difference.Unseen: 2}, "Unseen: n1", "responded with 401 Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Config{Cluster: localID, ID: "manual-a", Store: backedUp(t, "n1", "n2"), Nodes: tc.listings,
				Token: tc.token, Machines: machines}
			var errs, table strings.Builder
			r, err := Run(t.Context(), c, &errs)
			if err != nil {
				t.Fatal(err)
			}
			if r.Nodes != tc.nodes || r.Taken.Minute() != 1 {
				t.Errorf("%+v", r)
			}
			if d := cmp.Diff(tc.found, r.Found); d != "" {
				t.Errorf("found (-want +got):\n%s", d)
			}
			if !strings.HasPrefix(strings.Join(r.Worst, "|"), tc.worst) || !strings.Contains(errs.String(), tc.errs) {
				t.Errorf("worst %q, errors %q", r.Worst, errs.String())
			}
			if err := r.Print(&table); err != nil || strings.Contains(table.String(), "no difference") != (tc.found == nil) {
				t.Errorf("%v, table\n%s", err, table.String())
			}
		})
	}
}

// TestTooMuch: where nodes list more than there is room for, nothing is said of the others either.
func TestTooMuch(t *testing.T) {
	line := "LV\tvg\t" + strings.Repeat("r", 1000) + "_00000\t1024\n"
	address := serves(t, strings.Repeat(line, 25_000)+"END\n")
	c := &Config{Cluster: localID, ID: "manual-a", Store: backedUp(t, "n1"), Token: "right", Nodes: map[string]string{},
		Machines: machines}
	for i := range 6 {
		c.Nodes[fmt.Sprint("n", i)] = address
	}
	r, err := Run(t.Context(), c, t.Output())
	if err == nil || !strings.Contains(err.Error(), "the total of all listings is larger than 128 MiB") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestOldListing: nothing that came since would be found.
func TestOldListing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "listing")
	if err := os.WriteFile(file, []byte(empty), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-listing.Fresh - time.Second)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	l, err := listing.Get(t.Context(), servesFile(t, file), "right", listing.Room())
	if err == nil || !strings.Contains(err.Error(), "410") {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestStopped: whoever is told to end says nothing of what he has seen by then.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address := serves(t, empty)
	c := &Config{Cluster: localID, ID: "manual-a", Store: backedUp(t, "n1"), Token: "right",
		Nodes: map[string]string{"n1": address, "n2": "127.0.0.1:1"}, Machines: machines}
	if r, err := Run(ctx, c, stopper(cancel)); err == nil {
		t.Errorf("%+v", r)
	}
}

// stopper ends the program at the first word of an error.
type stopper context.CancelFunc

func (s stopper) Write(p []byte) (int, error) {
	s()
	return len(p), nil
}

// TestNote: it fits into a termination log, whatever was found, and says the same to whoever reads it.
func TestNote(t *testing.T) {
	var all strings.Builder
	for i := range 100 {
		fmt.Fprintf(&all, "LV\tvg\t%s%d_00000\t1048576\n", strings.Repeat("ü<&>", 60), i)
	}
	c := &Config{Cluster: localID, ID: "manual-a", Store: backedUp(t, "n1"), Token: "right",
		Nodes: map[string]string{"n1": serves(t, "VG\tvg\t1024\n"+all.String()+"END\n")}, Machines: machines}
	r, err := Run(t.Context(), c, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	note, err := r.Note()
	if err != nil || len(note) > 4096 {
		t.Fatalf("%d bytes, %v", len(note), err)
	}
	got, err := ParseNote(string(note))
	if err != nil || got.Found[difference.Unknown] != 100 || len(got.Worst) < 5 || got.ID != "manual-a" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	for name, text := range map[string]string{"no object": "[]", "no ID": `{"cluster":"a"}`,
		"no cluster": `{"id":"manual-a"}`, "an unknown field": `{"cluster":"a","id":"manual-a","more":1}`} {
		if _, err := ParseConfig(text); err == nil {
			t.Errorf("configuration with %s: no error", name)
		}
	}
	for _, text := range []string{"", "{}", `{"id":"manual-a"}`, `{"id":"x","taken":"2026-11-26T08:00:00Z"}`} {
		if r, err := ParseNote(text); err == nil {
			t.Errorf("note %q is %+v", text, r)
		}
	}
	c := &Config{Cluster: localID, ID: "manual-b", Store: backedUp(t), Machines: machines}
	r, err := Run(t.Context(), c, t.Output())
	if err == nil || !strings.Contains(err.Error(), "the store has no backup manual-b") {
		t.Errorf("%+v, %v", r, err)
	}
	whole, err := json.Marshal(&Config{Cluster: localID, ID: "manual-b"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseConfig(string(whole))
	if err != nil || got.SetNode("n1=10.0.0.1:9421") != nil || got.SetNode("n2=") != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if d := cmp.Diff(map[string]string{"n1": "10.0.0.1:9421", "n2": ""}, got.Nodes); d != "" {
		t.Error(d)
	}
	for _, text := range []string{"", "n1", "=10.0.0.1:9421"} {
		if got.SetNode(text) == nil {
			t.Errorf("%q is taken for a node", text)
		}
	}
}
