package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

const (
	classUnreadable = "spec: unreadable value"
	// specUnreadable is the reason of the Event, and what the status draws attention to.
	specUnreadable = "SpecUnreadable"
	// tellWithin is how long the operator has to report a spec that it cannot read.
	tellWithin = time.Minute
	// blind is for how long the operator is watched while a satellite is dead. The times after which it acts on one are
	// shorter.
	blind = 12 * time.Second
	// fewWrites are more than the operator needs to report a value, and far less than it would need to report it over and
	// over.
	fewWrites = 10
	// volume has a copy on each node.
	volume = "pvc-unreadable"
)

// unreadable are values that the operator cannot decode, and that an earlier schema could have let pass.
var unreadable = []struct {
	path, value string
	// restart makes the operator restart while the value is stored.
	restart bool
}{
	{path: "nodes.lostAfter", value: "1d", restart: true},
	{path: "nodes.maxConcurrentEvacuations", value: "two"},
}

// TestSpecUnreadable stores specs that the operator cannot decode, through a schema that lets them pass. The rest of
// such a spec would destroy something if it was carried out: a pool goes, a node leaves. The operator reports the
// value and does nothing, whatever dies meanwhile, and goes on by itself once the value is corrected.
func TestSpecUnreadable(t *testing.T) {
	t.Parallel()
	c := startCampaign(t, base{name: "kubernetes", spec: rich, databases: []string{"k8s"}})
	c.StopOperator()
	c.Probes = harness.FreeAddress(t)
	c.Run()
	if err := c.Sim.World().Volumes().Create(volume, 1<<20, "thin", "n1", "n2", "n3"); err != nil {
		t.Fatal(err)
	}
	c.WaitVolumes(1)
	c.normal = c.atRest()
	for i, u := range unreadable {
		if i > 0 && !full() {
			break
		}
		at := locate(c.spec, u.path)[0]
		spec := runtime.DeepCopyJSON(c.spec)
		pools := spec["storagePools"].([]any)
		spec["storagePools"] = slices.Delete(slices.Clone(pools), 3, 4)
		locate(spec, "nodes.nodeSelector")[0].set(spec, tree(`{example.com/zone: a}`))
		at.set(spec, u.value)

		mark, told := c.AuditMark(), len(c.toldUnreadable(""))
		c.Sim.World().ResetRequests()
		c.store(t, u.path, spec)
		c.tells(t, at, told)
		if u.restart {
			told = len(c.toldUnreadable(""))
			c.StopOperator()
			c.Run()
			c.tells(t, at, told)
		}
		c.unchanged(t, mark)
		c.loseMachine(t, mark)
		c.unchanged(t, mark)
		t.Logf("%s: the operator wrote:\n%s", u.path, harness.Tally(c.Writes(mark)))

		// The corrected spec differs from the one before, so that the operator has something to go on with.
		team := fmt.Sprintf("corrected-%d", i)
		spec = runtime.DeepCopyJSON(c.spec)
		locate(spec, "controller.properties")[0].set(spec, map[string]any{"Aux/example.com/team": team})
		c.mustPut(spec)
		c.Eventually("the operator goes on", func() error {
			if body, ok := harness.Probe(t, "http://"+c.Probes+"/readyz"); !ok {
				return fmt.Errorf("not ready: %s", body)
			}
			if got := c.View().Properties["Aux/example.com/team"]; got != team {
				return fmt.Errorf("LINSTOR's controller has the property %q, not %q", got, team)
			}
			return nil
		})
		c.mustPut(c.spec)
		c.end(t)
		if a := c.Get().Status.Attention; a != "" && a != "BackupReady: BackupInvalid" { // its Secret is not there
			t.Errorf("the status still draws attention to %s", a)
		}
	}
}

// store puts a spec through a schema that takes any text at a path, and puts the schema of now back.
func (c *campaign) store(t *testing.T, path string, spec map[string]any) {
	t.Helper()
	injected(classUnreadable)
	c.ExpectGaps() // a kind whose schema changes is watched anew
	definitions := c.objects.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	now, err := definitions.Get(c.Ctx, "storageclusters."+v1alpha1.GroupVersion.Group, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	define := func(versions []any) {
		c.Eventually("the schema is changed", func() error {
			u, err := definitions.Get(c.Ctx, now.GetName(), metav1.GetOptions{})
			if err == nil {
				err = unstructured.SetNestedSlice(u.Object, versions, "spec", "versions")
			}
			if err == nil {
				_, err = definitions.Update(c.Ctx, u, metav1.UpdateOptions{})
			}
			return err
		})
	}
	versions, _, err := unstructured.NestedSlice(now.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	field := []string{"schema", "openAPIV3Schema", "properties", "spec"}
	for _, name := range parts(path) {
		field = append(field, "properties", name)
	}
	loose := runtime.DeepCopyJSONValue(versions).([]any)
	if err := unstructured.SetNestedMap(loose[0].(map[string]any), map[string]any{"type": "string"},
		field...); err != nil {
		t.Fatal(err)
	}
	define(loose)
	c.Eventually("the loose schema is served", func() error { return c.put(spec) })
	define(versions)
	other := c.stored(t)
	locate(other.Object["spec"], path)[0].set(other.Object["spec"].(map[string]any), "other")
	c.Eventually("the schema of now is served", func() error {
		_, err := c.clusters().Update(c.Ctx, other, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case apierrors.IsInvalid(err):
			return nil
		case apierrors.IsConflict(err): // the operator writes the status
			other.SetResourceVersion(c.stored(t).GetResourceVersion())
		case err == nil:
			err = errors.New("another unreadable value is taken")
		}
		return err
	})
}

// stored is the StorageCluster as it is stored.
func (c *campaign) stored(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u, err := c.clusters().Get(c.Ctx, v1alpha1.ClusterName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// toldUnreadable are the Events about a place of the spec that cannot be read; with "" about any.
func (c *campaign) toldUnreadable(place string) []eventsv1.Event {
	c.T.Helper()
	return slices.DeleteFunc(c.Events(), func(e eventsv1.Event) bool {
		return e.Reason != specUnreadable || e.Type != corev1.EventTypeWarning || !strings.HasPrefix(e.Note, place)
	})
}

// tells: within a minute readiness fails, and a further Event than the told ones names the value, as the status does.
// The operator is up all the same: nothing but the spec keeps it from being ready.
func (c *campaign) tells(t *testing.T, at place, told int) {
	t.Helper()
	e := c.For(t)
	e.Patience = tellWithin
	e.Eventually("the operator reports the unreadable value", func() error {
		for probe, want := range map[string]bool{"/healthz": true, "/readyz/cache": true, "/readyz/observation": false,
			"/readyz": false} {
			if body, ok := harness.Probe(t, "http://"+c.Probes+probe); ok != want {
				return fmt.Errorf("%s succeeds: %t: %s", probe, ok, body)
			}
		}
		if n := len(c.toldUnreadable("")); n <= told || len(c.toldUnreadable(at.String()+" of StorageCluster")) == 0 {
			return fmt.Errorf("%d Events after %d, none about %s: %+v", n, told, at, c.toldUnreadable(""))
		}
		stored := c.stored(t).Object
		attention, _, _ := unstructured.NestedString(stored, "status", "attention")
		message, _, _ := unstructured.NestedString(stored, "status", "message")
		if attention != specUnreadable || !strings.HasPrefix(message, at.String()) {
			return fmt.Errorf("the status says %q: %s", attention, message)
		}
		return nil
	})
}

// loseMachine switches a machine off and on again that does not run LINSTOR's controller. Meanwhile nothing is done
// about it.
func (c *campaign) loseMachine(t *testing.T, mark int) {
	t.Helper()
	var pods corev1.PodList
	err := c.Client().List(c.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentController})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods of the controller: %v", len(pods.Items), err)
	}
	node := "n2"
	if pods.Items[0].Spec.NodeName == node {
		node = "n3"
	}
	if err := c.Sim.KillNode(c.Ctx, node); err != nil {
		t.Fatal(err)
	}
	c.WaitConnection(node, "OFFLINE")
	_, flags := c.Sim.World().NodeStatus(node)
	c.During(blind, "nothing is done about the dead machine", func() error {
		if status, now := c.Sim.World().NodeStatus(node); status != "OFFLINE" || !slices.Equal(now, flags) {
			return fmt.Errorf("%s is %s in LINSTOR, with the flags %q, which were %q", node, status, now, flags)
		}
		return nil
	})
	if err := c.written(mark); err != nil {
		t.Error(err)
	}
	if err := c.Sim.ReviveNode(c.Ctx, node); err != nil {
		t.Fatal(err)
	}
}

// unchanged: the cluster, the StorageCluster aside, is as before, or becomes so without the operator's help.
func (c *campaign) unchanged(t *testing.T, mark int) {
	t.Helper()
	if diff := c.around(); diff != "" {
		t.Errorf("the spec is unreadable, and there are differences:\n%s", diff)
	}
	if got, want := c.Sim.World().Volumes().Data(volume), []string{"n1", "n2", "n3"}; !slices.Equal(got, want) {
		t.Errorf("the volume is on %v, and was on %v", got, want)
	}
	if err := c.written(mark); err != nil {
		t.Error(err)
	}
}

// written is an error if the operator wrote more since the mark than some Events and the status, or LINSTOR was
// written to.
func (c *campaign) written(mark int) error {
	writes := c.Writes(mark)
	if len(writes) > fewWrites {
		return fmt.Errorf("the spec is unreadable, and the operator reports it over and over:\n%s", harness.Tally(writes))
	}
	for _, w := range writes {
		if w.Resource != "events" && harness.RequestKind(w) != "patch storageclusters/status" {
			return fmt.Errorf("the spec is unreadable, and the operator writes: %s %s/%s", harness.RequestKind(w), w.Namespace,
				w.Name)
		}
	}
	for _, w := range c.Sim.World().Writes() {
		return fmt.Errorf("the spec is unreadable, and LINSTOR is written to: %s %s %s", w.Method, w.Path, w.Body)
	}
	return nil
}
