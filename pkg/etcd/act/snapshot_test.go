package act_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/snapshot"
	"github.com/linstor-dev/storagecluster-operator/test/etcdmembers"
)

// contents are the keys that a database file had last, with their values: its bucket "key" has a KeyValue for each
// revision, and the key of one that was deleted ends with "t" (etcd 3.7, mvcc.BytesToRev).
func contents(t *testing.T, path string) (all map[string]string, revision int64) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	all = map[string]string{}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(k, v []byte) error {
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(v, &kv); err != nil {
				return err
			}
			revision = max(revision, int64(binary.BigEndian.Uint64(k)))
			if strings.HasSuffix(string(k), "t") && len(k) == 18 {
				delete(all, string(kv.Key))
				return nil
			}
			all[string(kv.Key)] = string(kv.Value)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, revision
}

// served is what a member has.
func served(t *testing.T, endpoint string) map[string]string {
	t.Helper()
	answer, err := client(t, []string{endpoint}).Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range answer.Kvs {
		all[string(kv.Key)] = string(kv.Value)
	}
	return all
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// order is for the snapshot of that day.
func order(c *etcdmembers.Cluster, of *etcdmembers.Node, day int) snapshot.Config {
	return snapshot.Config{ID: fmt.Sprintf("before-3.8-202611%02dT120000Z", day), Endpoint: of.ClientURL,
		ClusterID: c.Facts.Notes.ClusterID.String()}
}

// TestSnapshot of a real member has all that was acknowledged, deletions too, and LINSTOR's data comes back from it.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 3)
	d := c.Rest()
	for i := range 200 {
		put(t, d.Endpoints, fmt.Sprintf("/LINSTOR/%03d", i), strings.Repeat("x", i))
	}
	db := client(t, d.Endpoints)
	if _, err := db.Delete(t.Context(), "/LINSTOR/007"); err != nil {
		t.Fatal(err)
	}
	// Each member has all of it: the read before the snapshot waits until the member has what the quorum has.
	for _, n := range c.Nodes {
		taken, err := snapshot.Take(t.Context(), n.Snapshots(), order(c, n, 1))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(n.Snapshots(), snapshot.File(taken.ID))
		if size, hash, err := snapshot.Verify(path); err != nil || size != taken.Bytes || hash != taken.SHA256 {
			t.Errorf("%d, %s, %v; reported %+v", size, hash, err, taken)
		}
		if again, err := snapshot.Take(t.Context(), n.Snapshots(), order(c, n, 1)); err != nil || again != taken {
			t.Errorf("%+v was taken, and then %+v: %v", taken, again, err)
		}
		all, revision := contents(t, path)
		if diff := cmp.Diff(served(t, n.ClientURL), all); diff != "" || len(all) != 199 || revision < taken.Revision ||
			taken.Revision < 200 {
			t.Errorf("revision %d, reported %d: %s", revision, taken.Revision, diff)
		}
	}
	restored(t, c.Nodes[0], served(t, c.Nodes[0].ClientURL))
}

// TestSnapshotsKept: the newest ones stay, what was interrupted goes, and what is not the operator's is left alone.
func TestSnapshotsKept(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 1)
	c.Rest()
	n := c.Nodes[0]
	if err := os.Mkdir(n.Snapshots(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine.db", "before-3.7.db", "before-3.8-20261101T000000Z.db.part"} {
		if err := os.WriteFile(filepath.Join(n.Snapshots(), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, day := range []int{2, 3, 4, 5, 1} { // the clock is set back at last
		if _, err := snapshot.Take(t.Context(), n.Snapshots(), order(c, n, day)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"before-3.7.db", "mine.db"}
	for _, day := range []int{1, 4, 5} {
		file := snapshot.File(order(c, n, day).ID)
		want = append(want, file, file+".json")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, files(t, n.Snapshots())); diff != "" {
		t.Error(diff)
	}
}

// TestSnapshotRefused: what is no snapshot of this cluster leaves no file.
func TestSnapshotRefused(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 1)
	c.Rest()
	n := c.Nodes[0]
	other := order(c, n, 1)
	other.ClusterID = "1"
	nobody := order(c, n, 1)
	nobody.Endpoint = "http://127.0.0.1:1"
	for _, config := range []snapshot.Config{other, nobody} {
		taken, err := snapshot.Take(t.Context(), n.Snapshots(), config)
		if err == nil || taken != (seats.Taken{ID: config.ID}) {
			t.Errorf("%+v: %+v, %v", config, taken, err)
		}
	}
	if left := files(t, n.Snapshots()); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// restored fails unless etcd has the same on what etcdutl has made of a node's snapshot. It needs etcdutl, which no
// other test needs: ETCDUTL names it.
func restored(t *testing.T, n *etcdmembers.Node, want map[string]string) {
	t.Helper()
	program := os.Getenv("ETCDUTL")
	if program == "" {
		return
	}
	file := filepath.Join(n.Snapshots(), files(t, n.Snapshots())[0])
	endpoint := etcdmembers.Restored(t, program, file)
	if diff := cmp.Diff(want, served(t, endpoint)); diff != "" {
		t.Error(diff)
	}
}

// TestCutOff: a file that is cut off, as by a full disk, does not pass for a snapshot.
func TestCutOff(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 1)
	c.Rest()
	n := c.Nodes[0]
	taken, err := snapshot.Take(t.Context(), n.Snapshots(), order(c, n, 1))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(n.Snapshots(), snapshot.File(taken.ID))
	whole, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	part, err := os.Create(path + ".cut")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(part, whole, taken.Bytes/2/512*512+32); err != nil {
		t.Fatal(err)
	}
	if err := part.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := snapshot.Verify(path + ".cut"); err == nil {
		t.Error("it passes")
	}
}
