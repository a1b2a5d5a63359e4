package chaos

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/test/endstate"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// state is a cluster as far as it must not depend on its history: by object, as JSON or a word. It holds
//   - every object in the workloads' namespace, of whatever kind, without what Kubernetes fills in;
//   - the Nodes' labels, annotations and taints, the StorageCluster's annotations and finalizers, and what its status
//     says;
//   - LINSTOR's nodes, interfaces, pools and properties.
//
// Of certificates it holds which there are, and not what is in them, as each cluster makes its own.
//
// Not in it, because by design they tell of the past: ControllerRevisions other than the accepted one (the last ten
// accepted specs are kept), DaemonSets of satellites without a node (kept up to date for the platform's next one), the
// first URL of the database in the claim (a change of parameters or endpoints keeps it), volume groups and zpools
// (they are never removed), the module that a node has loaded, what LINSTOR keeps of a time with certificates,
// ReplicaSets (Kubernetes' history), and UIDs, salts and times.
type state map[string]string

// unlike are kinds that Kubernetes itself fills, or that are looked at in another way.
var unlike = []string{"events", "endpoints", "endpointslices", "replicasets", "controllerrevisions", "pods", "leases",
	"podmetrics"}

var (
	// hashes find the hashes in a workload, by what they are of.
	hashes = map[string]*regexp.Regexp{
		"configuration": regexp.MustCompile(`"` + regexp.QuoteMeta(resources.AnnotationConfigHash) + `":"([0-9a-f]+)"`),
		"template":      regexp.MustCompile(`"` + regexp.QuoteMeta(resources.AnnotationTemplateHash) + `":"([0-9a-f]+)"`),
	}
	madeAt  = regexp.MustCompile(`"at":"[^"]*"`)
	localID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// kinds are what a namespace can hold.
func kinds(e *harness.Env) []schema.GroupVersionResource {
	e.T.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(e.Sim.AdminConfig())
	if err != nil {
		e.T.Fatal(err)
	}
	lists, err := d.ServerPreferredNamespacedResources()
	if err != nil {
		e.T.Fatal(err)
	}
	var out []schema.GroupVersionResource
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			e.T.Fatal(err)
		}
		for _, r := range l.APIResources {
			if slices.Contains(r.Verbs, "list") && !slices.Contains(unlike, r.Name) {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out
}

// look takes the state; an error means that it is just changing.
func (b *bench) look() (state, error) {
	s, err := b.lookAround()
	if err != nil {
		return nil, err
	}
	return s, b.lookAtCluster(s)
}

// around is a state without the StorageCluster and the accepted spec.
func (s state) around() state {
	out := maps.Clone(s)
	delete(out, "storagecluster")
	delete(out, "accepted spec")
	return out
}

// lookAround takes the state but for the StorageCluster and the accepted spec.
func (b *bench) lookAround() (state, error) {
	s := state{}
	var names []string // what the API server made up, each followed by a name that says what it is of
	for _, gvr := range b.kinds {
		list, err := b.objects.Resource(gvr).Namespace(v1alpha1.WorkloadNamespace).List(b.Ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			o := &list.Items[i]
			if gvr.Resource == "secrets" {
				// Another Secret with the same content is no reason to do anything, so that the version of the first is kept.
				names = append(names, `"`+o.GetResourceVersion()+`"`,
					fmt.Sprintf(`"version of a Secret with %x"`, sha256.Sum256([]byte(encode(o.Object["data"])))))
			}
			if !idleSatellites(o) {
				s[gvr.Resource+"/"+o.GetName()] = encode(maskObject(o))
			}
		}
	}
	if err := b.lookAtPods(s); err != nil {
		return nil, err
	}
	// Pods carry the versions of Secrets, which are numbers of the API server's, and hashes over them. What they are
	// hashes of is compared itself; a pod of an earlier configuration or template shows another hash.
	for what, pattern := range hashes {
		if hash := pattern.FindStringSubmatch(s["deployments/"+resources.ControllerName]); hash != nil {
			names = append(names, hash[1], "(hash of the present "+what+")")
		}
	}
	named := strings.NewReplacer(names...)
	for k, text := range s {
		s[k] = named.Replace(text)
	}
	var nodes corev1.NodeList
	if err := b.Client().List(b.Ctx, &nodes); err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		delete(n.Annotations, "node.alpha.kubernetes.io/ttl")
		s["node/"+n.Name] = encode(map[string]any{"labels": n.Labels, "annotations": n.Annotations, "taints": n.Spec.Taints})
	}
	return s, b.lookAtLinstor(s)
}

// idleSatellites reports whether an object is the satellites' DaemonSet of a platform of which no node is any more.
func idleSatellites(o *unstructured.Unstructured) bool {
	nodes, _, _ := unstructured.NestedInt64(o.Object, "status", "desiredNumberScheduled")
	return o.GetKind() == "DaemonSet" && o.GetLabels()[v1alpha1.LabelComponent] == v1alpha1.ComponentSatellite &&
		nodes == 0
}

// maskObject drops what Kubernetes fills in, and what is random.
func maskObject(o *unstructured.Unstructured) map[string]any {
	c := runtime.DeepCopyJSON(o.Object)
	endstate.MadeWithCertificates(c)
	entriesOfCertificates(c)
	delete(c, "status")
	meta, _ := c["metadata"].(map[string]any)
	for _, k := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		delete(meta, k)
	}
	if refs, ok := meta["ownerReferences"].([]any); ok {
		for _, r := range refs {
			delete(r.(map[string]any), "uid")
		}
	}
	if notes, ok := meta["annotations"].(map[string]any); ok {
		delete(notes, "deployment.kubernetes.io/revision")
		delete(notes, v1alpha1.Prefix+"spec-hash") // of what is compared itself, versions of Secrets included
		delete(notes, "deprecated.daemonset.template.generation")
		if len(notes) == 0 {
			delete(meta, "annotations")
		}
	}
	switch {
	case o.GetKind() == "ConfigMap" && o.GetName() == resources.ClaimName:
		data, _ := c["data"].(map[string]any)
		for k := range data {
			if data[k] != "" && slices.Contains([]string{"backend", "localID", "passphraseCheck", "epoch"}, k) {
				data[k] = "(kept)"
			}
		}
	case o.GetKind() == "ConfigMap" && o.GetName() == "kube-root-ca.crt":
		delete(c, "data")
	case o.GetKind() == "Service":
		if spec, ok := c["spec"].(map[string]any); ok {
			delete(spec, "clusterIP")
			delete(spec, "clusterIPs")
		}
	}
	return c
}

// lookAtPods lists pods by what runs in them: a pod of an old template shows.
func (b *bench) lookAtPods(s state) error {
	var pods corev1.PodList
	if err := b.Client().List(b.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace)); err != nil {
		return err
	}
	for _, p := range pods.Items {
		owner, node := "nobody", ""
		for _, r := range p.OwnerReferences {
			owner = r.Kind
			if r.Kind == "DaemonSet" {
				owner, node = r.Kind+"/"+r.Name, p.Spec.NodeName
			}
		}
		if p.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s is ending", p.Name)
		}
		var images []string
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			images = append(images, c.Image)
		}
		ready := invariants.PodReady(&p)
		made := map[string]any{}
		for k, v := range p.Annotations {
			made[k] = v
		}
		endstate.MadeWithCertificates(made)
		s["pod/"+owner+"/"+p.Labels[v1alpha1.LabelComponent]+"/"+node] += encode(map[string]any{
			"images": images, "annotations": made, "ready": ready, "pull": p.Spec.ImagePullSecrets,
		})
	}
	return nil
}

func (b *bench) lookAtCluster(s state) error {
	c := &v1alpha1.StorageCluster{}
	if err := b.Client().Get(b.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c); err != nil {
		return err
	}
	st := &c.Status
	conditions := map[string]string{}
	for _, cond := range st.Conditions {
		conditions[cond.Type] = string(cond.Status) + "/" + cond.Reason
	}
	pools := map[string]string{}
	for _, p := range st.Pools.ByPool {
		pools[p.Name] = fmt.Sprintf("%s %d/%d", p.Provider, p.Ready, p.Wanted)
	}
	volumes := st.Volumes.DeepCopy()
	if volumes != nil {
		volumes.Updated = nil // the time of a look
	}
	var holds []string
	for _, h := range st.NodeHolds {
		holds = append(holds, fmt.Sprint(h.Reason, h.Pool, h.Nodes))
	}
	s["storagecluster"] = encode(map[string]any{
		"annotations": c.Annotations, "finalizers": c.Finalizers, "phase": st.Phase, "version": st.Version,
		"database": st.Database,
		"hold":     st.Hold != nil, "nodeHolds": holds, "upgrade": st.Upgrade, "conditions": conditions,
		"nodes": st.Nodes, "pools": st.Pools.Summary, "byPool": pools, "volumes": volumes,
	})
	rev := &unstructured.Unstructured{}
	rev.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ControllerRevision"})
	if err := b.Client().Get(b.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: st.Target},
		rev); err != nil {
		return err
	}
	s["accepted spec"] = encode(rev.Object["data"])
	return nil
}

func (b *bench) lookAtLinstor(s state) error {
	v, err := b.Linstor().View(b.Ctx, viewAll)
	if err != nil {
		return err
	}
	own := func(props map[string]string) map[string]string {
		out := maps.Clone(props)
		for k, value := range out {
			out[k] = madeAt.ReplaceAllString(localID.ReplaceAllString(value, "(id)"), `"at":"(time)"`)
		}
		return out
	}
	properties := own(v.Properties)
	for _, kept := range []string{netcomtls.PropDebugListener, "defaultSslConSvc"} {
		delete(properties, kept)
	}
	s["linstor"] = encode(properties)
	for _, n := range v.Nodes {
		s["linstor/"+n.Name] = encode(map[string]any{
			"type": n.Type, "status": n.Status, "flags": n.Flags, "interfaces": n.Interfaces, "properties": own(n.Properties),
		})
		for _, p := range n.Pools {
			s["linstor/"+n.Name+"/"+p.Name] = encode(map[string]any{
				"provider": p.Provider, "backing": p.Backing, "properties": own(p.Properties), "errors": p.Errors,
			})
		}
	}
	return nil
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it came from JSON
	}
	return string(text)
}

// differences says what differs, by object; "" if nothing does.
func differences(want, got state) string {
	var b strings.Builder
	names := slices.Collect(maps.Keys(want))
	for k := range got {
		if _, both := want[k]; !both {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		w, inWant := want[k]
		g, inGot := got[k]
		switch {
		case !inWant:
			fmt.Fprintf(&b, "%s: left over: %.1500s\n", k, g)
		case !inGot:
			fmt.Fprintf(&b, "%s: is gone\n", k)
		case w != g:
			fmt.Fprintf(&b, "%s:\n%s", k, excerpt(w, g))
		}
	}
	return b.String()
}

// excerpt shows where two texts part.
func excerpt(want, got string) string {
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	from := max(0, i-80)
	show := func(s string) string { return s[min(from, len(s)):min(len(s), i+200)] }
	return fmt.Sprintf("  - …%s…\n  + …%s…\n", show(want), show(got))
}

// dynamicClient is the administrator's for objects of any kind.
func dynamicClient(e *harness.Env) dynamic.Interface {
	e.T.Helper()
	d, err := dynamic.NewForConfig(e.Sim.AdminConfig())
	if err != nil {
		e.T.Fatal(err)
	}
	return d
}
