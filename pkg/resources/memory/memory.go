// Package memory fits the Java heap of LINSTOR's programs and the memory limit of their containers to each other.
//
// LINSTOR's start scripts pass -Xmx8G to the controller and -Xmx2G to a satellite (linstor-server since 1.31,
// build.gradle), whatever the container's limit is: with a smaller one the kernel kills the program while Java still
// takes the memory for free. -XX:MaxRAMPercentage would not help, since Java ignores it where -Xmx is given. The last
// -Xmx wins, and JAVA_OPTS come after the script's own options.
package memory

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Program is one of LINSTOR's Java programs.
type Program struct {
	name, field string
	// request is what its container requests, and limit its memory limit, where the spec says nothing of them.
	request corev1.ResourceList
	limit   resource.Quantity
	// least is the smallest memory limit that the program is known to work with.
	least resource.Quantity
}

var (
	// Controller is LINSTOR's controller, which keeps the whole database in memory: 700 MiB in clusters of some hundred
	// volumes. Its default limit leaves it the heap that LINSTOR gives it.
	Controller = Program{name: "the LINSTOR controller", field: "spec.controller.resources.limits.memory",
		request: amounts("100m", "512Mi"), limit: resource.MustParse("11Gi"), least: resource.MustParse("1Gi")}
	// Satellite is LINSTOR's satellite. 200 MiB suffice for it with few volumes; the programs that it runs, such as
	// cryptsetup, count as well.
	//
	// A pod without any request is the first that the kernel kills, whatever its priority: LINSTOR could not change
	// volumes on the node until it is back.
	Satellite = Program{name: "a satellite", field: "spec.nodes.satellite.resources.limits.memory",
		request: amounts("50m", "256Mi"), limit: resource.MustParse("3Gi"), least: resource.MustParse("512Mi")}
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory)}
}

// Requirements are those of the spec, and the program's defaults for what it does not mention. A limit is a request as
// well in Kubernetes' eyes, and a request above the limit would make the pod invalid.
func (p Program) Requirements(of *v1alpha1.Resources) corev1.ResourceRequirements {
	given := of.DeepCopy()
	out := corev1.ResourceRequirements{Requests: corev1.ResourceList(given.Requests),
		Limits: corev1.ResourceList(given.Limits)}
	for name, request := range p.request {
		_, requested := out.Requests[name]
		_, limited := out.Limits[name]
		if !requested && !limited {
			if out.Requests == nil {
				out.Requests = corev1.ResourceList{}
			}
			out.Requests[name] = request.DeepCopy()
		}
	}
	if _, limited := out.Limits[corev1.ResourceMemory]; !limited {
		if out.Limits == nil {
			out.Limits = corev1.ResourceList{}
		}
		limit := p.limit.DeepCopy()
		if request := out.Requests[corev1.ResourceMemory]; request.Cmp(limit) > 0 {
			limit = request.DeepCopy()
		}
		out.Limits[corev1.ResourceMemory] = limit
	}
	return out
}

// JavaOptions are the options for a heap that leaves a quarter of the container's memory limit, 384 MiB or more, for
// Java itself and for the programs that LINSTOR runs: cryptsetup takes 256 MiB for a key (linstor-server,
// CryptSetupCommands). Of a small limit it is half. A limit of 0 is none in Kubernetes' eyes, and needs no options.
func JavaOptions(r corev1.ResourceRequirements) string {
	limit := r.Limits[corev1.ResourceMemory]
	if limit.IsZero() {
		return ""
	}
	const mebibyte = 1 << 20
	all := limit.Value() / mebibyte
	heap := max(all-max(all/4, min(384, all/2)), smallestHeap)
	// Java does not start with an initial heap, which LINSTOR's scripts set, above the largest one.
	return fmt.Sprintf("-Xms%dm -Xmx%dm", smallestHeap, heap)
}

// smallestHeap is the initial heap of LINSTOR's satellites, in MiB. Java does not start with much less.
const smallestHeap = 32

// Problem explains a memory limit of the spec that is too small for the program; "" if it is large enough.
func (p Program) Problem(of *v1alpha1.Resources) string {
	limit, ok := of.Limits[corev1.ResourceMemory]
	if !ok || limit.IsZero() || limit.Cmp(p.least) >= 0 {
		return ""
	}
	return fmt.Sprintf("%s is %s: %s may run out of memory with less than %s; raise the limit, or remove it to use the "+
		"default of %s",
		p.field, limit.String(), p.name, p.least.String(), p.limit.String())
}
