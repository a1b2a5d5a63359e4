package holdkind

import (
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// contradicts reports whether a kind lists disks without a pool, or grows though it is not about nodes.
func contradicts(k Kind) bool {
	return k.ListsDisks && k.Scope != ScopePool || k.Growth != GrowsNever && k.Scope != ScopeNodes
}

func TestKinds(t *testing.T) {
	seen := map[v1alpha1.HoldReason]bool{}
	for _, k := range All() {
		if seen[k.Reason] {
			t.Errorf("%s has two rows", k.Reason)
		}
		seen[k.Reason] = true
		if len(k.Options) == 0 {
			t.Errorf("%s has no way out", k.Reason)
		}
		for _, o := range k.Options {
			if first, _, _ := strings.Cut(o.Does, " "); !strings.HasSuffix(strings.TrimSuffix(first, ":"), "s") ||
				strings.HasSuffix(o.Does, ".") {
				t.Errorf("%s: %s does %q, which is not what it does", k.Reason, o.Answer, o.Does)
			}
		}
		if contradicts(k) {
			t.Errorf("%s: %+v contradicts itself", k.Reason, k)
		}
		// Whoever answers such a hold decides about data on a node. What it lists must not grow under its id.
		if consents := slices.ContainsFunc(Answers(k.Options),
			func(a string) bool { return a != v1alpha1.OptionRetry && a != v1alpha1.OptionContinue }); consents &&
			k.Growth == GrowsOn {
			t.Errorf("%s grows under its id", k.Reason)
		}
	}
	if k := Of("Unheard"); k.Class != Answer || k.Maintains ||
		!slices.Equal(Answers(k.Options), []string{v1alpha1.OptionRetry}) {
		t.Errorf("of a reason that a newer operator gave: %+v", k)
	}
}
