package kubelet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestImageVersion(t *testing.T) {
	for image, want := range map[string]string{
		"quay.io/piraeusdatastore/piraeus-server:v1.35.3":     "1.35.3",
		"registry.example.com:5000/linstor-controller:1.34.0": "1.34.0",
		"registry.example.com:5000/linstor-controller":        "",
		"piraeus-server:v1.35.3-2":                            "1.35.3",
		"piraeus-server:v1.35.3@sha256:0123":                  "1.35.3",
		"piraeus-server@sha256:0123":                          "",
	} {
		if got := ImageVersion(image); got != want {
			t.Errorf("ImageVersion(%q) = %q, want %q", image, got, want)
		}
	}
}

func TestImageIDNamesTheRepository(t *testing.T) {
	id := imageID("registry.example.com:5000/a/b:v1")
	if !strings.HasPrefix(id, "registry.example.com:5000/a/b@sha256:") ||
		id == imageID("registry.example.com:5000/a/b:v2") {
		t.Errorf("imageID = %q", id)
	}
}

func TestLogTailKeepsTheEnd(t *testing.T) {
	long := strings.Repeat("x", 3000) + "end"
	if got := logTail(long); len(got) != messageBytes || !strings.HasSuffix(got, "end\n") {
		t.Errorf("tail of a long line has %d bytes", len(got))
	}
	lines := strings.Repeat("line\n", 100) + "end"
	if got := logTail(lines); strings.Count(got, "\n") != messageLines || !strings.HasSuffix(got, "end\n") {
		t.Errorf("tail of many lines has %d line ends", strings.Count(got, "\n"))
	}
}

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	o := Options{BackoffMin: 250 * time.Millisecond, BackoffMax: time.Second}
	var got []time.Duration
	for failures := 1; failures <= 6; failures++ {
		got = append(got, o.backoff(failures))
	}
	want := []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Second, time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("back-off (-want +got):\n%s", diff)
	}
}

func TestContainerEnd(t *testing.T) {
	o := Options{BackoffMin: 250 * time.Millisecond, BackoffMax: time.Second}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &container{spec: &corev1.Container{Name: "c",
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError}}

	c.startedAt = start
	if wait := c.end(exit{code: 2, message: "why"}, start, o); wait != 0 || c.last.ExitCode != 2 ||
		c.last.Message != "why\n" {
		t.Errorf("first failure: wait %s, last %+v", wait, c.last)
	}
	if wait := c.end(exit{code: 2, message: "why"}, start, o); wait != o.BackoffMin ||
		!c.retryAt.Equal(start.Add(o.BackoffMin)) {
		t.Errorf("second failure: wait %s, retry at %s", wait, c.retryAt)
	}
	if wait := c.end(exit{code: 2, message: "why"}, start.Add(time.Minute), o); wait != 0 {
		t.Errorf("failure after a long run: wait %s, want the count to start anew", wait)
	}

	quiet := &container{spec: &corev1.Container{Name: "c"}, startedAt: start}
	if quiet.end(exit{code: 2, message: "why"}, start, o); quiet.last.Message != "" {
		t.Errorf("message %q without FallbackToLogsOnError", quiet.last.Message)
	}
	initial := &container{spec: &corev1.Container{Name: "c"}, init: true, startedAt: start}
	if initial.end(exit{}, start, o); initial.finished == nil || !initial.passed() || initial.last != nil {
		t.Errorf("init container that succeeded: %+v", initial)
	}
}

func TestTCPProbe(t *testing.T) {
	probe := func(port intstr.IntOrString) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}}
	}
	ports := []corev1.ContainerPort{{Name: "linstor", ContainerPort: 3366}, {Name: "metrics", ContainerPort: 9942}}
	for name, tc := range map[string]struct {
		probe *corev1.Probe
		want  bool
	}{
		"none":           {nil, true},
		"number":         {probe(intstr.FromInt32(3366)), true},
		"name":           {probe(intstr.FromString("linstor")), true},
		"another number": {probe(intstr.FromInt32(3367)), false},
		"another name":   {probe(intstr.FromString("metrics")), false},
		"unknown name":   {probe(intstr.FromString("typo")), false},
	} {
		if got := tcpProbeHits(&corev1.Container{Ports: ports, ReadinessProbe: tc.probe}, 3366); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestLivenessProbe(t *testing.T) {
	live := &corev1.Container{LivenessProbe: &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 3}}
	guarded := live.DeepCopy()
	guarded.StartupProbe = &corev1.Probe{}
	for name, tc := range map[string]struct {
		c        *corev1.Container
		failures int32
		period   time.Duration
		want     bool
	}{
		"no probe":                 {&corev1.Container{}, 1000, 10 * time.Second, false},
		"below the threshold":      {live, 2, 10 * time.Second, false},
		"threshold":                {live, 3, 10 * time.Second, true},
		"never healthy, fast":      {live, 299, startProbe, false},
		"never healthy, too long":  {live, 300, startProbe, true},
		"startup probe guards":     {guarded, 1000, startProbe, false},
		"startup probe has passed": {guarded, 3, 10 * time.Second, true},
	} {
		if got := dead(tc.c, tc.failures, tc.period); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestUsesKubernetesDatabase(t *testing.T) {
	for toml, want := range map[string]bool{
		"[db]\nconnection_url = \"k8s\"\n":                 true,
		"[db]\n  connection_url='k8s'":                     true,
		"[db]\nconnection_url = \"etcd://etcd:2379\"":      false,
		"# connection_url = \"k8s\"":                       false,
		"[db]\nconnection_url = \"jdbc:postgresql://k8s\"": false,
		"": false,
	} {
		if got := usesKubernetesDatabase(toml); got != want {
			t.Errorf("usesKubernetesDatabase(%q) = %v", toml, got)
		}
	}
}

func TestStatusConditionsKeepOthers(t *testing.T) {
	then := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: then},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: then},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: then},
	}}}
	got := conditions(pod, &pod.Status, &pod.Status, map[corev1.PodConditionType]bool{
		corev1.PodReadyToStartContainers: true, corev1.PodInitialized: true, corev1.ContainersReady: true,
		corev1.PodReady: false,
	})
	byType := map[corev1.PodConditionType]corev1.PodCondition{}
	for _, c := range got {
		byType[c.Type] = c
	}
	if len(got) != 5 || !byType[corev1.PodScheduled].LastTransitionTime.Time.Equal(then.Time) {
		t.Errorf("conditions %+v", got)
	}
	if c := byType[corev1.ContainersReady]; !c.LastTransitionTime.Equal(&then) {
		t.Errorf("an unchanged condition got a new transition time: %+v", c)
	}
	if c := byType[corev1.PodReady]; c.Status != corev1.ConditionFalse || c.LastTransitionTime.Equal(&then) ||
		c.Reason == "" {
		t.Errorf("a changed condition: %+v", c)
	}
}

func TestPodReadyNeedsAllContainers(t *testing.T) {
	run := &podRun{
		init: []*container{{spec: &corev1.Container{Name: "i"}, init: true, starts: 1,
			finished: &corev1.ContainerStateTerminated{}}},
		main: []*container{
			{spec: &corev1.Container{Name: "a"}, starts: 1, task: idleTask{}, ready: true},
			{spec: &corev1.Container{Name: "b"}, starts: 3, failures: 2},
		},
	}
	s := run.status(&corev1.Pod{})
	if s.Phase != corev1.PodRunning || s.ContainerStatuses[1].RestartCount != 2 ||
		s.ContainerStatuses[1].State.Waiting.Reason != "CrashLoopBackOff" {
		t.Errorf("status %+v", s)
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionFalse {
			t.Errorf("pod with a crashing container is ready")
		}
	}
}
