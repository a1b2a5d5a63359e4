package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sqlstub"
)

const (
	// deadline is when a phase that cannot go on asks a human.
	deadline = 15 * time.Second
	lease    = time.Minute
)

// secretFields are the fields of the spec that name Secrets, with the test that puts canaries into them.
var secretFields = map[string]string{
	"images.pullSecrets": "TestSecretsOfNodes", "images.pullSecrets[]": "TestSecretsOfNodes",
	"kernelModule.signingKeySecret": "TestSecretsOfNodes", "controller.passphraseSecret": "TestSecretsOfNodes",
	"database.postgresql.credentialsSecret": "TestSecretsOfDatabases",
	"database.mariadb.credentialsSecret":    "TestSecretsOfDatabases",
	"database.etcd.credentialsSecret":       "TestSecretsOfDatabases",
	"backup.s3.credentialsSecret":           "TestSecretsOfBackups",
	"tls.authorities.apiSecret":             "TestSecretsOfAuthorities",
	"tls.authorities.satellitesSecret":      "TestSecretsOfAuthorities",
}

// TestSecretsAreCovered fails when the spec gets a field that names a Secret of which no test knows.
func TestSecretsAreCovered(t *testing.T) {
	seen := 0
	for _, l := range specLeaves(t) {
		if !strings.Contains(strings.ToLower(l.name()), "secret") {
			continue
		}
		seen++
		if secretFields[l.path] == "" {
			t.Errorf("%s: no test has canaries for it: add them, and the field to secretFields", l.path)
		}
	}
	if seen != len(secretFields) {
		t.Errorf("%d fields name Secrets, %d are known", seen, len(secretFields))
	}
}

// TestSecretsOfDatabases installs with credentials that are missing, wrong, and right, and lets LINSTOR's driver
// repeat them when it fails.
func TestSecretsOfDatabases(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"postgresql", "mariadb", "etcd"} {
		t.Run(kind, func(t *testing.T) {
			a := newAviary(t, harness.Nodes(1))
			user, password, wrong := a.canary(kind+" user"), a.canary(kind+" password"), a.canary(kind+" wrong password")
			server := &sqlstub.Server{Users: map[string]string{user: password},
				Databases: map[string]*sqlstub.Contents{"linstor": nil}}
			var spec string
			switch kind {
			case "etcd":
				address := harness.FreeAddress(t)
				harness.StartEtcd(t, address)
				spec = fmt.Sprintf("  version: 1.33.3\n  database: {etcd: {endpoints: [%q], credentialsSecret: db}}",
					"http://"+address)
			case "mariadb":
				spec = fmt.Sprintf("  database: {mariadb: {host: 127.0.0.1, port: %d, credentialsSecret: db}}",
					sqlstub.Serve(t, server.MariaDB))
			default:
				spec = fmt.Sprintf("  database: {postgresql: {host: 127.0.0.1, port: %d, credentialsSecret: db}}",
					sqlstub.Serve(t, server.PostgreSQL))
			}
			a.Run()
			a.Apply(harness.Manifest(spec + harness.ThinPool))
			injected("secrets: Secret missing")
			a.explained("credentialsSecret")
			a.secret("db", corev1.SecretTypeOpaque, map[string]string{"username": user, "password": wrong})
			if kind != "etcd" {
				injected("secrets: wrong password")
				a.explained("linstor-storage/db")
			}
			a.secret("db", corev1.SecretTypeOpaque, map[string]string{"username": user, "password": password})
			a.WaitPhase(v1alpha1.PhaseReady)

			for _, says := range []string{
				fmt.Sprintf("Connection to jdbc:%s://db/linstor?user=%s&password=%s refused", kind, user, password),
				fmt.Sprintf("password authentication failed for user %q", user),
			} {
				injected("secrets: repeated by a program that fails")
				a.Sim.Faults().SetCrash(resources.ControllerContainer, "", says)
				a.Eventually("the controller's failure is told", func() error { return a.says("refused", "authentication") })
				a.WaitHold(v1alpha1.HoldDatabaseUnreachable)
				a.Sim.Faults().SetCrash(resources.ControllerContainer, "", "")
				a.WaitPhase(v1alpha1.PhaseReady)
			}
		})
	}
}

// says is an error while the status says none of the texts.
func (a *aviary) says(texts ...string) error {
	st := a.Get().Status
	all := encode(st)
	for _, text := range texts {
		if strings.Contains(all, text) {
			return nil
		}
	}
	return fmt.Errorf("the status says %s", st.Message)
}

// explained waits until the status says what is wrong, in a hold or on the way to it.
func (a *aviary) explained(text string) {
	a.T.Helper()
	a.Eventually("the status says "+text, func() error { return a.says(text) })
}

// TestSecretsOfNodes goes through passphrase, signing key, pull Secrets, LINSTOR's backups and a Secret that is none
// of the operator's business: each missing or unusable first, and repeated by programs that fail.
func TestSecretsOfNodes(t *testing.T) {
	a := newAviary(t, harness.Nodes(1))
	passphrase, another := a.canary("passphrase"), a.canary("another passphrase")
	key, pull := a.canary("signing key"), a.canary("pull Secret")
	pem := "-----BEGIN PRIVATE KEY-----\n" + key + "\n-----END PRIVATE KEY-----\n"
	a.secret("stranger", corev1.SecretTypeOpaque, map[string]string{"token": a.canary("somebody else's Secret")})
	a.secret("mirror-pull", corev1.SecretTypeDockerConfigJson, map[string]string{
		corev1.DockerConfigJsonKey: encode(map[string]any{
			"auths": map[string]any{"registry.example.com": map[string]any{"password": pull}}}),
	})
	a.Run()
	a.Apply(harness.Manifest("  version: 1.33.3\n  images: {registry: registry.example.com/mirror, pullSecrets: " +
		"[mirror-pull]}\n" +
		"  kernelModule: {mode: Compile, signingKeySecret: mok}\n  controller: {passphraseSecret: pass}" + harness.ThinPool))
	injected("secrets: Secret missing")
	a.WaitHold(v1alpha1.HoldSigningKeyUnusable)
	a.secret("mok", corev1.SecretTypeOpaque, map[string]string{resources.SigningKey: pem})
	injected("secrets: unusable key")
	a.explained(resources.SigningCertificate)
	a.Sim.Faults().SetSecureBoot("n1", "enrolled")
	a.secret("mok", corev1.SecretTypeOpaque,
		map[string]string{resources.SigningKey: key, resources.SigningCertificate: "not enrolled"})
	h := a.WaitHold(v1alpha1.HoldSecureBootKeyMissing)
	a.secret("mok", corev1.SecretTypeOpaque,
		map[string]string{resources.SigningKey: pem, resources.SigningCertificate: "enrolled"})
	a.Resume(h, v1alpha1.OptionRetry)
	a.WaitHold(v1alpha1.HoldPassphraseUnusable)
	a.secret("pass", corev1.SecretTypeOpaque, map[string]string{resources.PassphraseKey: passphrase})
	a.WaitPhase(v1alpha1.PhaseReady)

	injected("secrets: another passphrase")
	a.secret("pass", corev1.SecretTypeOpaque, map[string]string{resources.PassphraseKey: another})
	a.WaitHold(v1alpha1.HoldPassphraseUnusable)
	a.secret("pass", corev1.SecretTypeOpaque, map[string]string{resources.PassphraseKey: passphrase})
	a.WaitPhase(v1alpha1.PhaseReady)
	injected("secrets: repeated by a program that fails")
	a.Sim.Faults().SetCrash(resources.ControllerContainer, "",
		"Automatic injection of passphrase failed: "+passphrase+" does not fit")
	a.WaitHold(v1alpha1.HoldPassphraseUnusable)
	a.Sim.Faults().SetCrash(resources.ControllerContainer, "", "")
	a.WaitPhase(v1alpha1.PhaseReady)
	a.backups()
}

// backups upgrades LINSTOR while a Secret that is damaged, and has canaries in it, is the only backup.
func (a *aviary) backups() {
	a.T.Helper()
	a.Sim.Faults().SetBackup("missing")
	a.Update(func(c *v1alpha1.StorageCluster) { c.Spec.Version = "1.35.3" })
	a.explained("the backup of the database cannot be read")
	inside := a.canary("backup")
	backup := &corev1.Secret{}
	backup.Namespace, backup.Name, backup.Type = v1alpha1.WorkloadNamespace, "linstor-backup-for-test",
		"piraeus.io/linstor-backup"
	backup.Annotations = map[string]string{"piraeus.io/linstor-version": "LINSTOR Controller 1.35.3"}
	backup.StringData = map[string]string{"backup.tar.gz": inside}
	if err := a.Client().Create(a.Ctx, backup); err != nil {
		a.T.Fatal(err)
	}
	injected("secrets: unreadable backup")
	a.explained("linstor-backup-for-test")
}
