package phases

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// mostProblem bounds a problem's message, in characters: what the operator says itself, and one line of what it heard.
const mostProblem = 800

// FuzzAnswer: a resume annotation answers a hold that stands, with one of its options and for its nodes, or says what is wrong.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		"", " h-1:retry ", "h-2:skip@n1,n2", "h-2:skip@", "h-2:skip@n3", "h-2:skip@n1,,n2", "h-1", ":", "h-1:", "h-1:retry:retry", "h-2:skip@n1@n2", ":retry", "h-1:retry@n1",
	} {
		f.Add(text)
	}
	c := &v1alpha1.StorageCluster{}
	c.Status.Hold = &v1alpha1.Hold{ID: "h-1", Options: []string{v1alpha1.OptionRetry}}
	c.Status.NodeHolds = []v1alpha1.Hold{{ID: "h-2", Options: []string{v1alpha1.OptionRetry, v1alpha1.OptionSkip}, Nodes: []string{"n1", "n2"}, Count: 2}}
	f.Fuzz(func(t *testing.T, text string) {
		c := c.DeepCopy()
		c.Annotations = map[string]string{v1alpha1.AnnotationResume: text}
		a, err := ParseAnswer(c)
		switch {
		case err != nil && (a != nil || !strings.Contains(err.Error(), v1alpha1.AnnotationResume)):
			t.Errorf("%q gives %+v and %v", text, a, err)
		case err != nil:
		case a == nil:
			if strings.TrimSpace(text) != "" {
				t.Errorf("%q is passed over without a word", text)
			}
		case !strings.HasPrefix(strings.TrimSpace(text), a.Hold.ID+":"+a.Option), !slices.Contains(a.Hold.Options, a.Option),
			slices.ContainsFunc(a.Nodes, func(n string) bool { return !slices.Contains(a.Hold.Nodes, n) }), strings.Contains(text, "@") != (len(a.Nodes) > 0):
			t.Errorf("%q answers %+v", text, a)
		}
	})
}

// FuzzContainerMessage: whatever a container leaves as its last words, what is told of it is one line of bounded length, and a
// version is taken from it only if it looks like one.
func FuzzContainerMessage(f *testing.F) {
	f.Add("insmod: ERROR: could not insert module ./drbd.ko: Key was rejected by service\n", int32(1), int32(3))
	f.Add("9.3.3\n", int32(0), int32(0))
	f.Add(strings.Repeat("\xff\x00", 3000), int32(-1), int32(-1))
	f.Fuzz(func(t *testing.T, message string, code, restarts int32) {
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message, ExitCode: code}}
		pod := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
			{Name: resources.WaitForModuleContainer, State: ended, LastTerminationState: ended, RestartCount: restarts},
		}}}
		trouble := troubleOf(pod)
		if (trouble != nil) != (code != 0) {
			t.Fatalf("exit code %d: %v", code, trouble)
		}
		if trouble != nil {
			for _, q := range resources.Profiles() {
				checkProblem(t, loaderProblem(trouble, q))
			}
		}
		if v := (&Member{SatellitePod: pod}).LoadedModule(); v != "" && (code != 0 || len(v) > 60 || !modulePattern.MatchString(v)) {
			t.Errorf("version %q of %q, exit code %d", v, message, code)
		}
	})
}

func checkProblem(t *testing.T, p *Problem) {
	t.Helper()
	if n := utf8.RuneCountInString(p.Message); n == 0 || n > mostProblem || !utf8.ValidString(p.Message) || strings.ContainsAny(p.Message, "\n\r\t") || p.Reason == "" {
		t.Errorf("problem %s: %q", p.Reason, p.Message)
	}
}

// FuzzNodeAnnotations: a Node's annotation gives an address that other nodes can reach, or a problem that names the interface.
func FuzzNodeAnnotations(f *testing.F) {
	for _, text := range []string{"", "10.0.0.1", " fd00::1 ", "fe80::1", "fe80::1%eth0", "127.0.0.1", "::", "224.0.0.1", "10.0.0.1/24", "::ffff:127.0.0.1", "10.0.0.1\n10.0.0.2"} {
		f.Add(text, "true")
	}
	spec := &v1alpha1.InterfaceSpec{Name: "storage", AddressFrom: v1alpha1.AddressSource{NodeAnnotation: "example.com/ip"}}
	f.Fuzz(func(t *testing.T, address, maintenance string) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"example.com/ip": address, v1alpha1.AnnotationMaintenance: maintenance}}}
		if got := inMaintenance(n); got == strings.EqualFold(maintenance, "false") {
			t.Errorf("maintenance %q: %t", maintenance, got)
		}
		i, found := interfaceOf(spec, n)
		switch {
		case !found:
			if strings.TrimSpace(address) != "" {
				t.Errorf("%q is passed over", address)
			}
		case i.trouble != nil:
			checkProblem(t, i.trouble)
			if !strings.Contains(i.trouble.Message, spec.Name) || i.usable() {
				t.Errorf("%q: %+v", address, i)
			}
		case !linstor.SameAddress(i.Address, strings.TrimSpace(address)) || strings.ContainsAny(i.Address, " \n%/"):
			t.Errorf("%q becomes %q", address, i.Address)
		}
	})
}

// FuzzMinReady: whatever spec.nodes.minReady says, between one and all of the nodes must be through.
func FuzzMinReady(f *testing.F) {
	for _, text := range []string{"90%", "100%", "0%", "200%", "-5%", "NaN%", "Inf%", "1e400%", "50", "%", ""} {
		f.Add(text, int32(3), uint8(10))
	}
	f.Add("", int32(-1), uint8(0))
	f.Fuzz(func(t *testing.T, text string, number int32, nodes uint8) {
		for _, v := range []intstr.IntOrString{intstr.FromString(text), intstr.FromInt32(number)} {
			s := &Snapshot{Cluster: &v1alpha1.StorageCluster{}}
			s.Cluster.Spec.Nodes.MinReady = &v
			for range nodes {
				s.Members = append(s.Members, &Member{Selected: true})
			}
			if got := s.MinReady(); got < 1 || got > max(1, int(nodes)) {
				t.Errorf("minReady %s of %d nodes is %d", v.String(), nodes, got)
			}
		}
	})
}

// FuzzUsedPercent: what LINSTOR says of a pool's space gives a percentage.
func FuzzUsedPercent(f *testing.F) {
	f.Add(int64(0), int64(1))
	f.Add(int64(-1), int64(100))
	f.Add(int64(9), int64(3))
	f.Add(int64(1), int64(1<<62))
	f.Fuzz(func(t *testing.T, free, total int64) {
		if total <= 0 {
			return // such a pool's capacity is not known
		}
		if got := usedPercent(free, total); got < 0 || got > 100 || free <= 0 && got != 100 || free >= total && got != 0 {
			t.Errorf("%d free of %d: %d %%", free, total, got)
		}
	})
}
