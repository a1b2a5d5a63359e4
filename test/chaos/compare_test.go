package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// endState is all that a run has come to, as text: the StorageCluster, the operator's objects and labels, what LINSTOR
// has, and what is on the disks. What must differ from run to run is left out: identities, times, versions of objects,
// how it came about (history, Events), and what others report of the operator's objects.
func endState(e *harness.Env) (string, error) {
	state := map[string]any{}
	c := &v1alpha1.StorageCluster{}
	err := e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return "", err
	default:
		if err := lookAtEtcd(e, c, state); err != nil {
			return "", err
		}
		state["cluster"] = comparableCluster(c)
		state["caught up"] = c.Status.ObservedGeneration == c.Generation && c.Status.AcceptedGeneration == c.Generation
	}
	for _, look := range []func(*harness.Env, *v1alpha1.StorageCluster, map[string]any) error{lookAtObjects, lookAtNodes,
		lookAtLinstor} {
		if err := look(e, c, state); err != nil {
			return "", err
		}
	}
	out, err := yaml.Marshal(state)
	return string(out), err
}

// awaitState waits until a run has come to the end of an undisturbed one.
func awaitState(e *harness.Env, want string) {
	e.T.Helper()
	watch := machine.StartStopwatch()
	e.EventuallyEvery(lookEvery, "the end of the undisturbed run", func() error {
		state, err := endState(e)
		if err == nil && state != want {
			err = fmt.Errorf("end states differ (-want +got):\n%s",
				cmp.Diff(strings.Split(want, "\n"), strings.Split(state, "\n")))
		}
		if err != nil && watch.Elapsed() > e.Patience/4 {
			e.T.Fatal(err)
		}
		return err
	})
}

// lookAtObjects lists the operator's objects. Of the accepted specs only the present one counts: how many old ones are
// kept depends on how often the spec changed.
func lookAtObjects(e *harness.Env, c *v1alpha1.StorageCluster, state map[string]any) error {
	for kind, list := range map[string]client.ObjectList{
		"CSIDriver": &storagev1.CSIDriverList{}, "StorageClass": &storagev1.StorageClassList{},
		"DaemonSet": &appsv1.DaemonSetList{}, "Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{},
		"ConfigMap": &corev1.ConfigMapList{}, "Secret": &corev1.SecretList{},
		"ControllerRevision": &appsv1.ControllerRevisionList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
	} {
		err := e.Client().List(e.Ctx, list, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.HasLabels{v1alpha1.LabelCluster})
		if err != nil {
			return err
		}
		items, _ := plain(list)["items"].([]any)
		for _, item := range items {
			o, _ := item.(map[string]any)
			meta, _ := o["metadata"].(map[string]any)
			name, _ := meta["name"].(string)
			labels, _ := meta["labels"].(map[string]any)
			switch {
			case kind == "Secret":
				o["data"] = nil // backups and keys
			case kind != "ControllerRevision":
			case labels[v1alpha1.LabelComponent] != v1alpha1.ComponentRevision || name != c.Status.Target:
				continue
			}
			if ofMembers(c, o) {
				continue
			}
			delete(o, "status")
			delete(o, "revision")
			if madeWithCertificates(o) {
				annotations, _ := meta["annotations"].(map[string]any)
				delete(annotations, resources.AnnotationSpecHash)
			}
			state[kind+" "+text(name)] = masked(o)
		}
	}
	return nil
}

// lookAtNodes lists what the operator keeps at Nodes, and what is on their disks.
func lookAtNodes(e *harness.Env, _ *v1alpha1.StorageCluster, state map[string]any) error {
	var list corev1.NodeList
	if err := e.Client().List(e.Ctx, &list); err != nil {
		return err
	}
	for _, n := range list.Items {
		own := map[string]string{}
		for _, all := range []map[string]string{n.Labels, n.Annotations} {
			for k, v := range all {
				if strings.HasPrefix(k, v1alpha1.Prefix) && k != pods.Label && k != pods.Used {
					own[k] = v
				}
			}
		}
		state["node "+n.Name] = own
		if m := e.Sim.World().Machine(n.Name); m != nil {
			state["machine "+n.Name] = map[string]any{"disks": m.Disks(), "groups": m.LVM().Groups(), "zpools": m.ZFS().Pools()}
		}
	}
	return nil
}

// lookAtLinstor lists all that LINSTOR answers, or what is in its database if no controller runs.
func lookAtLinstor(e *harness.Env, c *v1alpha1.StorageCluster, state map[string]any) error {
	if h := c.Status.Hold; c.Name == "" || h != nil && h.Reason == v1alpha1.HoldRestoreRequested { // it is stopped
		state["registered"] = e.Sim.World().Database("k8s").Nodes()
		return nil
	}
	for _, p := range []string{"/v1/nodes", "/v1/view/storage-pools", "/v1/storage-pool-definitions",
		"/v1/controller/properties", "/v1/view/resources", "/v1/node-connections"} {
		req, err := http.NewRequestWithContext(e.Ctx, http.MethodGet, e.Sim.LinstorURL()+p, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s %w", p, resp.Status, err)
		}
		var answer any
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		if properties, ok := answer.(map[string]any); ok && properties[linstor.PropEpoch] != nil {
			if state["one epoch"], err = oneEpoch(e, properties[linstor.PropEpoch]); err != nil {
				return err
			}
		}
		state["LINSTOR "+p] = mask(answer)
	}
	return nil
}

// oneEpoch reports whether the claim has LINSTOR's number.
func oneEpoch(e *harness.Env, number any) (bool, error) {
	claim := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ClaimName}
	if err := e.Client().Get(e.Ctx, key, claim); err != nil {
		return false, err
	}
	return fmt.Sprint(epoch.Parse(claim.Data["epoch"]).Number) == number, nil
}

// comparableCluster is a cluster without what differs from run to run: of several nodes, which one's disk was used
// first is chance.
func comparableCluster(c *v1alpha1.StorageCluster) map[string]any {
	c = c.DeepCopy()
	for _, p := range c.Status.Pools.ByPool {
		slices.SortFunc(p.RecentDevices, func(a, b v1alpha1.PoolDevice) int {
			return strings.Compare(a.Node+" "+a.Path, b.Node+" "+b.Path)
		})
	}
	for i := range c.Status.Certificates {
		cert := &c.Status.Certificates[i]
		cert.Name, cert.Serial = strings.TrimRight(cert.Name, "0123456789abcdef"), ""
	}
	return masked(plain(c))
}

// plain turns an object into maps and lists.
func plain(o any) map[string]any {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return out
}

// unequal are the fields that differ from run to run.
var unequal = []string{
	"uid", "uuid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink",
	"observedGeneration", "acceptedGeneration", "lastTransitionTime", "since", "phaseSince", "progressSince", "progress",
	"updated", "history", "target", "passed", "request", v1alpha1.AnnotationCanary,
	"taken", "bytes", "requested", "ended", v1alpha1.AnnotationBackup, v1alpha1.AnnotationCompareBackup,
	v1alpha1.AnnotationRestore, "sha256", "restored", "restoreConfirmed", "identities",
	"epoch", linstor.PropEpoch,
	"clusterIP", "clusterIPs", "create_timestamp", "device_path", "minor_number", "tcp_ports", "node_id", "port",
	"deprecated.daemonset.template.generation", "deployment.kubernetes.io/revision",
}

// names that are made up, and times, in texts.
var madeUp = regexp.MustCompile(`h-[0-9a-f]{6,}|` +
	`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|` +
	`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)|` +
	`127\.\d+\.\d+\.\d+:3379(,127\.\d+\.\d+\.\d+:3379)*|` +
	`generation \d+|-[0-9a-f]{8,10}\b|manual-\d+|\d{8}t\d{6}z|\d+ bytes`)

func text(s string) string { return madeUp.ReplaceAllString(s, "…") }

func masked(m map[string]any) map[string]any { return mask(m).(map[string]any) }

func mask(v any) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		for i := range v {
			v[i] = mask(v[i])
		}
		return v
	case map[string]any:
		for k := range v {
			if slices.Contains(unequal, k) {
				delete(v, k)
				continue
			}
			v[k] = mask(v[k])
		}
		return v
	default:
		return v
	}
}

func TestComparableCluster(t *testing.T) {
	disk := func(node string, at int64) v1alpha1.PoolDevice {
		return v1alpha1.PoolDevice{Node: node, Path: "/dev/sdb", Serial: "S" + node, Since: metav1.Unix(at, 0)}
	}
	of := func(disks ...v1alpha1.PoolDevice) *v1alpha1.StorageCluster {
		c := &v1alpha1.StorageCluster{}
		c.Status.Pools = v1alpha1.PoolsStatus{ByPool: []v1alpha1.PoolStatus{{Name: "fast", RecentDevices: disks}}}
		return c
	}
	given := of(disk("n2", 20), disk("n1", 10))
	want := comparableCluster(of(disk("n1", 12), disk("n2", 11)))
	if diff := cmp.Diff(want, comparableCluster(given)); diff != "" {
		t.Errorf("the same disks, used in another order: -want +got\n%s", diff)
	}
	if given.Status.Pools.ByPool[0].RecentDevices[0].Node != "n2" {
		t.Error("the cluster itself was changed")
	}
	other := disk("n2", 11)
	other.Serial = "S4EV9"
	if cmp.Equal(want, comparableCluster(of(disk("n1", 12), other))) {
		t.Error("another disk makes no difference")
	}
}
