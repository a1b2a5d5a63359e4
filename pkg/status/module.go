package status

import (
	"cmp"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
)

// mostVersions bounds the versions of DRBD that the status counts.
const mostVersions = 10

// unknownVersion counts members whose version is not known: their satellite has not started yet.
const unknownVersion = "unknown"

// projectModule counts the versions of DRBD. A loader that ran says nothing of them: it leaves a loaded module as it is.
func projectModule(st *v1alpha1.StorageClusterStatus, s *phases.Snapshot) {
	if s.Target == nil || len(s.Members) == 0 {
		st.KernelModule = nil
		return
	}
	k := &v1alpha1.KernelModuleStatus{}
	counts := map[string]int32{}
	var wanted []string
	for _, m := range s.Members {
		counts[cmp.Or(m.LoadedModule(), unknownVersion)]++
		if v := s.WantedModule(m); v != "" && !slices.Contains(wanted, v) {
			wanted = append(wanted, v)
		}
		if s.AwaitsReboot(m) {
			k.PendingReboot++
			if len(k.Examples) < mostExamples {
				k.Examples = append(k.Examples, m.Name)
			}
		}
	}
	slices.Sort(wanted)
	k.Wanted = strings.Join(first(wanted, mostVersions), ", ")
	for version, count := range counts {
		k.Loaded = append(k.Loaded, v1alpha1.ModuleVersionCount{Version: version, Count: count})
	}
	slices.SortFunc(k.Loaded, func(a, b v1alpha1.ModuleVersionCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Version, b.Version))
	})
	k.Loaded = first(k.Loaded, mostVersions)
	st.KernelModule = k
}
