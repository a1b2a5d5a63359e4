package report

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/redact"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/show"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// namespaces are those whose objects are ours.
var namespaces = []string{v1alpha1.OperatorNamespace, v1alpha1.WorkloadNamespace}

// configMaps are those that the documentation names. Of others only the names are reported: nobody knows what is in
// them.
var configMaps = []string{"linstor-claim", "linstor-controller-config", "linstor-satellite-config",
	"linstor-move-target", "storagecluster-catalogue"}

// collector puts what it can read into the bundle. What cannot be read is noted there, and the rest goes on: a report
// is made where something does not work.
type collector struct {
	*access.Env
	cluster *access.Cluster
	bundle  *bundle
	pods    []corev1.Pod
	// silent are nodes whose kubelets gave no log, and how many logs of theirs were not asked for since.
	silent map[string]int
}

// collect reads everything but logs.
func (c *collector) collect(ctx context.Context) error {
	for _, step := range []func(context.Context) error{c.storageCluster, c.definition, c.nodes, c.events, c.workloads,
		c.config, c.versions} {
		if err := step(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// unreadable notes an error of the API server.
func (c *collector) unreadable(file string, err error, resource, namespace string) {
	verb := "list"
	if strings.HasSuffix(resource, "/log") || namespace == "" && resource != "nodes" {
		verb = "get"
	}
	where := ""
	if namespace != "" {
		where = "in " + namespace
	}
	line, _, _ := strings.Cut(c.cluster.Explain(err, verb, resource, where).Error(), "\n")
	c.bundle.leaveOut("%s: %s", file, line)
}

// storageCluster is the object, and how it looks to a person.
func (c *collector) storageCluster(ctx context.Context) error {
	in, err := show.Read(ctx, c.cluster, true)
	if err != nil {
		c.bundle.leaveOut("storagecluster.yaml, status.txt: %v", err)
		return nil
	}
	in.Now, in.All = c.Now(), true
	view := statusview.Build(*in)
	if err := c.bundle.add("status.txt", strings.Join(view.Lines(tree.Style{Width: 120}), "\n")+"\n"); err != nil {
		return err
	}
	return c.objects("storagecluster.yaml", in.Cluster)
}

// objects writes objects.
func (c *collector) objects(file string, objects ...client.Object) error {
	maps := make([]map[string]any, 0, len(objects))
	for _, o := range objects {
		kinds, _, err := access.Scheme().ObjectKinds(o) // an item of a list does not say what it is
		if err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		maps = append(maps, m)
	}
	return c.bundle.addObjects(file, maps)
}

// definition is the CustomResourceDefinition without its schema, which is that of its release.
func (c *collector) definition(ctx context.Context) error {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(access.CRD)
	if err := c.cluster.Get(ctx, client.ObjectKey{Name: access.DefinitionName}, crd); err != nil {
		c.unreadable("crd.yaml", err, "customresourcedefinitions.apiextensions.k8s.io", "")
		return nil
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok {
			delete(m, "schema")
		}
	}
	_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
	return c.bundle.addObjects("crd.yaml", []map[string]any{crd.Object})
}

// nodes are the Nodes without what changes with every image that is pulled.
func (c *collector) nodes(ctx context.Context) error {
	var list corev1.NodeList
	if err := c.cluster.List(ctx, &list); err != nil {
		c.unreadable("nodes.yaml", err, "nodes", "")
		return nil
	}
	out := make([]client.Object, 0, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		for key := range n.Annotations {
			if !strings.HasPrefix(key, v1alpha1.Prefix) {
				delete(n.Annotations, key)
			}
		}
		n.Status.Images, n.Status.VolumesAttached, n.Status.VolumesInUse, n.Status.Config = nil, nil, nil, nil
		n.Status.RuntimeHandlers, n.Status.Allocatable = nil, nil
		out = append(out, n)
	}
	return c.objects("nodes.yaml", out...)
}

// events are those of the StorageCluster, and those of our two namespaces.
func (c *collector) events(ctx context.Context) error {
	about := client.MatchingFieldsSelector{Selector: fields.SelectorFromSet(fields.Set{
		"involvedObject.kind": "StorageCluster"})}
	for _, from := range []struct {
		namespace string
		options   []client.ListOption
	}{{"default", []client.ListOption{about}}, {namespaces[0], nil}, {namespaces[1], nil}} {
		file := "events-" + from.namespace + ".txt"
		var list corev1.EventList
		if err := c.cluster.List(ctx, &list, append(from.options, client.InNamespace(from.namespace))...); err != nil {
			c.unreadable(file, err, "events", from.namespace)
			continue
		}
		if err := c.bundle.add(file, eventLines(list.Items)); err != nil {
			return err
		}
	}
	return nil
}

// eventLines are Events, one a line, the oldest first.
func eventLines(events []corev1.Event) string {
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return statusview.EventTime(&a).Compare(statusview.EventTime(&b))
	})
	var out strings.Builder
	for i := range events {
		ev := &events[i]
		fmt.Fprintf(&out, "%s %-7s %s %s/%s: %s (%d)\n", statusview.EventTime(ev).UTC().Format("2006-01-02T15:04:05Z"),
			ev.Type, ev.Reason, ev.InvolvedObject.Kind, ev.InvolvedObject.Name, strings.Join(strings.Fields(ev.Message), " "),
			max(ev.Count, 1))
	}
	return out.String()
}

// workloads are what runs in our namespaces, and the operator's Leases.
func (c *collector) workloads(ctx context.Context) error {
	for _, ns := range namespaces {
		for _, kind := range []struct {
			resource string
			list     client.ObjectList
		}{{"deployments", &appsv1.DeploymentList{}}, {"daemonsets", &appsv1.DaemonSetList{}},
			{"controllerrevisions", &appsv1.ControllerRevisionList{}}, {"leases", &coordinationv1.LeaseList{}},
			{"pods", &corev1.PodList{}}} {
			if err := c.list(ctx, ns, kind.resource, kind.list); err != nil {
				return err
			}
		}
	}
	return nil
}

// list writes all objects of a kind in a namespace.
func (c *collector) list(ctx context.Context, ns, resource string, list client.ObjectList) error {
	file := ns + "/" + resource + ".yaml"
	if err := c.cluster.List(ctx, list, client.InNamespace(ns)); err != nil {
		c.unreadable(file, err, resource, ns)
		return nil
	}
	if pods, ok := list.(*corev1.PodList); ok {
		c.pods = append(c.pods, pods.Items...)
	}
	var out []client.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		// DaemonSets keep their history in ControllerRevisions too, each as large as the DaemonSet.
		if o, ok := item.(client.Object); ok && (resource != "controllerrevisions" ||
			o.GetLabels()[v1alpha1.LabelComponent] == v1alpha1.ComponentRevision) {
			out = append(out, o)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return c.objects(file, out...)
}

// config are the ConfigMaps that the documentation names, and the names of the others.
func (c *collector) config(ctx context.Context) error {
	for _, ns := range namespaces {
		file := ns + "/configmaps.yaml"
		var list corev1.ConfigMapList
		if err := c.cluster.List(ctx, &list, client.InNamespace(ns)); err != nil {
			c.unreadable(file, err, "configmaps", ns)
			continue
		}
		out := make([]client.Object, 0, len(list.Items))
		for i := range list.Items {
			cm := &list.Items[i]
			if !slices.Contains(configMaps, cm.Name) {
				for key := range cm.Data {
					cm.Data[key] = redact.Mark
				}
			}
			out = append(out, cm)
		}
		if err := c.objects(file, out...); err != nil {
			return err
		}
	}
	return nil
}

// versions are of all that takes part.
func (c *collector) versions(ctx context.Context) error {
	lines, _ := c.cluster.Versions(ctx, c.Version) // a line says so where one could not be read
	return c.bundle.add("versions.txt", strings.Join(lines, "\n")+"\n")
}
