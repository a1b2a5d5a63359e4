package phases

import (
	"fmt"
	"regexp"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// moduleProblem explains why a member does not have the module; nil if it has, or if it is not known why.
func (s *Snapshot) moduleProblem(m *Member) *Problem {
	if m.moduleOK {
		return nil
	}
	if !s.hasLoader(m) {
		return s.absentModule(m)
	}
	if trouble := s.signingKeyTrouble(); trouble != "" && s.signs(m) {
		return &Problem{Reason: string(v1alpha1.HoldSigningKeyUnusable), Hold: v1alpha1.HoldSigningKeyUnusable, Message: trouble}
	}
	t := troubleOf(m.LoaderPod)
	if t == nil {
		return nil
	}
	p := loaderProblem(t, m.Profile)
	if s.staleLoader(m) {
		p.Hold = ""
	}
	return p
}

// loaderFailures tell apart what the module loader says. The texts are those of the kernel and of LINBIT's loader script
// (github.com/LINBIT/drbd, docker/entry.sh); what none matches is shown as it is.
var loaderFailures = []struct {
	pattern *regexp.Regexp
	reason  v1alpha1.HoldReason
	explain string
}{
	{regexp.MustCompile(`(?i)required key not available|key was rejected by service|operation not permitted.*insmod|insmod.*operation not permitted|lockdown`),
		v1alpha1.HoldSecureBootKeyMissing, "Secure Boot refused the module: its signing key is not enrolled on the node"},
	{regexp.MustCompile(`(?i)usermode_helper`),
		v1alpha1.HoldKernelModuleFailed, "DRBD is loaded with a usermode helper; LINSTOR needs it off (module option usermode_helper=disabled)"},
	{regexp.MustCompile(`(?i)drbd.*version.*8\.|loaded.*8\.[0-9]|version loaded does not satisfy the minimum`),
		v1alpha1.HoldKernelModuleFailed, "an old DRBD is loaded; unload or remove DRBD 8 on the node"},
	{regexp.MustCompile(`(?i)kernel headers|no such file or directory.*(usr/src|/build)|could not find.*kernel source|kdir`),
		v1alpha1.HoldKernelModuleFailed, "the kernel's headers are missing on the node"},
	{regexp.MustCompile(`(?i)could not find matching rpm package|expected to find 1 matching package`),
		v1alpha1.HoldKernelModuleFailed, "the loader's image has no module for the node's kernel"},
}

// loaderProblem explains a failing module loader.
func loaderProblem(t *containerTrouble, q resources.Profile) *Problem {
	p := &Problem{Reason: string(v1alpha1.HoldKernelModuleFailed), Message: t.String()}
	hold := v1alpha1.HoldKernelModuleFailed
	for _, f := range loaderFailures {
		if f.pattern.MatchString(t.message) {
			hold = f.reason
			p.Reason, p.Message = string(f.reason), f.explain+" ("+t.message+")"
			if q.Platform == v1alpha1.PlatformOpenShift && f.reason == v1alpha1.HoldKernelModuleFailed {
				p.Message = f.explain + "; " + q.Hint + " (" + t.message + ")"
			}
			break
		}
	}
	if t.lasting {
		p.Hold = hold
	}
	return p
}

// absentModule explains a satellite that waits for a module which the operator does not load. It becomes a reason for a hold
// when it has lasted: a node that boots needs a moment.
func (s *Snapshot) absentModule(m *Member) *Problem {
	since := waitingSince(m.SatellitePod)
	if since.IsZero() || s.hasLoader(m) {
		return nil
	}
	p := &Problem{Reason: string(v1alpha1.HoldKernelModuleFailed),
		Message: fmt.Sprintf("DRBD is not loaded, and on platform %s with spec.kernelModule.mode %s the operator loads none: %s",
			m.Profile.Platform, s.Target.Spec.KernelModule.Mode, m.Profile.Hint)}
	if s.Now.Sub(since) > s.Timing.Straggler {
		p.Hold = v1alpha1.HoldKernelModuleFailed
	}
	return p
}
