package observe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/certificates"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// The cache's pod stays as it is, whichever of its messages changes.
func TestOnlyChangedPodsAreCopied(t *testing.T) {
	said := func(first, second string) *corev1.Pod {
		p := &corev1.Pod{}
		for _, message := range []string{first, second} {
			ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{State: ended})
		}
		return p
	}
	hide := func(text string) string { return strings.ReplaceAll(text, "secret", "…") }
	for _, tc := range []struct{ first, second string }{{"secret", "secret"}, {"secret", "fine"}, {"fine", "secret"}} {
		p := said(tc.first, tc.second)
		got := withMessages(p, hide)
		if diff := cmp.Diff(said(hide(tc.first), hide(tc.second)), got); diff != "" || got == p {
			t.Errorf("%+v: a copy is made: %t\n%s", tc, got != p, diff)
		}
		if diff := cmp.Diff(said(tc.first, tc.second), p); diff != "" {
			t.Errorf("%+v: the cache's pod was changed:\n%s", tc, diff)
		}
	}
	if p := said("fine", "fine"); withMessages(p, hide) != p {
		t.Error("a pod without anything to hide is copied")
	}
}

func TestHideSecrets(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.Cluster.Spec.Database = v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db",
		CredentialsSecret: "db"}}
	w.Cluster.Spec.Controller.PassphraseSecret, w.Cluster.Spec.KernelModule.SigningKeySecret = "pass", "mok"
	w.Secret("db", map[string]string{"username": "d+ba", "password": "s3cret/pw+"})
	w.Secret("pass", map[string]string{resources.PassphraseKey: "horse"})
	w.Secret("linstor-operator-api-tls", map[string]string{certificates.EntryKey: "-----BEGIN PRIVATE KEY-----\n" +
		"MIGHAgEAMBMGByqGSM49AgEG\nAQ==\n-----END PRIVATE KEY-----\n"})
	w.Kube.Secrets["linstor-operator-api-tls"].Labels = map[string]string{v1alpha1.LabelComponent: tlssecret.Component}
	w.Secret("mok", map[string]string{resources.SigningKey: "-----BEGIN KEY-----"})
	for _, tc := range []struct{ says, want string }{
		{"Connection to jdbc:postgresql://db/linstor?user=d+ba&password=s3cret/pw+ refused",
			"Connection to jdbc:postgresql://db/linstor?user=<username>&password=<password> refused"},
		{"password=s3cret%2Fpw%2B", "password=<password>"},
		{"etcd://d%2Bba:s3cret%2Fpw+@etcd:2379", "etcd://<username>:<password>@etcd:2379"},
		{`login as {"password":"s3cret/pw+"} failed`, `login as {"password":"<password>"} failed`},
		{`password authentication failed for user "d+ba"`, `password authentication failed for user "<username>"`},
		{"c3VyZQ== aG9yc2U=", "the message is omitted because it contains the password"},
		{"no horse of mine", "the message is omitted because it contains the password"},
		{"key MIGHAgEAMBMGByqGSM49AgEG AQ== is bad", "key <password> AQ== is bad"},
		{"cannot read -----BEGIN KEY-----", "cannot read <password>"},
		{"java.lang.OutOfMemoryError", "java.lang.OutOfMemoryError"},
	} {
		w.CrashController(4, tc.says)
		w.FailPod(v1alpha1.ComponentModuleLoader, "n01", tc.says)
		redactSecrets(&w.Kube, &w.Cluster.Spec)
		for _, p := range []*corev1.Pod{w.Kube.ControllerPods[0], w.Kube.Pods[v1alpha1.ComponentModuleLoader]["n01"]} {
			got := ""
			eachMessage(p, func(text *string) { got += *text })
			if !strings.Contains(got, tc.want) || tc.want != tc.says && strings.Contains(got, tc.says) {
				t.Errorf("%s: %q became %q, want %q", p.Name, tc.says, got, tc.want)
			}
		}
	}
}
