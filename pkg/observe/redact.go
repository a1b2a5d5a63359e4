package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// redactSecrets removes from what pods report what is in the Secrets that specs name, before anything looks at it:
// programs repeat their connection URL or user when they fail, and more people read the status than Secrets.
func redactSecrets(k *cluster.Kube, specs ...*v1alpha1.StorageClusterSpec) {
	hidden := keysOf(k)
	for _, spec := range specs {
		for _, h := range secretsOf(k, spec) {
			if h != (connection.Settings{}) && !slices.Contains(hidden, h) {
				hidden = append(hidden, h)
			}
		}
	}
	if len(hidden) == 0 {
		return
	}
	clean := func(text string) string {
		if text == "" {
			return "" // thousands of pods have nothing to say
		}
		for _, h := range hidden {
			text = h.Hide(text)
		}
		return text
	}
	for _, pods := range k.Pods {
		for node, p := range pods {
			pods[node] = withMessages(p, clean)
		}
	}
	for _, pods := range []map[string]*corev1.Pod{k.Backups, k.Comparisons, k.Restores} {
		for name, p := range pods {
			if p.Status.Phase != corev1.PodSucceeded { // what it has done is read from its note, which repeats no secret
				pods[name] = withMessages(p, clean)
			}
		}
	}
	for i, p := range k.ControllerPods {
		k.ControllerPods[i] = withMessages(p, clean)
	}
}

// keysOf are the private keys of certificates, line by line, since no message has one whole.
func keysOf(k *cluster.Kube) (out []connection.Settings) {
	for _, s := range k.Secrets {
		if s.Labels[v1alpha1.LabelComponent] != tlssecret.Component {
			continue
		}
		for _, entry := range []string{certificates.EntryKey, certificates.EntryAuthorityKey, certificates.EntryNextKey} {
			for line := range strings.SplitSeq(string(s.Data[entry]), "\n") {
				// The last line may be so short that other words have it in them, and is worth nothing alone.
				if !strings.HasPrefix(line, "-----") && len(line) >= 16 {
					out = append(out, connection.Settings{Password: line})
				}
			}
		}
	}
	return out
}

// secretsOf are the contents of the Secrets that a spec names; empty for those that are not there.
func secretsOf(k *cluster.Kube, spec *v1alpha1.StorageClusterSpec) []connection.Settings {
	value := func(secret, key string) string {
		if s := k.Secrets[secret]; s != nil {
			return string(s.Data[key])
		}
		return ""
	}
	credentials := connection.CredentialsSecret(&spec.Database)
	return append(backupCredentials(spec, value), []connection.Settings{
		{User: value(credentials, "username"), Password: value(credentials, "password")},
		{Password: value(spec.Controller.PassphraseSecret, resources.PassphraseKey)},
		{Password: value(spec.KernelModule.SigningKeySecret, resources.SigningKey)},
	}...)
}

// withMessages is the pod with other messages: a copy if any of them changes, because the pod itself is the cache's.
func withMessages(p *corev1.Pod, change func(string) string) *corev1.Pod {
	differs := false
	eachMessage(p, func(text *string) { differs = differs || change(*text) != *text })
	if !differs {
		return p
	}
	p = p.DeepCopy()
	eachMessage(p, func(text *string) { *text = change(*text) })
	return p
}

// eachMessage calls f for what each container says about its end, or about why it does not begin.
func eachMessage(p *corev1.Pod, f func(*string)) {
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			for _, state := range []*corev1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Waiting != nil {
					f(&state.Waiting.Message)
				}
				if state.Terminated != nil {
					f(&state.Terminated.Message)
				}
			}
		}
	}
}

// backupCredentials are those of the store of backups.
func backupCredentials(spec *v1alpha1.StorageClusterSpec,
	value func(secret, key string) string) []connection.Settings {
	if spec.Backup == nil || spec.Backup.S3 == nil {
		return nil
	}
	secret := spec.Backup.S3.CredentialsSecret
	of := func(key string) string { return strings.TrimSpace(value(secret, key)) } // as it is used
	return []connection.Settings{{User: of(store.AccessKeyID), Password: of(store.SecretAccessKey)},
		{Password: of(store.SessionToken)}}
}
