// Package endstate says in what state a simulated cluster is, so that two runs can be compared.
package endstate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// fields are what a state consists of, by name.
type fields = map[string]any

// Of is all that a run has come to, as text: the StorageCluster, the operator's objects and labels, what LINSTOR
// has, and what is on the disks. What must differ from run to run is left out: identities, times, versions of objects,
// how it came about (history, Events), and what others report of the operator's objects.
func Of(ctx context.Context, sim *simcluster.Cluster) (string, error) {
	state := fields{}
	c := &v1alpha1.StorageCluster{}
	err := sim.Client().Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return "", err
	default:
		if err := lookAtEtcd(ctx, sim, c, state); err != nil {
			return "", err
		}
		state["cluster"] = comparableCluster(c)
		state["caught up"] = c.Status.ObservedGeneration == c.Generation && c.Status.AcceptedGeneration == c.Generation
	}
	for _, see := range []func(context.Context, *simcluster.Cluster, *v1alpha1.StorageCluster, fields) error{
		lookAtObjects, lookAtNodes, lookAtLinstor,
	} {
		if err := see(ctx, sim, c, state); err != nil {
			return "", err
		}
	}
	out, err := yaml.Marshal(state)
	return string(out), err
}

// lookAtObjects lists the operator's objects. Of the accepted specs only the present one counts: how many old ones are
// kept depends on how often the spec changed.
func lookAtObjects(ctx context.Context, sim *simcluster.Cluster, c *v1alpha1.StorageCluster, state fields) error {
	for kind, list := range map[string]client.ObjectList{
		"CSIDriver": &storagev1.CSIDriverList{}, "StorageClass": &storagev1.StorageClassList{},
		"DaemonSet": &appsv1.DaemonSetList{}, "Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{},
		"ConfigMap": &corev1.ConfigMapList{}, "Secret": &corev1.SecretList{},
		"ControllerRevision": &appsv1.ControllerRevisionList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
	} {
		err := sim.Client().List(ctx, list, client.InNamespace(v1alpha1.WorkloadNamespace),
			client.HasLabels{v1alpha1.LabelCluster})
		if err != nil {
			return err
		}
		items, _ := Plain(list)["items"].([]any)
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
			if MadeWithCertificates(o) {
				annotations, _ := meta["annotations"].(map[string]any)
				delete(annotations, resources.AnnotationSpecHash)
			}
			state[kind+" "+Text(name)] = masked(o)
		}
	}
	return nil
}

// lookAtNodes lists what the operator keeps at Nodes, and what is on their disks.
func lookAtNodes(ctx context.Context, sim *simcluster.Cluster, _ *v1alpha1.StorageCluster, state fields) error {
	var list corev1.NodeList
	if err := sim.Client().List(ctx, &list); err != nil {
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
		if m := sim.World().Machine(n.Name); m != nil {
			state["machine "+n.Name] = map[string]any{"disks": m.Disks(), "groups": m.LVM().Groups(), "zpools": m.ZFS().Pools()}
		}
	}
	return nil
}

// lookAtLinstor lists all that LINSTOR answers, or what is in its database if no controller runs.
func lookAtLinstor(ctx context.Context, sim *simcluster.Cluster, c *v1alpha1.StorageCluster, state fields) error {
	if h := c.Status.Hold; c.Name == "" || h != nil && h.Reason == v1alpha1.HoldRestoreRequested { // it is stopped
		state["registered"] = sim.World().Database("k8s").Nodes()
		return nil
	}
	for _, p := range []string{"/v1/nodes", "/v1/view/storage-pools", "/v1/storage-pool-definitions",
		"/v1/controller/properties", "/v1/view/resources", "/v1/node-connections"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, sim.LinstorURL()+p, nil)
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
			if state["one epoch"], err = oneEpoch(ctx, sim, properties[linstor.PropEpoch]); err != nil {
				return err
			}
		}
		state["LINSTOR "+p] = mask(answer)
	}
	return nil
}

// oneEpoch reports whether the claim has LINSTOR's number.
func oneEpoch(ctx context.Context, sim *simcluster.Cluster, number any) (bool, error) {
	claim := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ClaimName}
	if err := sim.Client().Get(ctx, key, claim); err != nil {
		return false, err
	}
	return fmt.Sprint(epoch.Parse(claim.Data["epoch"]).Number) == number, nil
}
