package phases_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// FuzzAnswer: a resume annotation answers an open hold, with one of its options and for its nodes, or says what is
// wrong.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		"", " h-1:retry ", "h-2:skip@n1,n2", "h-2:skip@", "h-2:skip@n3", "h-2:skip@n1,,n2", "h-1", ":", "h-1:",
		"h-1:retry:retry", "h-2:skip@n1@n2", ":retry", "h-1:retry@n1",
	} {
		f.Add(text)
	}
	c := &v1alpha1.StorageCluster{}
	c.Status.Hold = &v1alpha1.Hold{ID: "h-1", Options: []v1alpha1.HoldOption{{Answer: v1alpha1.OptionRetry}}}
	c.Status.NodeHolds = []v1alpha1.Hold{{ID: "h-2",
		Options: []v1alpha1.HoldOption{{Answer: v1alpha1.OptionRetry}, {Answer: v1alpha1.OptionSkip}},
		Nodes:   []string{"n1", "n2"}, Count: 2}}
	f.Fuzz(func(t *testing.T, text string) {
		c := c.DeepCopy()
		c.Annotations = map[string]string{v1alpha1.AnnotationResume: text}
		a, err := hold.ParseAnswer(c)
		switch {
		case err != nil && (a != nil || !strings.Contains(err.Error(), v1alpha1.AnnotationResume)):
			t.Errorf("%q gives %+v and %v", text, a, err)
		case err != nil:
		case a == nil:
			if strings.TrimSpace(text) != "" {
				t.Errorf("%q is passed over without a word", text)
			}
		case !strings.HasPrefix(strings.TrimSpace(text), a.Hold.ID+":"+a.Option),
			!slices.Contains(holdkind.Answers(a.Hold.Options), a.Option),
			slices.ContainsFunc(a.Nodes, func(n string) bool { return !slices.Contains(a.Hold.Nodes, n) }),
			strings.Contains(text, "@") != (len(a.Nodes) > 0):
			t.Errorf("%q answers %+v", text, a)
		}
	})
}

var looksLikeVersion = regexp.MustCompile(`^[0-9][A-Za-z0-9.~+-]*$`)

// FuzzContainerMessage: whatever a container leaves as its last words, what is told of it is one line of bounded
// length, and a version is taken from it only if it looks like one.
func FuzzContainerMessage(f *testing.F) {
	f.Add("insmod: ERROR: could not insert module ./drbd.ko: Key was rejected by service\n", int32(1), int32(3))
	f.Add("9.3.3\n", int32(0), int32(0))
	f.Add(strings.Repeat("\xff\x00", 3000), int32(-1), int32(-1))
	f.Fuzz(func(t *testing.T, message string, code, restarts int32) {
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message, ExitCode: code}}
		pod := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
			{Name: resources.WaitForModuleContainer, State: ended, LastTerminationState: ended, RestartCount: restarts},
		}}}
		trouble := poddiagnosis.Of(pod)
		if (trouble != nil) != (code != 0) {
			t.Fatalf("exit code %d: %v", code, trouble)
		}
		if trouble != nil {
			for _, q := range platform.Profiles() {
				clustertest.CheckProblem(t, module.LoaderProblem(trouble, q))
			}
		}
		if v := module.LoadedVersion((&cluster.Member{SatellitePod: pod})); v != "" &&
			(code != 0 || len(v) > 60 || !looksLikeVersion.MatchString(v)) {
			t.Errorf("version %q of %q, exit code %d", v, message, code)
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
			s := &cluster.Snapshot{Facts: cluster.Facts{Cluster: &v1alpha1.StorageCluster{}}}
			s.Cluster.Spec.Nodes.MinReady = &v
			for range nodes {
				s.Members = append(s.Members, &cluster.Member{Selected: true})
			}
			if got := s.MinReady(); got < 1 || got > max(1, int(nodes)) {
				t.Errorf("minReady %s of %d nodes is %d", v.String(), nodes, got)
			}
		}
	})
}
