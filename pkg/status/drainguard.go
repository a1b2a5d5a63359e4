package status

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/drainguard"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// drainGuardReady is the condition DrainGuardReady.
func drainGuardReady(in Input) verdict {
	s := in.Snapshot
	if why := in.Failures.Aside(conditions.DrainGuardReady); why != "" {
		return no(drainguard.ReasonFailed, why)
	}
	j := drainguard.Judge(s)
	switch {
	case j.Off != "":
		return yes(drainguard.ReasonNotWanted, j.Off)
	case j.Unknown:
		if before := written(s, conditions.DrainGuardReady); before.status != "" {
			return before
		}
		return unknown(conditions.ReasonNotChecked, "drain guards are created once the cluster has become Ready")
	case len(j.Missing) > 0:
		return no(drainguard.ReasonMaking, fmt.Sprintf("%d of %s a drain guard and can be drained at any time",
			len(j.Missing), text.Amount(len(j.Guarded), "node still lacks", "nodes still lack")))
	}
	if len(j.Refused) > 0 {
		return yes(drainguard.ReasonRefused, "nodes that cannot be drained now: "+j.Refusals())
	}
	message := text.Amount(len(j.Guarded)-len(j.Drained), "node is guarded", "nodes are guarded")
	if len(j.Drained) > 0 {
		message += "; drained: " + text.QuoteList(j.Drained)
	}
	if len(j.Free) > 0 {
		message += "; can be drained now: " + text.QuoteList(j.Free)
	}
	return yes(conditions.ReasonAsExpected, message)
}
