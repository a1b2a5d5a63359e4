package harness

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Steps are all changes of phase that led to a StorageCluster, the newest first. Its status itself keeps the last few
// only.
func (e *Env) Steps(c *v1alpha1.StorageCluster) []v1alpha1.Transition {
	e.guard.mu.Lock()
	defer e.guard.mu.Unlock()
	if i := indexOf(e.guard.steps, c.Status.History); i >= 0 && len(c.Status.History) > 0 {
		return slices.Clone(e.guard.steps[i:]) // the guard has seen a later version
	}
	return joinSteps(e.guard.steps, c.Status.History)
}

// HoldText is what the hold of the cluster said that a change of phase is about, which names its id alone; "" if it is
// about none.
func (e *Env) HoldText(step *v1alpha1.Transition) string {
	e.guard.mu.Lock()
	defer e.guard.mu.Unlock()
	for id, text := range e.guard.holds {
		if strings.Contains(step.Message, id) {
			return text
		}
	}
	return ""
}

// joinSteps puts what is new in a history before the steps that are known. An empty history is that of a new object.
func joinSteps(known, history []v1alpha1.Transition) []v1alpha1.Transition {
	if len(history) == 0 {
		return nil
	}
	for n := range history {
		kept := history[n:]
		if len(kept) <= len(known) && equality.Semantic.DeepEqual(kept, known[:len(kept)]) {
			return slices.Concat(history[:n], known)
		}
	}
	return slices.Clone(history)
}

// indexOf is where the steps contain the history; -1 if they do not.
func indexOf(steps, history []v1alpha1.Transition) int {
	for i := range steps {
		if i+len(history) <= len(steps) && equality.Semantic.DeepEqual(steps[i:i+len(history)], history) {
			return i
		}
	}
	return -1
}
