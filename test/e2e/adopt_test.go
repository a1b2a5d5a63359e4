package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// claimData is what the ConfigMap says that tells whose database this is, without the keys that say nothing.
func (e *env) claimData() map[string]string {
	e.T.Helper()
	data := e.claim().Data
	maps.DeleteFunc(data, func(_, v string) bool { return v == "" || v == "false" })
	return data
}

// restoreClaim puts the claim back as a backup tool does: it owns each of its keys.
func (e *env) restoreClaim() {
	e.T.Helper()
	old := e.claim()
	if err := e.Client().Delete(e.Ctx, old); err != nil {
		e.T.Fatal(err)
	}
	restored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name,
		Labels: old.Labels}, Data: old.Data}
	if err := e.Client().Create(e.Ctx, restored, client.FieldOwner("backup-tool")); err != nil {
		e.T.Fatal(err)
	}
}

// objectWrites are the LINSTOR writes that make or remove nodes, interfaces, pools or device pools.
func (e *env) objectWrites() []string {
	var out []string
	for _, w := range e.Sim.World().Writes() {
		properties := w.Path == "/v1/controller/properties"
		if (w.Method == http.MethodPost || w.Method == http.MethodDelete) && !properties {
			out = append(out, w.Method+" "+w.Path)
		}
	}
	return out
}

func TestReadoptionAfterRetain(t *testing.T) {
	e := startReady(t, 3, harness.ThinPool)
	e.Run()
	e.WaitPhase(v1alpha1.PhaseReady)
	before, claim := e.View(), e.claimData()
	if claim["localID"] == "" || claim["localID"] != before.LocalID {
		t.Fatalf("claim %v of LINSTOR %s", claim, before.LocalID)
	}
	e.Remove()
	e.WaitGone()
	e.Sim.World().ResetRequests()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	if w := e.objectWrites(); len(w) > 0 {
		t.Errorf("what was there already was written again: %v", w)
	}
	if diff := cmp.Diff(claim, e.claimData()); diff != "" {
		t.Errorf("claim (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(uuids(before), uuids(e.View())); diff != "" {
		t.Errorf("LINSTOR's nodes (-before +after):\n%s", diff)
	}
}

// TestDeletedAndMadeAnew deletes with the policy Delete: the emptied database stays in the form of its LINSTOR
// version, and the next cluster neither starts an older one on it nor is held to it if it takes another database. That
// the claim came back from a backup in between changes nothing.
func TestDeletedAndMadeAnew(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	deleted := harness.ThinPool + "  deletionPolicy: Delete\n"
	e.Apply(harness.Manifest(deleted))
	e.WaitPhase(v1alpha1.PhaseReady)
	version, uid := e.Get().Status.Version, string(e.Get().UID)
	e.Remove()
	e.WaitGone()
	want := map[string]string{"backend": "k8s", "version": version, "releasedBy": uid}
	if diff := cmp.Diff(want, e.claimData()); diff != "" {
		t.Errorf("claim after the deletion (-want +got):\n%s", diff)
	}
	e.restoreClaim()

	e.Sim.World().ResetRequests()
	e.Apply(harness.Manifest(deleted + "  version: 1.34.2\n"))
	hold := e.WaitHold(v1alpha1.HoldUnsupportedChange)
	for _, part := range []string{"spec.version", version, "linstor-claim"} {
		if !strings.Contains(hold.Message, part) {
			t.Errorf("the hold does not say %q: %s", part, hold.Message)
		}
	}
	if diff := cmp.Diff([]string{"ConfigMap/linstor-claim"}, e.Owned()); diff != "" {
		t.Errorf("objects for a refused spec (-want +got):\n%s", diff)
	}
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = version })
	e.WaitPhase(v1alpha1.PhaseReady)
	second := e.claimData()
	delete(second, "epoch")
	if diff := cmp.Diff(map[string]string{"backend": "k8s", "version": version, "localID": e.View().LocalID,
		"tlsMode": "Disabled"}, second); diff != "" {
		t.Errorf("claim of the second cluster (-want +got):\n%s", diff)
	}
	e.Remove()
	e.WaitGone()

	e.Apply(preparePostgreSQL(e, harness.Manifest(deleted)+`
  version: 1.34.2
  database:
    postgresql:
      host: postgresql.example.com
      credentialsSecret: linstor-db
      sslMode: require
`))
	e.WaitPhase(v1alpha1.PhaseReady)
	if got := e.claimData(); got["version"] != "1.34.2" || got["localID"] != e.View().LocalID || got["releasedBy"] != "" {
		t.Errorf("claim of the cluster on another database: %v", got)
	}
}

// uuids names LINSTOR's nodes and pools: one that was made anew has another UUID.
func uuids(v *linstor.View) map[string][]string {
	out := map[string][]string{}
	for name, n := range v.Nodes {
		out[name] = []string{n.UUID}
		for pool := range n.Pools {
			out[name] = append(out[name], pool)
		}
		slices.Sort(out[name])
	}
	return out
}

// TestReadoptionWithVolumes lets a deletion go through that a human forced while LINSTOR was away, and makes the
// cluster anew: the volume and its data are there. With the policy Delete, too: LINSTOR could not be told to forget
// anything.
func TestReadoptionWithVolumes(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionRetain, v1alpha1.DeletionDelete} {
		t.Run(string(policy), func(t *testing.T) { readoptWithVolumes(t, policy) })
	}
}

func readoptWithVolumes(t *testing.T, policy v1alpha1.DeletionPolicy) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool + "  deletionPolicy: " + string(policy) + "\n"))
	e.WaitPhase(v1alpha1.PhaseReady)
	claim := e.claimData()
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	e.WaitVolumes(1)
	e.LetDelete()
	e.Fault(allDown)
	e.Eventually("LINSTOR is away", func() error {
		if got := harness.Condition(e.Get(), conditions.Available); !strings.HasPrefix(got, "False/") {
			return fmt.Errorf("Available is %s", got)
		}
		return nil
	})
	e.Eventually("the deletion is let through", func() error { return e.Client().Delete(e.Ctx, e.Get()) })
	e.Resume(e.WaitHold(v1alpha1.HoldVolumesUnknown), v1alpha1.OptionContinue)
	e.WaitGone()
	e.Eventually("pods are gone", e.NoPods)
	e.Fault(nil)
	e.Sim.World().ResetRequests()
	if policy == v1alpha1.DeletionDelete {
		e.Apply(linstorNodesCRD) // the simulated LINSTOR keeps its nodes elsewhere
	}
	e.Apply(harness.Manifest(harness.ThinPool))
	if policy == v1alpha1.DeletionDelete { // the database is nobody's, and has nodes
		e.Resume(e.WaitHold(v1alpha1.HoldForeignLinstorFound), v1alpha1.OptionAdopt)
		claim["adopted"] = "true"
	}
	e.WaitPhase(v1alpha1.PhaseReady)
	if w := e.objectWrites(); len(w) > 0 {
		t.Errorf("what was there already was written again: %v", w)
	}
	after := e.claimData()
	if policy == v1alpha1.DeletionDelete { // what is taken over has begun to count anew
		delete(claim, "epoch")
		delete(after, "epoch")
	}
	if diff := cmp.Diff(claim, after); diff != "" {
		t.Errorf("claim (-before +after):\n%s", diff)
	}
	if v := e.View(); v.Volumes != 1 {
		t.Errorf("%d volumes in LINSTOR", v.Volumes)
	}
	if data := e.Sim.World().Volumes().Data("pvc-1"); !slices.Equal(data, []string{"n1", "n2"}) {
		t.Errorf("the volume's data is on %v", data)
	}
}

// TestLostStatus takes the status away, as a restore from a backup does.
func TestLostStatus(t *testing.T) {
	e := start(t, harness.Nodes(3))
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	c := e.WaitPhase(v1alpha1.PhaseReady)
	if err := e.Sim.World().Volumes().Create("pvc-1", 1<<20, "ssd", "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	guardsMade(e)
	owned, before, onDisk := e.Owned(), e.View(), e.disks("n1", "n2", "n3")
	for _, running := range []bool{true, false} {
		e.Sim.World().ResetRequests()
		if !running {
			e.StopOperator()
		}
		e.Eventually("wipe the status", func() error {
			c = e.Get()
			c.Status = v1alpha1.StorageClusterStatus{}
			return e.Client().Status().Update(e.Ctx, c)
		})
		if !running {
			e.Run()
		}
		c = e.WaitPhase(v1alpha1.PhaseReady)
		if all := e.Steps(c); all[len(all)-1].From != v1alpha1.PhasePending {
			t.Errorf("operator running=%v: the history begins with %+v", running, all[len(all)-1])
		}
		if c.Status.Version == "" || c.Status.Target == "" || c.Status.Nodes.Summary != "3/3" {
			t.Errorf("operator running=%v: status %+v", running, c.Status)
		}
		if w := e.Sim.World().Writes(); len(w) > 0 {
			t.Errorf("operator running=%v: LINSTOR was written to: %s %s", running, w[0].Method, w[0].Path)
		}
		if diff := cmp.Diff(owned, e.Owned()); diff != "" {
			t.Errorf("objects (-before +after):\n%s", diff)
		}
	}
	if diff := cmp.Diff(uuids(before), uuids(e.View())); diff != "" {
		t.Errorf("LINSTOR's nodes (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(onDisk, e.disks("n1", "n2", "n3")); diff != "" {
		t.Errorf("machines (-before +after):\n%s", diff)
	}
}

// checkForeignObjects wants all that the human of TestForeignObjectsInLinstor put into LINSTOR, with the operator's
// own.
func checkForeignObjects(e *env, uuid, when string) {
	e.T.Helper()
	v := e.View()
	n := v.Node("n1")
	switch {
	case n == nil || n.UUID != uuid:
		e.T.Errorf("%s: node n1 was made anew", when)
	case n.Properties["Aux/owner"] != "someone" || n.Properties["Aux/site"] != "a":
		e.T.Errorf("%s: properties of n1: %v", when, n.Properties)
	case n.Interface("backup") == nil || n.Pools["mine"] == nil:
		e.T.Errorf("%s: the human's interface or pool is gone: %+v, %v", when, n.Interfaces, n.Pools)
	case n.Pools["ssd"] == nil:
		e.T.Errorf("%s: n1 has no pool ssd", when)
	}
	if v.Node("stranger") == nil || v.Properties["Aux/site-wide"] != "yes" {
		e.T.Errorf("%s: the human's node or property is gone", when)
	}
}

// TestForeignObjectsInLinstor has a human's node, interface, properties and pool in LINSTOR before and while the
// operator works. All of them stay, and the human's registration of a member is taken over.
func TestForeignObjectsInLinstor(t *testing.T) {
	e := start(t, harness.Nodes(3))
	// The last phase before nodes are registered, so that a human is first.
	e.Fault(drop(http.MethodPost, "/v1/nodes"))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool + "  nodes: {properties: {Aux/site: a}}\n"))
	e.WaitPhase(v1alpha1.PhaseNodeRegistration)
	address := e.Node("n1").Status.Addresses[0].Address
	human := linstor.NodeSpec{Name: "n1", Properties: map[string]string{"Aux/owner": "someone"},
		Interfaces: []linstor.Interface{
			{Name: "default", Address: address, Port: 3366, Active: true}, {Name: "backup", Address: "10.9.0.1"}}}
	stranger := linstor.NodeSpec{Name: "stranger",
		Interfaces: []linstor.Interface{{Name: "default", Address: "10.9.9.9", Port: 3366}}}
	e.Fault(func(r *http.Request) *sim.Fault {
		// Only the test's own client gets through: the operator's names come with its own notes.
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/v1/nodes") &&
			strings.Contains(body(r), linstor.AuxPrefix) {
			return &sim.Fault{Drop: true}
		}
		return nil
	})
	api := e.Linstor()
	for _, n := range []linstor.NodeSpec{human, stranger} {
		if err := api.CreateNode(e.Ctx, n); err != nil && !linstor.IsUnreachable(err) {
			t.Logf("create node %s: %v", n.Name, err)
		}
	}
	e.Eventually("the human's node is ONLINE", func() error {
		n := e.View().Node("n1")
		if n == nil || !n.Online() {
			return fmt.Errorf("node is %+v", n)
		}
		return nil
	})
	// LINSTOR refuses a directory that is missing, though it makes it then.
	e.Sim.World().Machine("n1").MakeDirectory("/var/lib/linstor-pools/mine")
	pool := linstor.PoolSpec{Node: "n1", Name: "mine", Provider: "FILE_THIN", Backing: "/var/lib/linstor-pools/mine"}
	if err := api.CreatePool(e.Ctx, pool); err != nil {
		t.Fatal(err)
	}
	if err := api.SetProperties(e.Ctx, map[string]string{"Aux/site-wide": "yes"}, nil); err != nil {
		t.Fatal(err)
	}
	uuid := e.View().Node("n1").UUID
	e.Fault(nil)
	e.WaitPhase(v1alpha1.PhaseReady)
	checkForeignObjects(e, uuid, "Ready")
	// What was ours goes with the spec, what was not stays.
	e.Update(func(c *v1alpha1.StorageCluster) {
		c.Spec.Nodes.Interfaces = []nodespec.InterfaceSpec{{Name: "extra",
			AddressFrom: nodespec.AddressSource{AddressType: corev1.NodeInternalIP}}}
	})
	e.Eventually("interface extra", func() error {
		if e.View().Node("n1").Interface("extra") == nil {
			return fmt.Errorf("not there")
		}
		return nil
	})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Nodes.Interfaces = nil })
	e.Eventually("interface extra is removed", func() error {
		if e.View().Node("n1").Interface("extra") != nil {
			return fmt.Errorf("still there")
		}
		return nil
	})
	e.WaitPhase(v1alpha1.PhaseReady)
	checkForeignObjects(e, uuid, "after a change of the spec")
	// A deletion with the policy Delete deregisters members, and leaves the nodes of others.
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	e.Remove()
	e.WaitGone()
	if diff := cmp.Diff([]string{"stranger"}, e.registered("n1", "n2", "n3", "stranger")); diff != "" {
		t.Errorf("nodes in LINSTOR (-want +got):\n%s", diff)
	}
}
