package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/root"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/statusview"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// plugin runs "kubectl linstor" with these arguments, as somebody without a terminal. What it prints is logged: the
// examples of docs/kubectl-plugin.md are from there.
func plugin(e *env, args ...string) (code int, out, said string) {
	e.T.Helper()
	return pluginWith(e, func(*access.Env) {}, args...)
}

// pluginWith is plugin with some of its environment replaced.
func pluginWith(e *env, replace func(*access.Env), args ...string) (code int, out, said string) {
	e.T.Helper()
	return pluginOf(e.Ctx, e.T, e.Sim, replace, args...)
}

func pluginOf(ctx context.Context, t testing.TB, c *simcluster.Cluster, replace func(*access.Env),
	args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr, both bytes.Buffer
	streams := access.Streams{Width: 80}
	streams.In, streams.Out = strings.NewReader(""), io.MultiWriter(&stdout, &both)
	streams.ErrOut = io.MultiWriter(&stderr, &both)
	p := access.NewEnv(streams, "v0.1.0")
	p.Every = 50 * time.Millisecond
	replace(p)
	code = root.Run(ctx, p, append([]string{"--kubeconfig", c.Kubeconfig()}, args...))
	t.Logf("$ kubectl linstor %s\n%s(exit code %d)", strings.Join(args, " "), both.String(), code)
	return code, stdout.String(), stderr.String()
}

// succeeds runs the plugin, which must do what it was asked to.
func succeeds(e *env, args ...string) string {
	e.T.Helper()
	code, out, said := plugin(e, args...)
	if code != exit.Done {
		e.T.Fatalf("kubectl linstor %s: code %d: %s%s", strings.Join(args, " "), code, out, said)
	}
	return out + said
}

// contains checks what the plugin printed.
func contains(e *env, text string, wants ...string) {
	e.T.Helper()
	text = strings.Join(strings.Fields(text), " ")
	for _, want := range wants {
		if !strings.Contains(text, want) {
			e.T.Errorf("no %q in %s", want, text)
		}
	}
}

// wellAgain waits until the plugin finds nothing that is not well.
func wellAgain(e *env) {
	e.T.Helper()
	e.Eventually("all is well", func() error {
		if code, out, _ := plugin(e, "status", "--exit-code"); code != exit.Done {
			return fmt.Errorf("code %d: %s", code, out)
		}
		return nil
	})
}

// TestPlugin leads a cluster from a hold to Ready with nothing but the plugin, and then uses its other commands.
func TestPlugin(t *testing.T) {
	e := start(t, harness.Nodes(3))
	if code, _, said := plugin(e, "status"); code != exit.Failed ||
		!strings.Contains(said, "no StorageCluster exists") {
		t.Errorf("without a StorageCluster: code %d: %s", code, said)
	}
	e.dirty("n2", "n3")
	e.Run()
	e.Apply(harness.Manifest(harness.DevicePool))
	h := e.WaitHold(v1alpha1.HoldDeviceNotEmpty)
	contains(e, succeeds(e, "status"), "HumanIntervention", "kubectl linstor resume "+h.ID+" retry",
		"storage.linstor.dev/resume="+h.ID+":retry", "registers the existing volume group or zpool")
	if code, _, _ := plugin(e, "status", "--exit-code"); code != exit.NotWell {
		t.Errorf("a held cluster: code %d", code)
	}
	contains(e, succeeds(e, "resume"), "Hold "+h.ID)
	if code, _, said := plugin(e, "resume", "retry"); code != exit.Failed || !strings.Contains(said, "--yes") {
		t.Errorf("without a terminal: code %d: %s", code, said)
	}
	if code, _, said := plugin(e, "resume", h.ID, "format", "--yes"); code != exit.Failed ||
		!strings.Contains(said, "available options: retry, skip, use-existing") {
		t.Errorf("an option that is not offered: code %d: %s", code, said)
	}
	e.wipe("n2", "n3")
	contains(e, succeeds(e, "resume", "retry", "--yes"), "Hold "+h.ID+" was resumed with retry.", "The phase is ")
	e.ready("3/3", "3/3")
	e.WaitStatus("drain guards", func(s *v1alpha1.StorageClusterStatus) bool {
		c := &v1alpha1.StorageCluster{Status: *s}
		return strings.HasPrefix(harness.Condition(c, conditions.DrainGuardReady), "True/")
	})
	wellAgain(e)
	var v statusview.View
	if err := json.Unmarshal([]byte(succeeds(e, "status", "-o", "json")), &v); err != nil || !v.Well ||
		v.Phase != v1alpha1.PhaseReady || len(v.Sections) < 5 {
		t.Errorf("%v: %+v", err, v)
	}
	contains(e, succeeds(e, "status", "--all"), "✔ n1 Online", "✔ n2 Online", "✔ n3 Online")
	contains(e, succeeds(e, "resume"), "No hold is open")
	contains(e, succeeds(e, "version"), "plugin v0.1.0", "crd storageclusters.storage.linstor.dev v1alpha1",
		"kubernetes v1.")

	down := e.otherNode()
	contains(e, succeeds(e, "maintenance", "on", down, "--reason", "new memory", "--yes"), down+" is under maintenance")
	if got := e.Node(down).Annotations[v1alpha1.AnnotationMaintenance]; got != "new memory" {
		t.Errorf("the annotation is %q", got)
	}
	waitProperty(e, down, autoplaceTarget, "false")
	contains(e, succeeds(e, "maintenance", "off", down, "--yes"), "has ended")
	waitProperty(e, down, autoplaceTarget, "")
}

// TestPluginNodeHold answers a hold of nodes for one of them.
func TestPluginNodeHold(t *testing.T) {
	e := start(t, harness.Nodes(6))
	e.Timing.Straggler = machine.Slow(2 * time.Second)
	e.dirty("n2", "n3")
	e.Run()
	e.Apply(harness.Manifest("  nodes: {minReady: 4}" + harness.DevicePool))
	e.WaitPhase(v1alpha1.PhaseDegraded)
	h := e.nodesHeld(v1alpha1.HoldDeviceNotEmpty, "n2", "n3")
	contains(e, succeeds(e, "resume", "skip@n3", "--yes"), "1 node of the hold: n3",
		"Hold "+h.ID+" has ended for n3.")
	e.nodesHeld(v1alpha1.HoldDeviceNotEmpty, "n2")
	contains(e, succeeds(e, "status"), "Hold "+h.ID, "Affects pool ssd on 1 node (n2).")
}

// TestPluginEvacuate lets a node leave, as the documentation says, and its data moves.
func TestPluginEvacuate(t *testing.T) {
	e := installed(t, 4, harness.ThinPool)
	volume(e, "pvc-1", "n1", "n2")
	if code, _, said := plugin(e, "evacuate", "n1", "--yes"); code != exit.Failed ||
		!strings.Contains(said, "is not drained") {
		t.Errorf("code %d: %s", code, said)
	}
	e.Cordon("n1", true)
	contains(e, succeeds(e, "evacuate", "n1", "--yes"), "to Evacuate", "The evacuation of node n1 starts")
	left(e, "n1")
	if got := diskful(e, "pvc-1"); len(got) != 2 {
		t.Errorf("pvc-1 is on %v", got)
	}
}

// TestPluginBackup asks for a backup and finds it where the plugin says.
func TestPluginBackup(t *testing.T) {
	e := backupEnv{start(t, harness.Nodes(3))}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool + "  backup:\n" + harness.BackupStore(&e.Administrator)))
	e.WaitPhase(v1alpha1.PhaseReady)
	said := succeeds(e.env, "backup", "--name", "before-the-move", "--timeout", harness.Patience().String())
	contains(e.env, said, "manual-before-the-move, taken at ", "s3://")
	all, err := harness.Backups(&e.Administrator)
	if err != nil || len(all) != 1 || !strings.Contains(said,
		all[0].Export.Taken.UTC().Format("20060102T150405Z")+"-"+string(all[0].ID)+".json.gz") {
		t.Errorf("%v: %+v", err, all)
	}
	if code, _, said := plugin(e.env, "backup", "--name", "before-the-move"); code != exit.Failed ||
		!strings.Contains(said, "has already been taken") {
		t.Errorf("code %d: %s", code, said)
	}
	contains(e.env, succeeds(e.env, "backup", "list"), "Backups are stored in s3://", "Last: manual-before-the-move")
}

// TestPluginReport: what a report holds, and that nothing of the Secrets is in it, wherever it was written.
func TestPluginReport(t *testing.T) {
	e := start(t, harness.Nodes(3))
	passphrase, leaked := "CaNaRy-passphrase-8c2f", "CaNaRy-leaked-91d0"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "pass"},
		StringData: map[string]string{"MASTER_PASSPHRASE": passphrase}}
	if err := e.Client().Create(e.Ctx, secret); err != nil {
		t.Fatal(err)
	}
	e.Run()
	e.Apply(harness.Manifest("  tls: {mode: Managed}\n  controller: {passphraseSecret: pass}" + harness.ThinPool))
	e.WaitPhase(v1alpha1.PhaseReady)
	about := corev1.ObjectReference{Kind: "Pod", Namespace: v1alpha1.WorkloadNamespace, Name: "linstor-controller"}
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: "leak"},
		InvolvedObject: about, Type: corev1.EventTypeWarning, Reason: "Refused",
		Message: "jdbc:postgresql://db/linstor?user=linstor&password=" + leaked}
	if err := e.Client().Create(e.Ctx, event); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.tar.gz")
	contains(e, succeeds(e, "report", "--file", path), "README.txt")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := plugintest.Unpack(t, data)
	for _, name := range []string{"storagecluster.yaml", "crd.yaml", "nodes.yaml", "versions.txt", "status.txt",
		"events-default.txt", "events-linstor-storage.txt", "linstor-storage/pods.yaml", "linstor-storage/daemonsets.yaml",
		"linstor-storage/deployments.yaml", "linstor-storage/configmaps.yaml", "linstor-operator/deployments.yaml",
		"README.txt"} {
		if len(files[name]) < 20 {
			t.Errorf("%s: %q", name, files[name])
		}
	}
	t.Log(files["README.txt"])
	contains(e, files["events-linstor-storage.txt"], "Refused", "user=linstor")
	secrets := secretWords(e)
	secrets["passphrase"], secrets["leaked"] = passphrase, leaked
	if len(secrets) < 10 {
		t.Errorf("only %d secrets to look for", len(secrets))
	}
	for name, text := range files {
		for what, word := range secrets {
			if strings.Contains(text, word) {
				t.Errorf("%s has %s", name, what)
			}
		}
		if strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("%s has a private key", name)
		}
	}
}

// secretWords are beginnings of what the Secrets hold, without what is public.
func secretWords(e *env) map[string]string {
	e.T.Helper()
	var list corev1.SecretList
	if err := e.Client().List(e.Ctx, &list); err != nil {
		e.T.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		s := &list.Items[i]
		for key, value := range s.Data {
			if strings.HasSuffix(key, ".crt") || strings.HasPrefix(key, "made.") || len(value) < 12 {
				continue
			}
			word := string(value)
			if _, after, pem := strings.Cut(word, "PRIVATE KEY-----\n"); pem {
				word = after
			}
			out[s.Name+"/"+key] = word[:min(len(word), 40)]
		}
	}
	return out
}
