package phases

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// signingKeyTrouble says what is wrong with the Secret that loaders sign the module with; "" if nothing is, or if none signs. It
// never tells what is in the Secret.
func (s *Snapshot) signingKeyTrouble() string {
	if s.count(s.signs) == 0 {
		return ""
	}
	const field = "spec.kernelModule.signingKeySecret"
	name := s.Target.Spec.KernelModule.SigningKeySecret
	secret := s.Kube.Secrets[name]
	if secret == nil {
		return fmt.Sprintf("%s: there is no Secret %s in the namespace %s", field, name, v1alpha1.WorkloadNamespace)
	}
	for _, key := range []string{resources.SigningKey, resources.SigningCertificate} {
		if len(secret.Data[key]) == 0 {
			return fmt.Sprintf("%s: the Secret %s in the namespace %s has no key %s", field, name, v1alpha1.WorkloadNamespace, key)
		}
	}
	return ""
}

// signs is whether the member's loader signs the module.
func (s *Snapshot) signs(m *Member) bool { return resources.Signs(s.Target.Spec, m.Profile, m.Loader) }

// signingKeyHold is the hold before loaders are started, or changed, that would wait for their key for ever. Loaders that were
// started with the key go on without it: a loaded module needs it no more.
func (s *Snapshot) signingKeyHold() *HoldRequest {
	trouble := s.signingKeyTrouble()
	if trouble == "" {
		return nil
	}
	for _, want := range s.loaders() {
		if !matches(s.Kube.DaemonSets[want.Name], want) {
			return &HoldRequest{Reason: v1alpha1.HoldSigningKeyUnusable, Message: trouble}
		}
	}
	return nil
}

// staleLoader is whether the member's loader pod was started with another key than it is to use. What became of that pod says
// nothing: it is being replaced.
func (s *Snapshot) staleLoader(m *Member) bool {
	return s.signs(m) && m.LoaderPod != nil &&
		m.LoaderPod.Annotations[resources.AnnotationSigningKeyVersion] != s.signingKeyVersion(resources.ModuleLoaderName(m.OSKey))
}

// signingKeyVersion is the version of the key that a loader's DaemonSet is to use: the Secret's, or while that cannot be used the
// one that it was started with.
func (s *Snapshot) signingKeyVersion(daemonSet string) string {
	if secret := s.Kube.Secrets[s.Target.Spec.KernelModule.SigningKeySecret]; secret != nil && s.signingKeyTrouble() == "" {
		return secret.ResourceVersion
	}
	if live := s.Kube.DaemonSets[daemonSet]; live != nil {
		return live.Spec.Template.Annotations[resources.AnnotationSigningKeyVersion]
	}
	return ""
}
