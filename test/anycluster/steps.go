package anycluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
)

// steps are in this order, from what affects the test's own pods to what affects all.
var steps = []step{
	{name: "write", do: func(ctx context.Context, r *run) error { return r.startWriting(ctx) }},
	{name: "pod moved", do: func(ctx context.Context, r *run) error { return r.deletePod(ctx, r.writer.pod) }},
	{name: "snapshot restored", skip: withoutSnapshots, do: restoreSnapshot},
	{name: "satellite restarted", skip: needsPermission, do: restartSatellite},
	{name: "node drained", skip: needsPermission, do: drainNode},
	{name: "network cut", skip: needs("--cut and --join", func(r *run) bool { return r.Cut != nil && r.Join != nil }),
		do: func(ctx context.Context, r *run) error { return r.loseNode(ctx, r.Cut, r.Join, false) }},
	{name: "node killed", skip: needs("--power-off and --power-on", func(r *run) bool {
		return r.PowerOff != nil && r.PowerOn != nil
	}), do: func(ctx context.Context, r *run) error { return r.loseNode(ctx, r.PowerOff, r.PowerOn, true) }},
	{name: "node evacuated", skip: needs("--evacuate", func(r *run) bool { return r.Evacuate != "" }), do: evacuateNode},
	{name: "LINSTOR upgraded", skip: needs("--upgrade-to", func(r *run) bool { return r.UpgradeTo != "" }), do: upgrade},
}

func needsPermission(_ context.Context, r *run) string {
	if !r.IKnow {
		return "it affects other users of the cluster: needs --i-know"
	}
	return ""
}

func needs(flags string, have func(*run) bool) func(context.Context, *run) string {
	return func(ctx context.Context, r *run) string {
		if why := needsPermission(ctx, r); why != "" {
			return why
		}
		if !have(r) {
			return "needs " + flags
		}
		return ""
	}
}

// withoutSnapshots reports that the cluster has no VolumeSnapshotClass of the operator's, or not even the API.
func withoutSnapshots(ctx context.Context, r *run) string {
	classes := &unstructured.UnstructuredList{}
	classes.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1",
		Kind: "VolumeSnapshotClassList"})
	if err := r.Client.List(ctx, classes); err != nil || len(classes.Items) == 0 {
		return "the cluster has no VolumeSnapshotClass"
	}
	return ""
}

// restoreSnapshot takes a snapshot while records are written, and checks that a volume that is restored from it has at
// least those that were safe before.
func restoreSnapshot(ctx context.Context, r *run) error {
	snapshot := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": r.namespace, "name": "before"},
		"spec":     map[string]any{"source": map[string]any{"persistentVolumeClaimName": r.writer.claim}}}}
	snapshot.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1",
		Kind: "VolumeSnapshot"})
	safe := r.safe()
	if err := r.Client.Create(ctx, snapshot); err != nil {
		return err
	}
	if err := r.until(ctx, "the snapshot can be used", func(ctx context.Context) error {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(snapshot), snapshot); err != nil {
			return err
		}
		if ready, _, _ := unstructured.NestedBool(snapshot.Object, "status", "readyToUse"); !ready {
			status, _, _ := unstructured.NestedMap(snapshot.Object, "status")
			return fmt.Errorf("its status is %v", status)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := r.createVolume(ctx, "restored", "before"); err != nil {
		return err
	}
	pod, _, err := r.startPod(ctx, "restored", "")
	if err != nil {
		return err
	}
	if err := r.check(ctx, pod, safe); err != nil {
		return fmt.Errorf("the restored volume: %w", err)
	}
	if err := r.deletePod(ctx, pod); err != nil {
		return err
	}
	return errors.Join(r.Client.Delete(ctx, snapshot), r.Client.Delete(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "restored"}}))
}

// restartSatellite deletes the satellite's pod on the writer's node. Replication must not notice.
func restartSatellite(ctx context.Context, r *run) error {
	before, err := r.satellite(ctx, r.writer.node)
	if err != nil {
		return err
	}
	if err := r.Client.Delete(ctx, before); err != nil {
		return err
	}
	return r.until(ctx, "there is another satellite on "+r.writer.node, func(ctx context.Context) error {
		now, err := r.satellite(ctx, r.writer.node)
		switch {
		case err != nil:
			return err
		case now.UID == before.UID:
			return errors.New("it is the same")
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not Ready")
	})
}

// satellite is the pod of a node's satellite.
func (r *run) satellite(ctx context.Context, node string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentSatellite}); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	if i < 0 {
		return nil, fmt.Errorf("no satellite on %s", node)
	}
	return &pods.Items[i], nil
}

// undo runs what ends a fault, in any case: also when the test is interrupted.
func undo(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
	defer cancel()
	var errs []error
	for _, s := range steps {
		errs = append(errs, s(ctx))
	}
	return errors.Join(errs...)
}

// kubectl is a call of kubectl that prints nothing of interest.
func (r *run) kubectl(args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.Kubectl(ctx, nil, nil, args...)
		return err
	}
}

// drainNode drains the writer's node.
func drainNode(ctx context.Context, r *run) error {
	node := r.writer.node
	return errors.Join(r.drain(ctx, node), undo(ctx, r.kubectl("uncordon", node)))
}

// drain drains a node. The test's own pod, which no controller would create again, is moved first: kubectl drain
// deletes such pods only with a flag that would also delete those of others.
func (r *run) drain(ctx context.Context, node string) error {
	if err := r.kubectl("cordon", node)(ctx); err != nil {
		return err
	}
	if r.writer.node == node {
		if err := r.takeOver(ctx, node); err != nil {
			return err
		}
	}
	return r.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
		"--timeout="+r.Patience.String())(ctx)
}

// outOfService is the taint for a node that is known to be off: its pods and volumes move at once. On a running node,
// it would let two nodes use a volume.
const outOfService = "node.kubernetes.io/out-of-service"

// loseNode lets the writer's node fail, uses the volume on another one, and brings the node back. off reports whether
// the node is off then.
func (r *run) loseNode(ctx context.Context, fail, repair func(context.Context, string) error, off bool) error {
	if err := r.leaveControlPlane(ctx); err != nil {
		return err
	}
	node := r.writer.node
	ends := []func(context.Context) error{func(ctx context.Context) error { return repair(ctx, node) }}
	err := fail(ctx, node)
	if err == nil {
		err = r.until(ctx, node+" is not Ready", func(ctx context.Context) error { return r.notReady(ctx, node) })
	}
	if err == nil && off {
		err = r.kubectl("taint", "nodes", node, outOfService+"=nodeshutdown:NoExecute")(ctx)
		ends = append(ends, r.kubectl("taint", "nodes", node, outOfService+"-"))
	}
	if err == nil {
		err = r.takeOver(ctx, node)
	}
	return errors.Join(err, undo(ctx, ends...))
}

// leaveControlPlane moves the writer until it is on a node without an API server, which the test needs.
func (r *run) leaveControlPlane(ctx context.Context) error {
	for range 3 {
		var n corev1.Node
		if err := r.Client.Get(ctx, client.ObjectKey{Name: r.writer.node}, &n); err != nil {
			return err
		}
		if _, control := n.Labels["node-role.kubernetes.io/control-plane"]; !control {
			return nil
		}
		if err := r.readBack(ctx); err != nil {
			return err
		}
	}
	return errors.New("the writer runs on nodes of the control plane alone, which the test needs")
}

// takeOver uses the volume on another node than one that the pod cannot use any more.
func (r *run) takeOver(ctx context.Context, failed string) error {
	r.stopWriting(ctx)
	if err := r.kubectl("-n", r.namespace, "delete", "pod", r.writer.pod, "--force", "--grace-period=0",
		"--ignore-not-found")(ctx); err != nil {
		return err
	}
	var err error
	if r.writer.pod, r.writer.node, err = r.startPod(ctx, r.writer.claim, failed); err != nil {
		return err
	}
	return r.check(ctx, r.writer.pod, r.safe())
}

func (r *run) notReady(ctx context.Context, node string) error {
	var n corev1.Node
	if err := r.Client.Get(ctx, client.ObjectKey{Name: node}, &n); err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return errors.New("it is Ready")
		}
	}
	return nil
}

// evacuateNode lets the operator take a node out of the cluster, and takes it in again.
func evacuateNode(ctx context.Context, r *run) error {
	sc, err := r.get(ctx)
	if err != nil {
		return err
	}
	before := sc.Spec.Nodes.DeepCopy()
	if err = r.drain(ctx, r.Evacuate); err == nil { // LINSTOR leaves what is in use where it is
		err = r.leave(ctx, r.Evacuate)
	}
	return errors.Join(err, undo(ctx, r.kubectl("uncordon", r.Evacuate), func(ctx context.Context) error {
		return r.patchNodes(ctx, before.RemovalPolicy, before.NodeAffinity)
	}))
}

// leave waits until a node has left the StorageCluster, which no longer selects it.
func (r *run) leave(ctx context.Context, node string) error {
	var n corev1.Node
	if err := r.Client.Get(ctx, client.ObjectKey{Name: node}, &n); err != nil {
		return err
	}
	sc, err := r.get(ctx)
	if err != nil {
		return err
	}
	affinity := sc.Spec.Nodes.NodeAffinity.DeepCopy()
	if affinity == nil {
		affinity = &nodespec.NodeAffinity{NodeSelectorTerms: make([]nodespec.NodeSelectorTerm, 1)}
	}
	for i := range affinity.NodeSelectorTerms {
		t := &affinity.NodeSelectorTerms[i]
		t.MatchExpressions = append(t.MatchExpressions, nodespec.NodeSelectorRequirement{Key: corev1.LabelHostname,
			Operator: corev1.NodeSelectorOpNotIn, Values: []string{n.Labels[corev1.LabelHostname]}})
	}
	if err := r.patchNodes(ctx, v1alpha1.NodesEvacuate, affinity); err != nil {
		return err
	}
	return r.until(ctx, node+" has left", func(ctx context.Context) error {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(&n), &n); err != nil {
			return err
		}
		if _, member := n.Labels[v1alpha1.LabelMember]; !member {
			return nil
		}
		sc, err := r.get(ctx)
		if err != nil {
			return err
		}
		return fmt.Errorf("it is a member: %+v", sc.Status.Nodes.Leaving)
	})
}

func (r *run) patchNodes(ctx context.Context, p v1alpha1.NodeRemovalPolicy, affinity *nodespec.NodeAffinity) error {
	spec, err := json.Marshal(map[string]any{"spec": map[string]any{"nodes": map[string]any{"removalPolicy": p,
		"nodeAffinity": affinity}}})
	if err != nil {
		return err
	}
	return r.patch(ctx, spec)
}

func (r *run) patch(ctx context.Context, merge []byte) error {
	sc, err := r.get(ctx)
	if err != nil {
		return err
	}
	return r.Client.Patch(ctx, sc, client.RawPatch(types.MergePatchType, merge))
}

// upgrade upgrades LINSTOR.
func upgrade(ctx context.Context, r *run) error {
	if err := r.patch(ctx, fmt.Appendf(nil, `{"spec":{"version":%q}}`, r.UpgradeTo)); err != nil {
		return err
	}
	return r.until(ctx, "LINSTOR is upgraded to "+r.UpgradeTo, func(ctx context.Context) error {
		sc, err := r.get(ctx)
		if err == nil && sc.Status.Version != r.UpgradeTo {
			err = fmt.Errorf("it is %s: %s: %s", sc.Status.Version, sc.Status.Phase, sc.Status.Message)
		}
		return err
	})
}
