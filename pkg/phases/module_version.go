package phases

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// modulePattern is what a version of DRBD looks like, such as 9.2.13 or 9.3.0-rc.1. A termination message is a container's own
// word; what does not look like a version does not come into the status.
var modulePattern = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{1,5}){1,3}[A-Za-z0-9.~+-]{0,20}$`)

// waitForModule is the state of the satellite's init container that waits for DRBD; nil if it is not known.
func waitForModule(p *corev1.Pod) *corev1.ContainerState {
	if p == nil || p.DeletionTimestamp != nil {
		return nil
	}
	for i := range p.Status.InitContainerStatuses {
		if c := &p.Status.InitContainerStatuses[i]; c.Name == resources.WaitForModuleContainer {
			return &c.State
		}
	}
	return nil
}

// waitingSince is since when the satellite has waited for DRBD; zero if it does not wait.
func waitingSince(p *corev1.Pod) time.Time {
	if state := waitForModule(p); state != nil && state.Running != nil {
		return state.Running.StartedAt.Time
	}
	return time.Time{}
}

// LoadedModule is the version of DRBD that the member's kernel has loaded, as its satellite's init container found it; "" if it
// is not known. The container runs again whenever the node boots, and a loaded module cannot be exchanged in between: it is in
// use as soon as there is a volume, and loaders leave it alone.
func (m *Member) LoadedModule() string {
	state := waitForModule(m.SatellitePod)
	if state == nil || state.Terminated == nil || state.Terminated.ExitCode != 0 {
		return ""
	}
	version := strings.TrimSpace(state.Terminated.Message)
	if !modulePattern.MatchString(version) {
		return ""
	}
	return version
}

// WantedModule is the version that the member's loader brings; "" where there is none or its version is not known.
func (s *Snapshot) WantedModule(m *Member) string {
	if !s.hasLoader(m) {
		return ""
	}
	return m.Loader.Version()
}

// AwaitsReboot is whether another version is loaded on the member than its loader brings.
func (s *Snapshot) AwaitsReboot(m *Member) bool {
	wanted, loaded := s.WantedModule(m), m.LoadedModule()
	return wanted != "" && loaded != "" && wanted != loaded
}

// pendingReboot says which members still run another version than their loaders bring; "" if none do.
func (s *Snapshot) pendingReboot() string {
	n := 0
	var versions, wanted []string
	add := func(list []string, v string) []string {
		if slices.Contains(list, v) {
			return list
		}
		return append(list, v)
	}
	for _, m := range s.Members {
		if s.AwaitsReboot(m) {
			n++
			versions, wanted = add(versions, m.LoadedModule()), add(wanted, s.WantedModule(m))
		}
	}
	if n == 0 {
		return ""
	}
	slices.Sort(versions)
	slices.Sort(wanted)
	return fmt.Sprintf("%d of %d nodes still run DRBD %s instead of %s until they are rebooted", n, len(s.Members),
		quoteList(versions), quoteList(wanted))
}
