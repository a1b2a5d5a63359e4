package act_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/test/etcdmembers"
)

// version is that of the etcd that the tests' control plane has.
const version = "v3.7.0"

func begin(t *testing.T, nodes, size int) *etcdmembers.Cluster {
	t.Helper()
	c := etcdmembers.New(t, nodes)
	c.Facts.Version, c.Facts.Size = version, size
	c.Rest()
	return c
}

// client speaks to all members that clients are to be given.
func client(t *testing.T, endpoints []string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func put(t *testing.T, endpoints []string, key, value string) {
	t.Helper()
	c := client(t, endpoints)
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := c.Put(ctx, key, value)
			return err == nil, nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// have fails unless each endpoint, by itself, has what was written.
func have(t *testing.T, endpoints []string, key, value string) {
	t.Helper()
	for _, e := range endpoints {
		answer, err := client(t, []string{e}).Get(t.Context(), key)
		if err != nil || len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != value {
			t.Fatalf("%s at %s: %v, %v", key, e, answer, err)
		}
	}
}

// leading is the node of the leader, and one of a follower.
func leading(t *testing.T, c *etcdmembers.Cluster) (leader, follower *etcdmembers.Node) {
	t.Helper()
	look := c.Look()
	for _, s := range look.Notes.Seats {
		if s.ID == look.Look.Leader() {
			leader = c.On(s.Node)
		} else {
			follower = c.On(s.Node)
		}
	}
	if leader == nil || follower == nil {
		t.Fatalf("no leader or no follower: %+v", look.Notes.Seats)
	}
	return leader, follower
}

// TestSizes goes from one member to three, to five and back to one.
func TestSizes(t *testing.T) {
	t.Parallel()
	c := begin(t, 5, 1)
	d := c.Rest()
	put(t, d.Endpoints, "/LINSTOR/x", "first")
	for _, size := range []int{3, 5, 1} {
		c.Facts.Size = size
		d = c.Until(fmt.Sprint(size, " members"), func(d membership.Decision) bool {
			return d.Step == membership.Rest && len(d.Endpoints) == size
		})
		if n := len(c.Look().Look.Voters()); n != size {
			t.Fatalf("%d voters, want %d", n, size)
		}
		have(t, d.Endpoints, "/LINSTOR/x", "first")
	}
	put(t, d.Endpoints, "/LINSTOR/x", "last")
	// A node that has had a member gets another one: what the first has left is kept.
	c.Facts.Size = 3
	d = c.Rest()
	have(t, d.Endpoints, "/LINSTOR/x", "last")
	aside := 0
	for _, n := range c.Nodes {
		found, err := filepath.Glob(filepath.Join(n.DataDir(), "member.lost-*", "snap", "db"))
		if err != nil {
			t.Fatal(err)
		}
		aside += len(found)
	}
	if aside == 0 {
		t.Error("no data of a former member was set aside")
	}
}

// TestFirstStartEnded: a member whose etcd ended when it had made its log, and had written nothing to it, comes to
// work without a human, be it the first one or one that joins.
func TestFirstStartEnded(t *testing.T) {
	t.Parallel()
	c := etcdmembers.New(t, 3)
	c.Facts.Version, c.Facts.Size = version, 1
	c.Until("the first member is placed", func(d membership.Decision) bool { return d.Step == membership.Place })
	first := c.Nodes[slices.IndexFunc(c.Nodes, (*etcdmembers.Node).Placed)]
	c.Unbegun(first)
	put(t, c.Rest().Endpoints, "/LINSTOR/x", "1")
	found, err := filepath.Glob(filepath.Join(first.DataDir(), "member*"))
	if err != nil || len(found) != 2 {
		t.Errorf("there are %v, %v", found, err)
	}
	c.Facts.Size = 3
	placed := func(n *etcdmembers.Node) bool { return n != first && n.Placed() }
	c.Until("a learner is placed", func(membership.Decision) bool { return slices.ContainsFunc(c.Nodes, placed) })
	c.Unbegun(c.Nodes[slices.IndexFunc(c.Nodes, placed)])
	d := c.Rest()
	if len(d.Endpoints) != 3 {
		t.Errorf("clients know %v", d.Endpoints)
	}
	have(t, d.Endpoints, "/LINSTOR/x", "1")
	put(t, d.Endpoints, "/LINSTOR/x", "2")
}

// TestMembersFail has members of three go away in each way, and come back.
func TestMembersFail(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 3)
	d := c.Rest()
	put(t, d.Endpoints, "/LINSTOR/x", "1")

	leader, follower := leading(t, c)
	follower.Off()
	if h := c.Hold(membership.EtcdMemberDown); !strings.Contains(h.Message, follower.Name) {
		t.Errorf("hold %+v, and %s is down", h, follower.Name)
	}
	put(t, d.Endpoints, "/LINSTOR/x", "2")
	leader.Off()
	if h := c.Hold(membership.EtcdQuorumLost); !strings.Contains(h.Message, leader.Name+"-") {
		t.Errorf("hold %+v", h)
	}
	for _, n := range c.Nodes { // the survivor, too: it has no port for clients before it has found the others
		n.Kill()
	}
	c.Step()
	if h := c.Hold(membership.EtcdQuorumLost); strings.Count(h.Message, "before its last start, its log ended at") != 3 ||
		strings.Count(h.Message, "it may have received data") != 3 {
		t.Errorf("hold %+v", h)
	}
	follower.Again()
	leader.Again()
	have(t, c.Rest().Endpoints, "/LINSTOR/x", "2")

	leader, _ = leading(t, c)
	if err := leader.Stop(); err != nil {
		t.Fatal(err)
	}
	c.Until("the leader is stopped", func(d membership.Decision) bool {
		return d.Row == "down" && d.Seat.Node == leader.Name
	})
	if err := leader.Continue(); err != nil {
		t.Fatal(err)
	}
	c.Rest()

	_, follower = leading(t, c)
	former, pod := seat(c, follower), follower.Pod()
	if err := follower.LoseData(); err != nil {
		t.Fatal(err)
	}
	// Only its container restarts, and the guard refuses the empty directory.
	c.Until("the data is lost", func(d membership.Decision) bool { return d.Row == "lost" })
	if follower.Refusal() != seats.Lost || seat(c, follower) != former || follower.Pod() != pod {
		t.Errorf("%s of pod %s was refused: %q, now pod %s", former, pod, follower.Refusal(), follower.Pod())
	}
	c.Later("it is removed", func(d membership.Decision) bool { return d.Step == membership.Remove })
	d = c.Rest()
	if seat(c, follower) == former || slices.Contains(c.Rows, "two-clusters") {
		t.Errorf("%s is still there; rows %v", former, c.Rows)
	}
	have(t, d.Endpoints, "/LINSTOR/x", "2")
}

// TestLateMount: a disk that is mounted late is not taken for lost data.
func TestLateMount(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 3)
	put(t, c.Rest().Endpoints, "/LINSTOR/x", "1")
	_, follower := leading(t, c)
	former := seat(c, follower)
	if err := follower.Unmount(); err != nil {
		t.Fatal(err)
	}
	c.Until("the data is lost", func(d membership.Decision) bool { return d.Row == "lost" })
	if err := follower.Mount(); err != nil {
		t.Fatal(err)
	}
	have(t, c.Rest().Endpoints, "/LINSTOR/x", "1")
	if now := seat(c, follower); now != former || slices.Contains(c.Rows, "gone") {
		t.Errorf("%s was replaced by %q: rows %v", former, now, c.Rows)
	}
}

// TestForce makes a new cluster from the only survivor, and has the others join it again.
func TestForce(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 3)
	put(t, c.Rest().Endpoints, "/LINSTOR/x", "1")
	survivor, lost, off := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	if err := lost.LoseData(); err != nil {
		t.Fatal(err)
	}
	off.Off()
	h := c.Hold(membership.EtcdQuorumLost)
	if !strings.Contains(h.Plan, "force@") {
		t.Errorf("%+v", h)
	}
	former := c.Facts.Notes.Seats
	c.Facts.Recovery = &seats.Recovery{ID: "1", Force: seat(c, survivor)}
	c.Until("a new cluster is forced", func(membership.Decision) bool {
		found, err := datadir.Look(survivor.DataDir())
		return err == nil && found.Owner.Forced == "1"
	})
	for _, value := range []string{"2", "3"} { // its container restarts, and forces nothing again, which would lose this
		c.Until("the survivor serves", func(membership.Decision) bool { return c.Look().Look.Quorum() })
		put(t, []string{survivor.ClientURL}, "/LINSTOR/x", value)
		survivor.Kill()
	}
	c.Until("a new cluster serves", func(membership.Decision) bool { return len(c.Facts.Notes.Seats) == 1 })
	off.Again()
	d := c.Rest()
	have(t, d.Endpoints, "/LINSTOR/x", "3")
	for _, s := range former {
		if now := seat(c, c.On(s.Node)); (now == s.Name) != (s.Node == survivor.Name) {
			t.Errorf("%s was on node %s, and now %s is", s.Name, s.Node, now)
		}
	}
	aside, err := filepath.Glob(filepath.Join(off.DataDir(), "member.lost-*", "snap", "db"))
	if err != nil || len(aside) != 1 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
}

func seat(c *etcdmembers.Cluster, n *etcdmembers.Node) string {
	for _, s := range c.Facts.Notes.Seats {
		if s.Node == n.Name {
			return s.Name
		}
	}
	return ""
}

// TestForceRecalled: a survivor is not forced while another member runs, and the quorum that both have comes back.
func TestForceRecalled(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 3)
	put(t, c.Rest().Endpoints, "/LINSTOR/x", "1")
	survivor := c.Nodes[0]
	c.Nodes[1].Off()
	c.Nodes[2].Off()
	c.Hold(membership.EtcdQuorumLost)
	c.Facts.Recovery = &seats.Recovery{ID: "1", Force: seat(c, survivor)}
	former := survivor.Pod()
	c.Until("the survivor's pod is deleted", func(membership.Decision) bool { return survivor.Pod() != former })
	c.Back(c.Nodes[1]) // its kubelet still does not report
	c.Until("the survivor is not forced", func(membership.Decision) bool {
		found, err := datadir.Look(survivor.DataDir())
		return err == nil && found.Owner.Recalled == "1" && found.Owner.Forced == ""
	})
	c.Nodes[1].Again()
	c.Nodes[2].Again()
	have(t, c.Rest().Endpoints, "/LINSTOR/x", "1")
	if n := len(c.Look().Look.Voters()); n != 3 {
		t.Errorf("%d voters", n)
	}
}

// TestFull fills databases of three until etcd refuses writes, and has them cured. The contents are old revisions of
// one key, so that compacting and defragmenting gives nearly all of the space back.
func TestFull(t *testing.T) {
	t.Parallel()
	c := etcdmembers.New(t, 3)
	c.Facts.Version, c.Facts.Size, c.Facts.Quota = version, 3, 16<<20
	d := c.Rest()
	db := client(t, d.Endpoints)
	value := strings.Repeat("x", 1<<20)
	for i := 0; ; i++ {
		if _, err := db.Put(t.Context(), "/LINSTOR/x", value); err != nil {
			if !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatal(err)
			}
			break
		}
		if i > 64 {
			t.Fatal("the database is never full")
		}
	}
	for _, a := range c.Look().Look.Answers() {
		if a.Quota != c.Facts.Quota {
			t.Errorf("etcd has a quota of %d bytes, want %d", a.Quota, c.Facts.Quota)
		}
	}
	d = c.Rest()
	for _, row := range []string{"full-treat", "full-disarm"} {
		if !slices.Contains(c.Rows, row) {
			t.Errorf("row %s has not decided: %v; errors %v", row, c.Rows, c.Errs)
		}
	}
	put(t, d.Endpoints, "/LINSTOR/x", "small")

	// Other settings restart one member after the other.
	pods := map[string]bool{}
	for _, n := range c.Nodes {
		pods[n.Pod()] = true
	}
	c.Facts.Revision = "2"
	have(t, c.Rest().Endpoints, "/LINSTOR/x", "small")
	for _, n := range c.Nodes {
		if pods[n.Pod()] {
			t.Errorf("%s was not restarted: %v", n.Name, c.Rows)
		}
	}
}
