package status

import (
	"fmt"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/affinity"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/highavailability"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/monitoring"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// mostClasses is how many StorageClasses a message explains; the others it counts.
const mostClasses = 3

// classesReady is the condition StorageClassesReady. Whether nodes and pools can take volumes is known only while
// LINSTOR answers and is connected to the nodes; until it is again, what was said last stays.
func classesReady(s *cluster.Snapshot) verdict {
	if s.Target == nil {
		return unknown(conditions.ReasonNotChecked, "the spec has not been accepted yet")
	}
	reason, bad, notes, wanted := sumUpClasses(s.Classes)
	with := func(words ...string) string { return strings.Join(append(words, first(notes, mostClasses)...), "; ") }
	switch before := written(s, conditions.StorageClassesReady); {
	case len(bad) > 0:
		said := first(bad, mostClasses)
		if unsaid := len(bad) - len(said); unsaid > 0 {
			said = append(said, fmt.Sprintf("and %d more", unsaid))
		}
		return no(reason, with(said...))
	case wanted == 0:
		return yes("NotWanted", with("spec.volumes.storageClasses is empty"))
	case (!s.Linstor.Known() || s.Connecting()) && before.status != "" && before.reason != storageclass.ReasonMaking &&
		before.reason != conditions.ReasonNotChecked:
		return before
	case !s.Linstor.Known() || s.Connecting():
		return unknown(conditions.ReasonUnknown, "LINSTOR does not respond, or is not connected to all satellites yet")
	default:
		return yes(conditions.ReasonAsExpected, with(text.Amount(wanted, "StorageClass exists",
			"StorageClasses exist")+", and the current nodes and pools can hold their volumes"))
	}
}

// sumUpClasses counts the StorageClasses that are wanted, and lists what is wrong with them and what else is to be
// said. The reason is the first one's that is not just being made.
func sumUpClasses(all []*cluster.StorageClass) (reason string, bad, notes []string, wanted int) {
	for _, c := range all {
		if c.Want != nil {
			wanted++
		}
		if c.Note != "" {
			notes = append(notes, c.Note)
		}
		if c.Reason == "" {
			continue
		}
		bad = append(bad, c.Name+": "+c.Message)
		if reason == "" || reason == storageclass.ReasonMaking {
			reason = c.Reason
		}
	}
	return reason, bad, notes, wanted
}

// monitoringReady is the condition MonitoringReady. Between looks at the objects, what was seen last stays.
func monitoringReady(in Input) verdict {
	return besides(in, conditions.MonitoringReady, func(s *cluster.Snapshot) cluster.Evidence {
		return monitoring.Judge(&s.Facts)
	})
}

// highAvailabilityReady is the condition HighAvailabilityReady.
func highAvailabilityReady(in Input) verdict {
	return besides(in, conditions.HighAvailabilityReady, highavailability.Judge)
}

// affinityReady is the condition AffinityReady.
func affinityReady(in Input) verdict {
	return besides(in, conditions.AffinityReady, affinity.Judge)
}

// certificatesValid is the condition CertificatesValid.
func certificatesValid(in Input) verdict {
	return besides(in, conditions.CertificatesValid, certificates.Judge)
}

// besides is the condition of what nothing waits for, by its evidence once a spec is accepted, or by a write
// that failed. While nothing is known, what was said last stays.
func besides(in Input, kind string, judge func(*cluster.Snapshot) cluster.Evidence) verdict {
	s := in.Snapshot
	if s.Target == nil {
		return unknown(conditions.ReasonNotChecked, "the spec has not been accepted yet")
	}
	if why := in.Failures.Aside(kind); why != "" {
		return no(conditions.ReasonRefused, why)
	}
	switch e := judge(s); e.State {
	case cluster.Satisfied:
		return yes(e.Reason, e.Message)
	case cluster.Unknown:
		if before := written(s, kind); before.status != "" &&
			before.reason != conditions.ReasonNotChecked && before.reason != conditions.ReasonObservationFailed {
			return before
		}
		return unknown(e.Reason, e.Message)
	default:
		return no(e.Reason, e.Message)
	}
}
