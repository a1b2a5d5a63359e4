package harness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// operatorName is that of the operator's Deployment and ServiceAccount.
const operatorName = "storagecluster-operator"

// OperatorUser is who the operator is to the API server.
const OperatorUser = "system:serviceaccount:" + v1alpha1.OperatorNamespace + ":" + operatorName

// Requests are the operator's finished requests to the API server, from the n-th of all audited requests on; the
// second result is where the next look begins.
func (a *Administrator) Requests(from int) ([]simcluster.AuditEvent, int) {
	a.T.Helper()
	all, err := a.Sim.AuditEvents()
	if err != nil {
		a.T.Fatal(err)
	}
	var out []simcluster.AuditEvent
	for _, ev := range all[from:] {
		if ev.User == OperatorUser {
			out = append(out, ev)
		}
	}
	return out, len(all)
}

// Writes are the requests with which the operator changed something, leader election aside.
func (a *Administrator) Writes(from int) []simcluster.AuditEvent {
	a.T.Helper()
	requests, _ := a.Requests(from)
	return slices.DeleteFunc(requests, func(ev simcluster.AuditEvent) bool {
		return !ev.Mutating() ||
			ev.Resource == "leases"
	})
}

// AuditMark is where the audit log ends now, for Requests and Writes.
func (a *Administrator) AuditMark() int {
	a.T.Helper()
	_, mark := a.Requests(0)
	return mark
}

// RequestKind is a request's verb and resource, as a role names them.
func RequestKind(ev simcluster.AuditEvent) string {
	resource := ev.Resource
	if ev.Subresource != "" {
		resource += "/" + ev.Subresource
	}
	return ev.Verb + " " + resource
}

// Tally prints how many requests there were of each kind.
func Tally(events []simcluster.AuditEvent) string {
	counts := map[string]int{}
	var kinds []string
	for _, ev := range events {
		k := RequestKind(ev)
		if counts[k] == 0 {
			kinds = append(kinds, k)
		}
		counts[k]++
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "%4d  %s\n", counts[k], k)
	}
	fmt.Fprintf(&b, "%4d  in all", len(events))
	return b.String()
}
