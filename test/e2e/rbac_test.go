package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/operator"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// grant is one right of the operator's.
type grant struct {
	namespace             string // "" for rights that hold everywhere
	group, resource, verb string
}

func (g grant) String() string {
	where := "everywhere"
	if g.namespace != "" {
		where = "in " + g.namespace
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", g.verb, g.resource, g.group, where))
}

// unusedGrant is why the operator needs a right that the walk cannot use; "" if there is no reason.
func unusedGrant(g grant) string {
	switch {
	case g.group == "authentication.k8s.io", g.group == "authorization.k8s.io":
		return "asked for each scrape of /metrics, which this harness does not serve"
	case g.group == "events.k8s.io" && g.verb == "patch":
		return "Kubernetes' recorder counts an Event up that is repeated while the object it is about stays unchanged"
	case g.verb == "list" && g.group != "internal.linstor.linbit.com":
		return "with an older API server, which cannot stream lists, the cache lists before it watches"
	case g.resource == "linstorversion":
		return "used only in upgrades, see TestUpgradeThatMigratesNothing"
	}
	return ""
}

// operatorRole reports whether a role is one of the operator's.
func operatorRole(name string) bool {
	return name == "storagecluster-operator" || name == "storagecluster-operator-events"
}

// grants reads the operator's rights from its manifest.
func grants(t *testing.T) []grant {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "deploy", "operator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var out []grant
	for documents := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var role rbacv1.Role // a ClusterRole has the same fields
		if err := documents.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if (role.Kind != "Role" && role.Kind != "ClusterRole") || !operatorRole(role.Name) {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						out = append(out, grant{role.Namespace, group, resource, verb})
					}
				}
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("the manifest grants %d rights, want more: was it read right?", len(out))
	}
	return out
}

// uses reports whether a request needed a right.
func (g grant) uses(ev simcluster.AuditEvent) bool {
	resource := ev.Resource
	if ev.Subresource != "" {
		resource += "/" + ev.Subresource
	}
	if ev.Group != g.group || resource != g.resource || g.namespace != "" && g.namespace != ev.Namespace {
		return false
	}
	// The API server asks for the verb create as well when server-side apply makes an object; the request stays a patch.
	return ev.Verb == g.verb || ev.Verb == "patch" && g.verb == "create" && ev.Code == http.StatusCreated
}

// denied are the operator's requests that were refused for want of a right.
func denied(e *env) []simcluster.AuditEvent {
	e.T.Helper()
	all, _ := e.Requests(0)
	return slices.DeleteFunc(all, func(ev simcluster.AuditEvent) bool { return ev.Code != http.StatusForbidden })
}

// TestDenialsAreSeen takes one right away and finds the request that misses it: without that, a list of no denials
// proves nothing.
func TestDenialsAreSeen(t *testing.T) {
	e := start(t, harness.Nodes(3))
	var role rbacv1.Role
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault,
		Name: "storagecluster-operator-events"}, &role); err != nil {
		t.Fatal(err)
	}
	role.Rules[0].Verbs = slices.DeleteFunc(role.Rules[0].Verbs, func(v string) bool { return v == "create" })
	if err := e.Client().Update(e.Ctx, &role); err != nil {
		t.Fatal(err)
	}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Eventually("a denied request", func() error {
		for _, ev := range denied(e) {
			if ev.Verb == "create" && ev.Resource == "events" {
				return nil
			}
		}
		return fmt.Errorf("denied are only %v", denied(e))
	})
}

// linstorDefinition is that of one of LINSTOR's tables.
func linstorDefinition(kind string) string {
	return strings.NewReplacer("KIND", kind, "PLURAL", strings.ToLower(kind)).Replace(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.internal.linstor.linbit.com}
spec:
  group: internal.linstor.linbit.com
  names: {kind: KIND, plural: PLURAL, singular: PLURAL}
  scope: Cluster
  versions:
  - name: v1-33-1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
}

const walkPools = `
  volumes: {driver: {mode: Managed}, storageClasses: [{name: fast}], drainGuard: Auto}` + harness.ThinPool + `
  - name: fast
    lvmThin: {volumeGroup: vg_new, thinPool: thin}
    devices: {match: [{serial: "S4EV*"}]}
`

// walk takes a StorageCluster through its life.
func walk(t *testing.T) *env {
	t.Helper()
	e := startWithDriver(t, harness.Nodes(3))
	e.Apply(linstorDefinition("Nodes") + linstorDefinition("PropsContainers")) // as an earlier LINSTOR leaves it behind
	harness.InstallSnapshotAPI(e.Env)
	harness.RunSnapshotController(e.Env)
	e.Apply(monitorDefinitions())
	e.Sim.World().Machine("n3").SetSignature("S4EV3", "ext4")
	findsItsImage(e)
	e.Run()
	e.Apply(harness.Manifest(walkPools))
	e.Resume(e.WaitNodeHold(v1alpha1.HoldDeviceNotEmpty), v1alpha1.OptionSkip)
	e.WaitPhase(v1alpha1.PhaseReady)

	e.AddNode(nodeSpec(4, nil))
	e.WaitStatus("four nodes", func(s *v1alpha1.StorageClusterStatus) bool { return s.Nodes.Summary == "4/4" })
	dead := e.otherNode()
	if err := e.Sim.KillNode(e.Ctx, dead); err != nil {
		t.Fatal(err)
	}
	e.WaitPhase(v1alpha1.PhaseDegraded)
	if err := e.Sim.ReviveNode(e.Ctx, dead); err != nil {
		t.Fatal(err)
	}
	e.WaitPhase(v1alpha1.PhaseReady)

	// More accepted specs than are kept.
	for i := range 11 {
		e.Update(func(c *v1alpha1.StorageCluster) {
			c.Spec.Nodes.Properties = map[string]string{"Aux/example.com/turn": fmt.Sprint(i)}
		})
		e.Eventually("the changed spec is accepted and done", func() error {
			if c := e.Get(); c.Status.AcceptedGeneration != c.Generation || c.Status.Phase != v1alpha1.PhaseReady {
				return fmt.Errorf("generation %d of %d is accepted, phase %s", c.Status.AcceptedGeneration, c.Generation,
					c.Status.Phase)
			}
			return nil
		})
	}
	// A change of what the satellites' pods are made from.
	roll := watchRoll(e)
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.StoragePools = append(c.Spec.StoragePools, filePool()) })
	e.Eventually("the first satellite is restarted", func() error {
		if _, order := roll.result(); len(order) == 0 {
			return fmt.Errorf("no satellite was restarted yet")
		}
		return nil
	})
	e.Update(func(c *v1alpha1.StorageCluster) { c.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	e.Remove()
	e.WaitGone()

	// The same again on an external database with credentials, deleted with the policy Retain.
	manifest := preparePostgreSQL(e, harness.Manifest(harness.ThinPool)+`
  database:
    postgresql:
      host: postgresql.example.com
      credentialsSecret: linstor-db
      sslMode: require
`)
	e.Apply(manifest)
	e.WaitPhase(v1alpha1.PhaseReady)
	e.Remove()
	e.WaitGone()
	return e
}

// findsItsImage: the operator can read the pod that its Deployment makes.
func findsItsImage(e *env) {
	e.T.Helper()
	var d appsv1.Deployment
	key := client.ObjectKey{Namespace: v1alpha1.OperatorNamespace, Name: "storagecluster-operator"}
	if err := e.Client().Get(e.Ctx, key, &d); err != nil {
		e.T.Fatal(err)
	}
	p := &corev1.Pod{Spec: d.Spec.Template.Spec}
	p.Namespace, p.Name = d.Namespace, "storagecluster-operator-0"
	if err := e.Client().Create(e.Ctx, p); err != nil {
		e.T.Fatal(err)
	}
	defer func() { _ = e.Client().Delete(e.Ctx, p) }()
	want := d.Spec.Template.Spec.Containers[0].Image
	if got, err := operator.OwnImage(e.Ctx, e.Config, p.Name); err != nil || got != want {
		e.T.Errorf("its image is %q, %v, want %q", got, err, want)
	}
	if got, err := operator.OwnImage(e.Ctx, e.Config, "another"); err == nil {
		e.T.Errorf("the image of a pod that is not there is %q", got)
	}
}

// TestRoleFits finds neither a request that the role lacks nor a right in it that nothing uses.
func TestRoleFits(t *testing.T) {
	e := walk(t)
	e.StopOperator() // watches are logged when they end
	for _, ev := range denied(e) {
		t.Errorf("denied: %s %s", ev.Verb, ev.RequestURI)
	}
	granted := grants(t)
	e.Eventually("all rights are used, or it is known why not", func() error {
		requests, _ := e.Requests(0)
		var missing []string
		for _, g := range granted {
			if !slices.ContainsFunc(requests, g.uses) && unusedGrant(g) == "" {
				missing = append(missing, g.String())
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("nothing used these rights:\n%s", strings.Join(missing, "\n"))
		}
		return nil
	})
}
