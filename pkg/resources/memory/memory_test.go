package memory_test

import (
	"maps"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/memory"
)

func amounts(pairs ...string) v1alpha1.ResourceAmounts {
	var out v1alpha1.ResourceAmounts
	for i := 0; i < len(pairs); i += 2 {
		if out == nil {
			out = v1alpha1.ResourceAmounts{}
		}
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// TestRequirements: the spec counts as it is; what it does not mention gets a default that fits it.
func TestRequirements(t *testing.T) {
	for name, tc := range map[string]struct {
		program                      memory.Program
		requests, limits             v1alpha1.ResourceAmounts
		wantedRequests, wantedLimits v1alpha1.ResourceAmounts
		java, problem                string
	}{
		"nothing for a satellite": {program: memory.Satellite, wantedRequests: amounts("cpu", "50m", "memory", "256Mi"),
			wantedLimits: amounts("memory", "3Gi"), java: "-Xms32m -Xmx2304m"},
		"nothing for the controller": {program: memory.Controller, wantedRequests: amounts("cpu", "100m", "memory", "512Mi"),
			wantedLimits: amounts("memory", "11Gi"), java: "-Xms32m -Xmx8448m"},
		"requests": {program: memory.Satellite, requests: amounts("cpu", "1", "memory", "1Gi"),
			wantedRequests: amounts("cpu", "1", "memory", "1Gi"), wantedLimits: amounts("memory", "3Gi"),
			java: "-Xms32m -Xmx2304m"},
		"a request above the default limit": {program: memory.Satellite, requests: amounts("memory", "6Gi"),
			wantedRequests: amounts("cpu", "50m", "memory", "6Gi"), wantedLimits: amounts("memory", "6Gi"),
			java: "-Xms32m -Xmx4608m"},
		"a request of nothing": {program: memory.Satellite, requests: amounts("cpu", "0", "memory", "0"),
			wantedRequests: amounts("cpu", "0", "memory", "0"), wantedLimits: amounts("memory", "3Gi"),
			java: "-Xms32m -Xmx2304m"},
		"the limit in the API reference": {program: memory.Satellite, requests: amounts("memory", "512Mi"),
			limits: amounts("memory", "1Gi"), wantedRequests: amounts("cpu", "50m", "memory", "512Mi"),
			wantedLimits: amounts("memory", "1Gi"), java: "-Xms32m -Xmx640m"},
		"the controller's in the API reference": {program: memory.Controller, limits: amounts("memory", "2Gi"),
			wantedRequests: amounts("cpu", "100m"), wantedLimits: amounts("memory", "2Gi"), java: "-Xms32m -Xmx1536m"},
		"a limit is a request, and may be lower than ours": {program: memory.Satellite, limits: amounts("memory", "128Mi"),
			wantedRequests: amounts("cpu", "50m"), wantedLimits: amounts("memory", "128Mi"), java: "-Xms32m -Xmx64m",
			problem: "spec.nodes.satellite.resources.limits.memory is 128Mi: a satellite may run out of memory with less " +
				"than 512Mi"},
		"less than the smallest heap": {program: memory.Satellite, limits: amounts("memory", "32Mi"),
			wantedRequests: amounts("cpu", "50m"), wantedLimits: amounts("memory", "32Mi"), java: "-Xms32m -Xmx32m",
			problem: "is 32Mi: a satellite may run out of memory with less than 512Mi"},
		"too little for the controller": {program: memory.Controller, limits: amounts("memory", "800M"),
			wantedRequests: amounts("cpu", "100m"), wantedLimits: amounts("memory", "800M"), java: "-Xms32m -Xmx381m",
			problem: "spec.controller.resources.limits.memory is 800M: the LINSTOR controller may run out of memory with " +
				"less than 1Gi"},
		"no limit": {program: memory.Satellite, limits: amounts("memory", "0"), wantedRequests: amounts("cpu", "50m"),
			wantedLimits: amounts("memory", "0")},
		"limits for all": {program: memory.Satellite, limits: amounts("cpu", "2", "memory", "2Gi"),
			wantedLimits: amounts("cpu", "2", "memory", "2Gi"), java: "-Xms32m -Xmx1536m"},
	} {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tc.requests)
			spec := &v1alpha1.Resources{Requests: tc.requests, Limits: tc.limits}
			got := tc.program.Requirements(spec)
			if !same(tc.wantedRequests, got.Requests) || !same(tc.wantedLimits, got.Limits) {
				t.Errorf("requests %v, limits %v", got.Requests, got.Limits)
			}
			if !same(before, corev1.ResourceList(tc.requests)) {
				t.Errorf("the spec was changed: %v", tc.requests)
			}
			if java := memory.JavaOptions(got); java != tc.java {
				t.Errorf("Java gets %q", java)
			}
			if why := tc.program.Problem(spec); (why == "") != (tc.problem == "") || !strings.Contains(why, tc.problem) {
				t.Errorf("the problem is %q", why)
			}
		})
	}
}

func same(want v1alpha1.ResourceAmounts, got corev1.ResourceList) bool {
	return maps.EqualFunc(corev1.ResourceList(want), got, func(a, b resource.Quantity) bool { return a.Equal(b) })
}

// TestJava: behind LINSTOR's own options Java takes the heap that fits the limit, and starts with it.
func TestJava(t *testing.T) {
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("there is no Java here")
	}
	options := memory.JavaOptions(memory.Controller.Requirements(&v1alpha1.Resources{Limits: amounts("memory", "200Mi")}))
	args := append([]string{"-Xms256M", "-Xmx8G"}, strings.Fields(options)...)
	args = append(args, "-XX:+PrintFlagsFinal", "-version")
	out, err := exec.CommandContext(t.Context(), java, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "MaxHeapSize" {
			if f[3] != "104857600" {
				t.Errorf("the heap is %s bytes, want 100 MiB", f[3])
			}
			return
		}
	}
	t.Errorf("Java does not say how large its heap is:\n%s", out)
}
