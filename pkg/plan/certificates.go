package plan

import (
	"context"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
)

// bothDesires are what would be written without the edit, and with it.
//
// Nothing is built before its certificate is there. So the Secrets that would be made first are put into the facts,
// and what follows is judged on them. Both sides share those that are made without the edit: keys are new each time.
func (p *planner) bothDesires(ctx context.Context) (before, after *record) {
	before = &record{}
	if !p.wakes {
		p.base, before = certified(ctx, p.base)
		p.desires(ctx, p.base, before)
		if len(before.applied) > 0 {
			p.after = judgeOn(p.after, p.base.Kube.Secrets)
		}
	}
	p.after, after = certified(ctx, p.after)
	p.desires(ctx, p.after, after)
	for _, follows := range []func(*cluster.Snapshot, *record) *cluster.Snapshot{propertiesFollow, controllerFollows} {
		if next := follows(p.after, after); next != nil {
			p.after = next
			p.desires(ctx, next, after)
		}
	}
	p.stepsOfCertificates()
	return before, after
}

// certified is a snapshot with the Secrets that would be made now, and a record of them.
func certified(ctx context.Context, s *cluster.Snapshot) (*cluster.Snapshot, *record) {
	r := &record{}
	if s.Target == nil {
		return s, r
	}
	in := r.input(s)
	in.Answer = nil
	certificates.Work(ctx, in)
	secrets := maps.Clone(s.Kube.Secrets)
	made := false
	for _, o := range r.applied {
		if secret, ok := o.(*corev1.Secret); ok {
			if secrets == nil {
				secrets = map[string]*corev1.Secret{}
			}
			secrets[secret.Name], made = secret, true
		}
	}
	if !made {
		return s, r
	}
	return judgeOn(s, secrets), r
}

// judgeOn judges a snapshot's facts anew, with these Secrets.
func judgeOn(s *cluster.Snapshot, secrets map[string]*corev1.Secret) *cluster.Snapshot {
	if s.Target == nil {
		return s
	}
	f := s.Facts
	f.Kube.Secrets = secrets
	certs := apicerts.Read(secrets, &f.Target.Spec.TLS, f.Now)
	certs.Seen, certs.APIClock = f.Certificates.Seen, f.Certificates.APIClock
	f.Certificates = certs
	return phases.Judge(f)
}

// propertiesFollow is the snapshot as it is once LINSTOR has the controller's properties: one of them must be there
// before the controller gets its certificates. nil if it has them.
func propertiesFollow(s *cluster.Snapshot, r *record) *cluster.Snapshot {
	if s.Target == nil || !s.WantsTLS() || s.Linstor.View == nil || s.Netcom.Satellite.Locked() {
		return nil
	}
	view := *s.Linstor.View
	view.Properties = maps.Clone(view.Properties)
	set := false
	for i := range r.writes {
		if w := &r.writes[i]; w.what == ofController {
			maps.Copy(view.Properties, w.set)
			set = true
		}
	}
	if !set {
		return nil
	}
	f := s.Facts
	f.Linstor.View = &view
	return phases.Judge(f)
}

// controllerFollows is the snapshot as it is once LINSTOR's controller runs with the certificate that it is about to
// get: satellites are made for theirs only then. nil if they wait for nothing.
func controllerFollows(s *cluster.Snapshot, r *record) *cluster.Snapshot {
	if s.Target == nil || !s.WantsTLS() || s.Netcom.Satellite.Locked() {
		return nil
	}
	d := lockedController(r)
	if d == nil {
		return nil
	}
	f := s.Facts
	f.Kube.Deployments = maps.Clone(f.Kube.Deployments)
	f.Kube.Deployments[d.Name] = d
	pods := f.Kube.ControllerPods
	f.Kube.ControllerPods = nil
	for _, p := range pods {
		next := p.DeepCopy()
		next.Annotations = maps.Clone(d.Spec.Template.Annotations)
		node := next.Spec.NodeName
		next.Spec = *d.Spec.Template.Spec.DeepCopy()
		next.Spec.NodeName = node
		f.Kube.ControllerPods = append(f.Kube.ControllerPods, next)
	}
	return phases.Judge(f)
}

// lockedController is the controller's Deployment that would be applied, locked to satellites; nil for none.
func lockedController(r *record) *appsv1.Deployment {
	for _, o := range r.applied {
		if d, ok := o.(*appsv1.Deployment); ok && d.Name == resources.ControllerName && netcom.Locked(&d.Spec.Template) {
			return d
		}
	}
	return nil
}

// stepsOfCertificates says what of certificates cannot be planned: they follow each other in steps, each of which
// waits until all pods have taken the one before, and only the first one is known.
func (p *planner) stepsOfCertificates() {
	if slices.ContainsFunc(p.out.Fields, func(f result.Field) bool { return strings.HasPrefix(f.Path, "tls") }) {
		p.unknown("how often pods are restarted for certificate changes: certificates change in several steps, but only " +
			"the first step is listed")
	}
	s := p.after
	if s.Target == nil {
		return
	}
	for _, why := range missing(s) {
		if !p.lacksAnyway(why) {
			p.unknown("which pods are restarted for certificates: %s", why)
		}
	}
}

// lacksAnyway reports whether a certificate is missing without the edit, too.
func (p *planner) lacksAnyway(why string) bool {
	return !p.wakes && p.base.Target != nil && slices.Contains(missing(p.base), why)
}

// missing are the certificates that are not there, of parts that need one.
func missing(s *cluster.Snapshot) []string {
	spec := s.Target.Spec
	parts := []apitls.Part{apitls.Controller, apitls.Operator}
	if spec.Volumes.Driver.Mode == volumespec.DriverManaged {
		parts = append(parts, apitls.Driver, apitls.DriverNode)
	}
	out := []string{s.Certificates.Missing(&s.Target.Spec.TLS, parts...),
		netcom.Missing(&s.Facts, netcomtls.Kind.Parts...)}
	return slices.DeleteFunc(out, func(why string) bool { return why == "" })
}
