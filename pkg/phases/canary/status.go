package canary

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/hold"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// Status is what the status says of tries after a reconcile. A try begins with it: it is there before the claim. An
// answer to the hold is kept here, too, in the write that lets the hold go.
func Status(s *cluster.Snapshot, released *hold.Answer) *volumespec.CanaryStatus {
	was := s.Cluster.Status.Canary
	switch {
	case s.Target == nil || s.Cluster.Spec.Suspend:
		return was.DeepCopy()
	case notWanted(&s.Facts) != "":
		return nil
	}
	out := &volumespec.CanaryStatus{Request: request(&s.Facts)}
	for _, t := range tries(s) {
		if c := t.note(s, answerTo(released)); c != nil {
			out.Classes = append(out.Classes, *c)
		}
	}
	if len(out.Classes) == 0 && out.Request == "" {
		return nil
	}
	return out
}

// answerTo is the answer to the hold of the link; "" if none was carried out.
func answerTo(released *hold.Answer) string {
	if released == nil || !released.Cluster || released.Hold.Reason != v1alpha1.HoldCanaryFailed {
		return ""
	}
	return released.Option
}

// note is what the status says of the try; nil if nothing.
func (t *try) note(s *cluster.Snapshot, answer string) *volumespec.CanaryClass {
	over := t.result == volumespec.CanaryPassed || t.result == volumespec.CanarySkipped
	switch {
	case answer == v1alpha1.OptionSkip && !over:
		return t.fresh(s, volumespec.CanarySkipped, t.step, t.message)
	case answer == v1alpha1.OptionRetry && !over:
		return t.forgotten()
	case t.result == "" && putOff(s) == "" && !t.there():
		return t.fresh(s, volumespec.CanaryRunning, volumespec.CanaryProvision, "")
	case t.result == "":
		return t.last.DeepCopy()
	default:
		return t.noteProgress(metav1.NewTime(s.Now))
	}
}

// fresh is a try that begins, or is skipped, now.
func (t *try) fresh(s *cluster.Snapshot, result volumespec.CanaryResult, step volumespec.CanaryStep,
	message string) *volumespec.CanaryClass {
	c := &volumespec.CanaryClass{Name: t.class.Name, Target: t.target, Since: metav1.NewTime(s.Now), Result: result,
		Step: step, Message: message}
	if t.last != nil {
		c.Passed = t.last.Passed
	}
	return c
}

// forgotten is a try that counts no longer, so that another one begins; nil if nothing of it is worth knowing: that is
// when one passed last.
func (t *try) forgotten() *volumespec.CanaryClass {
	if t.last == nil || t.last.Passed == nil {
		return nil
	}
	c := t.last.DeepCopy()
	c.Target = ""
	return c
}

// noteProgress is a try that goes on, or has ended. The steps Snapshot and CleanUp have a time of their own.
func (t *try) noteProgress(now metav1.Time) *volumespec.CanaryClass {
	c := t.last.DeepCopy()
	c.Result, c.Step, c.Message, c.Volume, c.Snapshot = t.result, t.step, t.message, t.volume, t.taken.DeepCopy()
	if (c.Step == volumespec.CanarySnapshot || c.Step == volumespec.CanaryCleanUp) && t.last.Step != c.Step {
		c.Since = now
	}
	if t.result == volumespec.CanaryPassed && t.last.Result != volumespec.CanaryPassed {
		c.Passed, c.Volume = &now, ""
	}
	return c
}

// Cause is gone if no try has begun, and what hindered one is over. Otherwise the link's evidence shows it.
func Cause(in *step.Input, _ *v1alpha1.Hold) hold.Cause {
	s := in.Snapshot
	if notWanted(&s.Facts) != "" || hindrance(s) != "" {
		return hold.CauseShownByLink
	}
	for _, t := range tries(s) {
		if t.result != "" && t.result != volumespec.CanaryPassed && t.result != volumespec.CanarySkipped {
			return hold.CauseShownByLink
		}
	}
	return hold.CauseGone
}
