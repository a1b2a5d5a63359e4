package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

const outOfOrder = `[{"ret_code":-4611686018406677530,"message":"out of order"}]`

// refuseNewNodes is a LINSTOR that fails to register nodes.
func refuseNewNodes(r *http.Request) *sim.Fault {
	if r.Method == http.MethodPost && r.URL.Path == "/v1/nodes" {
		return &sim.Fault{Status: http.StatusInternalServerError, Body: outOfOrder}
	}
	return nil
}

// linstorPut does a PUT without a body, as a user does with LINSTOR's own client.
func (e nodeEnv) linstorPut(path string) {
	e.T.Helper()
	req, err := http.NewRequestWithContext(e.Ctx, http.MethodPut, e.Sim.LinstorURL()+path, nil)
	if err != nil {
		e.T.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.T.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		e.T.Fatalf("PUT %s: %s: %s", path, resp.Status, body)
	}
}

func holdDatabaseUnreachable(t *testing.T) {
	t.Parallel()
	t.Run("before the first start", databaseUnreachableAtFirst)
	t.Run("of a running cluster", databaseLost)
}

func databaseUnreachableAtFirst(t *testing.T) {
	e := start(t, harness.Nodes(1))
	deadline := machine.Slow(time.Second)
	e.Timing.Deadlines[fsm.Database] = deadline
	e.Run()
	address := harness.FreeAddress(t)
	e.Apply(harness.Manifest(fmt.Sprintf("  version: 1.33.3\n  database: {etcd: {endpoints: [\"http://%s\"]}}", address) +
		harness.ThinPool))
	h := e.held(v1alpha1.HoldDatabaseUnreachable, "no progress for "+deadline.String(), address)
	h = e.retriedInVain(h)
	other := harness.FreeAddress(t)
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec.Database.Etcd.Endpoints[0] = "http://" + other })
	h = e.held(v1alpha1.HoldDatabaseUnreachable, other)
	harness.StartEtcd(t, other)
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")
}

// databaseLost: a cluster that runs is Degraded first when its database goes away.
func databaseLost(t *testing.T) {
	e := startReady(t, 1, harness.ThinPool)
	e.Timing.Escalate = machine.Slow(10 * time.Second)
	e.Run()
	e.ready("1/1", "1/1")
	e.Sim.Faults().SetCrash(resources.ControllerContainer, "",
		"org.postgresql.util.PSQLException: Connection to db:5432 refused")
	e.WaitPhase(v1alpha1.PhaseDegraded)
	h := e.held(v1alpha1.HoldDatabaseUnreachable, "Connection to db:5432 refused")
	h = e.retriedInVain(h)
	e.Sim.Faults().SetCrash(resources.ControllerContainer, "", "")
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")
}

func holdForeignLinstorFound(t *testing.T) {
	t.Parallel()
	t.Run("before the first start", foreignAtFirst)
	t.Run("of a running cluster", databaseReplaced)
}

var linstorNodesCRD = linstorDefinition("Nodes") + `---
apiVersion: internal.linstor.linbit.com/v1-33-1
kind: Nodes
metadata: {name: 0a1b2c}
spec: {node_name: ALPHA, node_dsp_name: alpha}
`

func foreignAtFirst(t *testing.T) {
	e := start(t, harness.Nodes(1))
	db := e.Sim.World().Database("k8s")
	db.SeedForeign("11111111-2222-4333-8444-555555555555", "alpha")
	e.Apply(linstorNodesCRD)
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldForeignLinstorFound, "alpha", "adopt")
	e.ignored(h.ID + ":abort")
	e.staysAfterSpecChange(h)
	h = e.retriedInVain(h)
	if _, err := e.Sim.Kubectl(e.Ctx, "delete", "nodes.internal.linstor.linbit.com", "--all"); err != nil {
		t.Fatal(err)
	}
	e.stays(h, "the other LINSTOR's nodes are gone")
	e.Apply(linstorNodesCRD)
	if got := db.SchemaVersion(); got != "1.33.3" {
		t.Errorf("the foreign database was migrated to %s without consent", got)
	}
	e.answered(h, v1alpha1.OptionAdopt)
	e.ready("1/1", "1/1")
	if db.LocalID() != "11111111-2222-4333-8444-555555555555" || db.SchemaVersion() != "1.35.3" {
		t.Errorf("LocalID is %s, schema %s", db.LocalID(), db.SchemaVersion())
	}
	if claim := e.claim(); claim.Data["adopted"] != "true" || claim.Data["localID"] != db.LocalID() {
		t.Errorf("the claim has %v", claim.Data)
	}
}

func (e *env) claim() *corev1.ConfigMap {
	e.T.Helper()
	cm := &corev1.ConfigMap{}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ClaimName},
		cm); err != nil {
		e.T.Fatal(err)
	}
	return cm
}

// databaseReplaced: the database of a running cluster is emptied, and LINSTOR starts anew on it. The CSI driver's
// controller does not run meanwhile.
func databaseReplaced(t *testing.T) {
	e := start(t, harness.Nodes(1))
	e.Run()
	e.Apply(harness.Manifest(driven))
	e.ready("1/1", "1/1")
	db := e.Sim.World().Database("k8s")
	before := db.LocalID()
	db.SeedForeign("11111111-2222-4333-8444-555555555555", "alpha")
	h := e.held(v1alpha1.HoldForeignLinstorFound, before, db.LocalID(), "adopt")
	waitDriverReplicas(e, 0)
	e.staysAfterSpecChange(h)
	h = e.retriedInVain(h)
	e.answered(h, v1alpha1.OptionAdopt)
	e.ready("1/1", "1/1")
	if claim := e.claim(); claim.Data["localID"] != db.LocalID() {
		t.Errorf("the claim has %v", claim.Data)
	}
	if n := e.driverReplicas(); n != 1 {
		t.Errorf("the driver's controller is to have %d pods afterwards", n)
	}
}

// waitDriverReplicas waits until the CSI driver's controller is to have so many pods.
func waitDriverReplicas(e *env, want int32) {
	e.T.Helper()
	e.Eventually(fmt.Sprintf("the driver's controller has %d pods", want), func() error {
		if n := e.driverReplicas(); n != want {
			return fmt.Errorf("it is to have %d pods", n)
		}
		return nil
	})
}

func holdPassphraseUnusable(t *testing.T) {
	e := start(t, harness.Nodes(1))
	e.Run()
	e.Apply(harness.Manifest("  controller: {passphraseSecret: key}" + harness.ThinPool))
	h := e.held(v1alpha1.HoldPassphraseUnusable, "linstor-storage/key", resources.PassphraseKey)
	h = e.retriedInVain(h)
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec.Controller.PassphraseSecret = "other" })
	h = e.held(v1alpha1.HoldPassphraseUnusable, "linstor-storage/other")
	e.passphrase("other", "correct horse")
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")

	// Another passphrase would lock the controller out: nothing is started with it.
	revision := e.deploymentGeneration()
	e.passphrase("other", "battery staple")
	h = e.held(v1alpha1.HoldPassphraseUnusable, "does not contain the passphrase")
	if strings.Contains(h.Message, "battery") || strings.Contains(h.Message, "horse") {
		t.Errorf("the message gives the passphrase away: %s", h.Message)
	}
	h = e.retriedInVain(h)
	if got := e.deploymentGeneration(); got != revision {
		t.Errorf("the controller's Deployment went from generation %d to %d", revision, got)
	}
	e.passphrase("other", "correct horse")
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")
}

func (e *env) passphrase(name, text string) {
	e.T.Helper()
	e.Apply(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\nstringData: {%s: %q}\n",
		name, v1alpha1.WorkloadNamespace, resources.PassphraseKey, text))
}

func (e *env) deploymentGeneration() int64 {
	e.T.Helper()
	m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace,
		Name: resources.ControllerName}, m); err != nil {
		e.T.Fatal(err)
	}
	return m.Generation
}

func holdControllerFailed(t *testing.T) {
	e := start(t, harness.Nodes(1))
	e.Sim.Faults().SetCrash(resources.ControllerContainer, "", "java.lang.OutOfMemoryError: Java heap space")
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldControllerFailed, "OutOfMemoryError")
	h = e.retriedInVain(h)
	h = e.lookedAgain(h)
	e.Sim.Faults().SetCrash(resources.ControllerContainer, "", "")
	e.ended(h, fsm.Cleared)
	e.ready("1/1", "1/1")
}

func holdVolumesUnknown(t *testing.T) {
	t.Parallel()
	t.Run("continue", volumesUnknownContinue)
	t.Run("LINSTOR comes back", volumesUnknownKnown)
}

func volumesUnknown(t *testing.T) (*env, *v1alpha1.Hold) {
	t.Helper()
	e := start(t, harness.Nodes(1))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.ready("1/1", "1/1")
	e.Sim.Faults().SetCrash(resources.ControllerContainer, "", "java.lang.OutOfMemoryError: Java heap space")
	e.Eventually("LINSTOR does not answer", func() error {
		if got := harness.Condition(e.Get(), conditions.Available); !strings.HasPrefix(got, "False/") {
			return fmt.Errorf("Available is %s", got)
		}
		return nil
	})
	e.Remove()
	return e, e.held(v1alpha1.HoldVolumesUnknown, "it is unknown whether volumes exist", "continue")
}

func volumesUnknownContinue(t *testing.T) {
	e, h := volumesUnknown(t)
	e.ignored(h.ID + ":skip")
	e.staysAfterSpecChange(h)
	h = e.retriedInVain(h)
	// While the user has suspended the operator, no answer is followed, and none is lost.
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = true })
	e.Resume(h, v1alpha1.OptionContinue)
	e.stays(h, "the operator is suspended")
	if generation := e.deploymentGeneration(); generation == 0 {
		t.Error("the controller's Deployment is gone")
	}
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Suspend = false })
	e.WaitGone()
}

// volumesUnknownKnown: the question is void as soon as LINSTOR says itself that there are no volumes.
func volumesUnknownKnown(t *testing.T) {
	e, _ := volumesUnknown(t)
	e.Sim.Faults().SetCrash(resources.ControllerContainer, "", "")
	e.WaitGone()
}
