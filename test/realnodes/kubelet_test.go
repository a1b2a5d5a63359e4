package realnodes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubelet"
)

// podCase is a pod, and what must go wrong with it in the model, whose containers have no programs.
type podCase struct {
	// pod changes a pod whose only container, of the case's name, runs the stand-in.
	pod   func(p *corev1.Pod, c *corev1.Container)
	model func(f *kubelet.Faults, container string)
	// until is when the pods are compared.
	until func(p *corev1.Pod) bool
	// differs are lines that only the real kubelet reports (+) or only the model (-), and why says why that may stay.
	differs []string
	why     string
	// says is the operator's explanation of a pod that the model knows nothing about, so that nothing is compared.
	says string
}

// side is one of the two clusters.
type side struct {
	api client.Client
	// seen is what was seen of each pod at the time of its comparison, and pending what was seen last of the others.
	seen, pending map[string][]string
}

// TestKubeletModel runs the same pods on a real kubelet and on the model of a kubelet that all other tests rely on,
// and compares what an operator can see of them.
func TestKubeletModel(t *testing.T) {
	c := start(t, 1)
	simulated, err := simcluster.Start(t.Context(), simcluster.Options{Nodes: []simcluster.NodeSpec{{Name: "n1"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(simulated.Stop)
	cases := podCases()
	genuine := &side{api: c.Client(), seen: map[string][]string{}, pending: map[string][]string{}}
	model := &side{api: simulated.Client(), seen: map[string][]string{}, pending: map[string][]string{}}
	for name, tc := range cases {
		c.must(genuine.api.Create(t.Context(), tc.newPod(name)))
		if tc.says != "" {
			continue
		}
		if tc.model != nil {
			tc.model(simulated.Faults(), name)
		}
		c.must(model.api.Create(t.Context(), tc.newPod(name)))
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			allReal, errReal := genuine.look(ctx, cases)
			allModel, errModel := model.look(ctx, cases)
			return allReal && allModel, errors.Join(errReal, errModel)
		}); err != nil {
		t.Errorf("not all pods have come as far as they must: %v", err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, s := range []*side{genuine, model} {
				if lines, pending := s.pending[name]; pending {
					t.Fatalf("the last that was seen:\n%s", strings.Join(lines, "\n"))
				}
			}
			if tc.says != "" {
				if !slices.Contains(genuine.seen[name], operatorSays+tc.says) {
					t.Errorf("the operator does not say %q:\n%s", tc.says, strings.Join(genuine.seen[name], "\n"))
				}
				return
			}
			if d := difference(genuine.seen[name], model.seen[name]); !slices.Equal(d, tc.differs) {
				t.Errorf("only the real kubelet (+) or only the model (-) says:\n%s\nexpected:\n%s", strings.Join(d, "\n"),
					strings.Join(tc.differs, "\n"))
			}
		})
	}
}

// look records what the cluster reports now. It returns true once all pods have come as far as they must.
func (s *side) look(ctx context.Context, cases map[string]podCase) (bool, error) {
	var pods corev1.PodList
	var events corev1.EventList
	in := client.InNamespace(metav1.NamespaceDefault)
	if err := errors.Join(s.api.List(ctx, &pods, in), s.api.List(ctx, &events, in)); err != nil {
		return false, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if s.seen[p.Name] != nil {
			continue
		}
		lines := seen(p, warningsAbout(p, events.Items))
		if cases[p.Name].until(p) {
			s.seen[p.Name] = lines
			delete(s.pending, p.Name)
		} else {
			s.pending[p.Name] = lines
		}
	}
	return len(s.pending) == 0, nil
}

// newPod is the case's pod.
func (tc podCase) newPod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	p.Spec = corev1.PodSpec{NodeName: "n1", AutomountServiceAccountToken: new(bool),
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: name, Image: standinImage, Command: []string{"/standin"},
			Args: []string{"pause"}, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError}}}
	if tc.pod != nil {
		tc.pod(p, &p.Spec.Containers[0])
	}
	return p
}

// difference is what only one of two sorted lists has.
func difference(genuine, model []string) (out []string) {
	for _, line := range genuine {
		if !slices.Contains(model, line) {
			out = append(out, "+ "+line)
		}
	}
	for _, line := range model {
		if !slices.Contains(genuine, line) {
			out = append(out, "- "+line)
		}
	}
	return out
}
