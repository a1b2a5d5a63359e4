package certificates

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/javastore"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates/rotation"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// mostSteps bounds the steps of one reconcile: a first authority and all certificates, or a succession's phase.
const mostSteps = 4 + 2*8

// Work does the next steps of the rotations, or removes all where nothing is locked any more. An error is for the
// condition alone.
func Work(ctx context.Context, in *step.Input) {
	f := &in.Snapshot.Facts
	if f.Target == nil {
		return
	}
	var errs []error
	for _, c := range connections() {
		if f.WantsTLS() || c.stays(f) {
			errs = append(errs, c.rotate(ctx, in))
		} else {
			errs = append(errs, in.Delete(ctx, c.left(f)))
		}
	}
	in.FailedAside(conditions.CertificatesValid, step.IgnoreOutdated(errors.Join(errs...)))
}

// stays reports whether certificates are kept up although nobody wants them any more: some pod may stay locked for
// long. There may be thousands of pods, and mostly there is no certificate. Where the Secrets were lost, what makes
// pods still refers to them, and waits for them.
func (c *connection) stays(f *cluster.Facts) bool {
	return c.templates(f) || len(c.store(f).Succession.Trust()) > 0 && c.onPods(f)
}

// rotate takes steps until the next one is for somebody else, or for later. Each is written before the next one is
// decided on, in the order of the table: a bundle is published before anything is signed with what it adds.
func (c *connection) rotate(ctx context.Context, in *step.Input) error {
	f := c.facts(&in.Snapshot.Facts)
	written := dataOf(in.Snapshot.Kube.Secrets)
	looked := false
	for range mostSteps {
		d := rotation.Decide(f)
		if d.Step == rotation.Rest || d.Step == rotation.Wait {
			break
		}
		if !looked {
			if err := c.confirm(ctx, in); err != nil {
				return err
			}
			looked = true
		}
		change, err := rotation.Do(f, d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Row, err)
		}
		if s := change.Succession; s != nil {
			if err := c.applyAuthorities(ctx, in, *s); err != nil {
				return err
			}
			f.Succession = *s
		}
		for _, h := range change.Held {
			if err := c.applyHeld(ctx, in, h, written); err != nil {
				return err
			}
			i := slices.IndexFunc(f.Held, func(o rotation.Held) bool { return o.Profile.Name == h.Profile.Name })
			f.Held[i] = h
		}
	}
	if looked {
		return nil
	}
	return c.mend(ctx, in, f, written)
}

// confirm looks at all Secrets past the cache. One that is not in the cache yet would be made anew, and what the first
// authority has signed would be refused; of a brought one the cache may have the one of before.
func (c *connection) confirm(ctx context.Context, in *step.Input) error {
	names := c.kind.Secrets()
	if brought := c.store(&in.Snapshot.Facts).Brought.Secret; brought != "" {
		names = append(names, brought)
	}
	for _, name := range names {
		live, err := in.Live.Secret(ctx, name)
		if err != nil {
			return fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
		}
		cached := in.Snapshot.Kube.Secrets[name]
		if (live == nil) != (cached == nil) || live != nil && live.ResourceVersion != cached.ResourceVersion {
			return fmt.Errorf("%w: Secret %s has changed", step.ErrOutdated, name)
		}
	}
	return nil
}

// mend puts back what somebody changed beside certificate, key and bundle, such as a store, and removes the Secrets of
// parts that are not there any more.
func (c *connection) mend(ctx context.Context, in *step.Input, f rotation.Facts,
	written map[string]map[string][]byte) error {
	var errs []error
	for _, h := range f.Held {
		if h.Leaf == nil {
			continue
		}
		want, err := c.secretOf(in.Snapshot.Cluster.Name, h, written)
		if err == nil {
			err = step.ApplyIfDiffers(ctx, in, in.Snapshot.Kube.Secrets[want.Name], want)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, in.Delete(ctx, c.unneeded(&in.Snapshot.Facts)))...)
}

// applyAuthorities writes the Secret of the authorities. An entry that goes is emptied: one that came with a Secret
// from a backup belongs to whoever put that back, and server-side apply would leave it there, so that an authority
// that was forgotten would be back at the next look.
func (c *connection) applyAuthorities(ctx context.Context, in *step.Input, s certificates.Succession) error {
	data, err := s.Data()
	if err != nil {
		return err
	}
	if before := in.Snapshot.Kube.Secrets[c.kind.AuthoritySecret()]; before != nil {
		for entry := range before.Data {
			if _, stays := data[entry]; !stays && slices.Contains(certificates.AuthorityEntries(), entry) {
				data[entry] = []byte{}
			}
		}
	}
	return in.Writer.Apply(ctx, secret(in.Snapshot.Cluster.Name, c.kind.AuthoritySecret(), corev1.SecretTypeOpaque, data))
}

// applyHeld writes the Secret of a part, and notes in written what it has then.
func (c *connection) applyHeld(ctx context.Context, in *step.Input, h rotation.Held,
	written map[string]map[string][]byte) error {
	want, err := c.secretOf(in.Snapshot.Cluster.Name, h, written)
	if err != nil {
		return err
	}
	written[want.Name] = want.Data
	return in.Writer.Apply(ctx, want)
}

// dataOf is what the Secrets have, by their names.
func dataOf(secrets map[string]*corev1.Secret) map[string]map[string][]byte {
	out := map[string]map[string][]byte{}
	for name, s := range secrets {
		out[name] = s.Data
	}
	return out
}

// secretOf is the Secret of a part, in place of the one of before.
func (c *connection) secretOf(owner string, h rotation.Held,
	before map[string]map[string][]byte) (*corev1.Secret, error) {
	part := tlssecret.Part(h.Profile.Name)
	encode := h.Leaf.Data
	if c.java(part) {
		encode = func(trust certificates.Bundle) (map[string][]byte, error) { return javastore.Data(h.Leaf, trust) }
	}
	data, err := encode(h.Trust)
	if err != nil {
		return nil, err
	}
	name := c.kind.Secret(part)
	maps.Copy(data, c.extra(part))
	maps.Copy(data, tlssecret.Ref{Leaf: h.Leaf.Hash(), Trust: h.Trust.Hash()}.Markers(before[name]))
	return secret(owner, name, corev1.SecretTypeTLS, data), nil
}

func secret(owner, name string, kind corev1.SecretType, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.WorkloadNamespace,
			Labels: resources.Labels(owner, tlssecret.Component)},
		Type: kind, Data: data,
	}
}

// Left are the Secrets that nobody needs any more where nothing is locked. As long as a pod was made with one of them
// they stay: a container that is started anew reads its certificate again, and a node that is away may have one.
func Left(f *cluster.Facts) (out []client.Object) {
	for _, c := range connections() {
		out = append(out, c.left(f)...)
	}
	return out
}

func (c *connection) left(f *cluster.Facts) []client.Object {
	left := c.ours(f, func(string) bool { return true })
	if len(left) == 0 || c.inUse(f) { // there may be thousands of pods, and mostly there is no certificate
		return nil
	}
	return left
}

// unneeded are the Secrets of parts that are not there.
func (c *connection) unneeded(f *cluster.Facts) []client.Object {
	return c.ours(f, func(name string) bool {
		return slices.ContainsFunc(c.kind.Parts,
			func(p tlssecret.Part) bool { return c.kind.Secret(p) == name && !c.needs(f, p) })
	})
}

func (c *connection) ours(f *cluster.Facts, goes func(name string) bool) (out []client.Object) {
	for _, name := range c.kind.Secrets() {
		if s := f.Kube.Secrets[name]; s != nil && goes(name) && cluster.Ours(f.Cluster.Name, s) {
			out = append(out, s)
		}
	}
	return out
}

// inUse reports whether a pod, or what makes pods, refers to the certificates.
func (c *connection) inUse(f *cluster.Facts) bool { return c.templates(f) || c.onPods(f) }

func (c *connection) onPods(f *cluster.Facts) bool {
	for _, byNode := range f.Kube.Pods {
		for _, p := range byNode {
			if c.made(p) {
				return true
			}
		}
	}
	return slices.ContainsFunc(slices.Concat(f.Kube.ControllerPods, f.Kube.Hidden),
		func(p *corev1.Pod) bool { return c.made(p) })
}

func (c *connection) made(o metav1.Object) bool { return o.GetAnnotations()[c.kind.Annotation] != "" }

// templates reports whether something makes pods that refer to the certificates.
func (c *connection) templates(f *cluster.Facts) bool {
	for _, d := range f.Kube.Deployments {
		if c.made(&d.Spec.Template) {
			return true
		}
	}
	for _, ds := range f.Kube.DaemonSets {
		if c.made(&ds.Spec.Template) {
			return true
		}
	}
	return false
}
