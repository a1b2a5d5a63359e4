package phases

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

func TestHideSecrets(t *testing.T) {
	w := newWorld(t, 1)
	w.cluster.Spec.Database = v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}}
	w.cluster.Spec.Controller.PassphraseSecret, w.cluster.Spec.KernelModule.SigningKeySecret = "pass", "mok"
	w.secret("db", map[string]string{"username": "d+ba", "password": "s3cret/pw+"})
	w.secret("pass", map[string]string{PassphraseKey: "horse"})
	w.secret("mok", map[string]string{resources.SigningKey: "-----BEGIN KEY-----"})
	for _, tc := range []struct{ says, want string }{
		{"Connection to jdbc:postgresql://db/linstor?user=d+ba&password=s3cret/pw+ refused", "Connection to jdbc:postgresql://db/linstor?user=<username>&password=<password> refused"},
		{"password=s3cret%2Fpw%2B", "password=<password>"},
		{"etcd://d%2Bba:s3cret%2Fpw+@etcd:2379", "etcd://<username>:<password>@etcd:2379"},
		{`login as {"password":"s3cret/pw+"} failed`, `login as {"password":"<password>"} failed`},
		{`password authentication failed for user "d+ba"`, `password authentication failed for user "<username>"`},
		{"c3VyZQ== aG9yc2U=", "the message is left out, because it repeats the password"},
		{"no horse of mine", "the message is left out, because it repeats the password"},
		{"cannot read -----BEGIN KEY-----", "cannot read <password>"},
		{"java.lang.OutOfMemoryError", "java.lang.OutOfMemoryError"},
	} {
		w.crashController(4, tc.says)
		w.failPod(v1alpha1.ComponentModuleLoader, "n01", tc.says)
		w.kube.HideSecrets(&w.cluster.Spec)
		for _, p := range []*corev1.Pod{w.kube.ControllerPods[0], w.kube.Pods[v1alpha1.ComponentModuleLoader]["n01"]} {
			got := ""
			eachMessage(p, func(text *string) { got += *text })
			if !strings.Contains(got, tc.want) || tc.want != tc.says && strings.Contains(got, tc.says) {
				t.Errorf("%s: %q became %q, want %q", p.Name, tc.says, got, tc.want)
			}
		}
	}
}
