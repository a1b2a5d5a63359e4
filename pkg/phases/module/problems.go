package module

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Problem explains why a member does not have the module; nil if it has, or if it is not known why.
func Problem(s *cluster.Snapshot, m *cluster.Member) *cluster.Problem {
	if m.ModuleOK {
		return nil
	}
	if !HasLoader(&s.Facts, m) {
		return absentModule(&s.Facts, m)
	}
	if trouble := SigningKeyTrouble(s); trouble != "" && signs(&s.Facts, m) {
		return &cluster.Problem{Reason: string(v1alpha1.HoldSigningKeyUnusable), Hold: v1alpha1.HoldSigningKeyUnusable,
			Message: trouble}
	}
	t := poddiagnosis.Find(&s.Facts, m.LoaderPod)
	if t == nil {
		return nil
	}
	p := LoaderProblem(t, m.Profile)
	if staleLoader(s, m) {
		p.Hold = ""
	}
	return p
}

// loaderFailures are what the module loader says, and what it means. The texts are those of the kernel and of LINBIT's
// loader script (github.com/LINBIT/drbd, docker/entry.sh); what none matches is shown as it is.
var loaderFailures = []struct {
	pattern *regexp.Regexp
	reason  v1alpha1.HoldReason
	explain string
}{
	{regexp.MustCompile(`(?i)required key not available|key was rejected by service|` +
		`operation not permitted.*insmod|insmod.*operation not permitted|lockdown`),
		v1alpha1.HoldSecureBootKeyMissing, "Secure Boot rejected the module: its signing key is not enrolled on the node"},
	{regexp.MustCompile(`(?i)usermode_helper`), v1alpha1.HoldKernelModuleFailed,
		"DRBD is loaded with a usermode helper; disable it for LINSTOR (module option usermode_helper=disabled)"},
	{regexp.MustCompile(`(?i)drbd.*version.*8\.|loaded.*8\.[0-9]|version loaded does not satisfy the minimum`),
		v1alpha1.HoldKernelModuleFailed, "an old DRBD version is loaded; unload or remove DRBD 8 on the node"},
	// Debian has the scripts of the headers in a package of their own, linux-kbuild.
	{regexp.MustCompile(`(?i)linux-headers-[^ ]*/(scripts|tools)/[^ ]*:\s+no such file or directory`),
		v1alpha1.HoldKernelModuleFailed,
		"the kernel headers on the node are incomplete: reinstall linux-headers-$(uname -r) with all its " +
			"dependencies (on Debian, linux-kbuild of the same release)"},
	{regexp.MustCompile(`(?i)kernel headers|kernel makefile not found|correct kdir|could not find.*kernel source|` +
		`no such file or directory.*(usr/src|/build)|(usr/src|/build)[^ ]*:\s+no such file or directory`),
		v1alpha1.HoldKernelModuleFailed, "the kernel headers are missing on the node"},
	// After the others: make says so at the end of each attempt that failed.
	{regexp.MustCompile(`(?i)invalid module format|unknown symbol`), v1alpha1.HoldKernelModuleFailed,
		"the module does not match the node's kernel: try another loader image"},
	{regexp.MustCompile(`(?i)modpost|\.[ch]:\d+(:\d+)?: (fatal )?error: |\*\*\* \[[^\]]*\] error|` +
		`could not find the exp[a-z]+ \*\.ko`),
		v1alpha1.HoldKernelModuleFailed, "DRBD does not compile against the node's kernel: try another loader image"},
	{regexp.MustCompile(`(?i)could not find matching rpm package|expected to find 1 matching package`),
		v1alpha1.HoldKernelModuleFailed, "the loader image does not contain a module for the node's kernel"},
}

// LoaderProblem explains a failing module loader.
func LoaderProblem(t *poddiagnosis.Trouble, q platform.Profile) *cluster.Problem {
	p := &cluster.Problem{Reason: string(v1alpha1.HoldKernelModuleFailed), Message: t.String()}
	for _, f := range loaderFailures {
		if t.Container != "" && f.pattern.MatchString(t.Message) {
			p.Reason, p.Message = string(f.reason), f.explain+" ("+t.Message+")"
			if q.Platform == v1alpha1.PlatformOpenShift && f.reason == v1alpha1.HoldKernelModuleFailed {
				p.Message = f.explain + "; " + q.Hint + " (" + t.Message + ")"
			}
			break
		}
	}
	if t.Lasting {
		p.Hold = v1alpha1.HoldReason(p.Reason)
	}
	return p
}

// absentModule explains a satellite that waits for a module which the operator does not load. It becomes a reason for
// a hold when it has lasted: a node that boots needs a moment.
func absentModule(s *cluster.Facts, m *cluster.Member) *cluster.Problem {
	since := waitingSince(m.SatellitePod)
	if since.IsZero() {
		return nil
	}
	p := &cluster.Problem{Reason: string(v1alpha1.HoldKernelModuleFailed),
		Message: fmt.Sprintf(
			"DRBD is not loaded, and the operator does not load it on platform %s with spec.kernelModule.mode %s: %s",
			m.Profile.Platform, s.Target.Spec.KernelModule.Mode, m.Profile.Hint)}
	if s.Now.Sub(since) > s.Timing.Straggler {
		p.Hold = v1alpha1.HoldKernelModuleFailed
	}
	return p
}

// versionPattern is what a version of DRBD looks like, such as 9.2.13 or 9.3.0-rc.1. A termination message is a
// container's own word; what does not look like a version does not come into the status.
var versionPattern = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{1,5}){1,3}[A-Za-z0-9.~+-]{0,20}$`)

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

// LoadedVersion is the version of DRBD that the member's kernel has loaded, as its satellite's init container found
// it; "" if it is not known. The container runs again whenever the node boots, and a loaded module cannot be exchanged
// in between: it is in use as soon as there is a volume, and loaders leave it alone.
func LoadedVersion(m *cluster.Member) string {
	state := waitForModule(m.SatellitePod)
	if state == nil || state.Terminated == nil || state.Terminated.ExitCode != 0 {
		return ""
	}
	version := strings.TrimSpace(state.Terminated.Message)
	if !versionPattern.MatchString(version) {
		return ""
	}
	return version
}

// WantedVersion is the version that the member's loader brings; "" where there is none or its version is not known.
func WantedVersion(s *cluster.Facts, m *cluster.Member) string {
	if !HasLoader(s, m) {
		return ""
	}
	return m.Loader.Version()
}

// AwaitsReboot reports whether another version is loaded on the member than its loader brings.
func AwaitsReboot(s *cluster.Facts, m *cluster.Member) bool {
	wanted, loaded := WantedVersion(s, m), LoadedVersion(m)
	return wanted != "" && loaded != "" && wanted != loaded
}

// pendingReboot says which members still run another version than their loaders bring; "" if none do.
func pendingReboot(s *cluster.Snapshot) string {
	var loaded, wanted []string
	for _, m := range s.Members {
		if AwaitsReboot(&s.Facts, m) {
			loaded, wanted = append(loaded, LoadedVersion(m)), append(wanted, WantedVersion(&s.Facts, m))
		}
	}
	n := len(loaded)
	if n == 0 {
		return ""
	}
	slices.Sort(loaded)
	slices.Sort(wanted)
	return fmt.Sprintf("%d of %d nodes keep running DRBD %s instead of %s until they are rebooted", n, len(s.Members),
		text.QuoteList(slices.Compact(loaded)), text.QuoteList(slices.Compact(wanted)))
}
