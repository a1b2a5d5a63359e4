package remembered_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
)

// TestApprovals: each option of a hold but `retry` is on the page, with what it counts for, where it is kept and what
// ends it.
func TestApprovals(t *testing.T) {
	all := remembered.Approvals()
	table := listed(t)
	for _, kind := range holdkind.All() {
		for _, option := range holdkind.Answers(kind.Options) {
			there := slices.ContainsFunc(all, func(a remembered.Approval) bool {
				return a.Reason == kind.Reason && a.Option == option
			})
			if there == (option == v1alpha1.OptionRetry) {
				t.Errorf("%s of %s is in the table: %t", option, kind.Reason, there)
			}
		}
	}
	page := remembered.ApprovalsMarkdown()
	for _, a := range all {
		if !slices.Contains(holdkind.Answers(holdkind.Of(a.Reason).Options), a.Option) {
			t.Errorf("%s is no option of %s", a.Option, a.Reason)
		}
		if !table[a.Kept] {
			t.Errorf("%s of %s is kept as %s, which is not remembered", a.Option, a.Reason, a.Kept)
		}
	}
	for _, bad := range []string{"Covers: .", "Ends: .", "** ."} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}
