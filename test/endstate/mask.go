package endstate

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

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
	return masked(Plain(c))
}

// Plain turns an object into maps and lists.
func Plain(o any) map[string]any {
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

// Text leaves out of a text what is made up, and times.
func Text(s string) string { return madeUp.ReplaceAllString(s, "…") }

func masked(m map[string]any) map[string]any { return mask(m).(map[string]any) }

func mask(v any) any {
	switch v := v.(type) {
	case string:
		return Text(v)
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
