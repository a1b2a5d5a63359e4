package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// signingKey makes the Secret with the key of a certificate; without a certificate the Secret lacks that entry.
func (e *env) signingKey(certificate string) {
	e.T.Helper()
	entry := ""
	if certificate != "" {
		entry = fmt.Sprintf(", signing_key.x509: %q", certificate)
	}
	e.Apply(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: mok, namespace: %s}\nstringData: "+
		"{signing_key.pem: top-secret%s}\n",
		v1alpha1.WorkloadNamespace, entry))
}

// loadersHaveKey reports whether both loaders run with the Secret as it is now.
func (e *env) loadersHaveKey() error {
	var secret corev1.Secret
	if err := e.Client().Get(e.Ctx, client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: "mok"},
		&secret); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := e.Client().List(e.Ctx, &pods, client.InNamespace(v1alpha1.WorkloadNamespace),
		client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentModuleLoader}); err != nil {
		return err
	}
	current := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Annotations[resources.AnnotationSigningKeyVersion] == resources.SigningKeyVersion(&secret) &&
			p.Status.Phase == corev1.PodRunning {
			current++
		}
	}
	if current != 2 || len(pods.Items) != 2 {
		return fmt.Errorf("%d of %d loaders have the key", current, len(pods.Items))
	}
	return nil
}

func holdSigningKeyUnusable(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Run()
	e.Apply(harness.Manifest("  kernelModule: {signingKeySecret: mok}" + harness.ThinPool))
	h := e.held(v1alpha1.HoldSigningKeyUnusable, "spec.kernelModule.signingKeySecret", "Secret mok does not exist",
		"linstor-storage")
	h = e.retriedInVain(h)
	e.signingKey("")
	e.stays(h, "the Secret lacks a key")
	if got := daemonSets(e, v1alpha1.ComponentModuleLoader); len(got) > 0 {
		t.Errorf("loaders %v run without their key", got)
	}
	e.signingKey("ours")
	e.ended(h, fsm.Cleared)
	e.ready("2/2", "2/2")
}

// TestSecureBoot goes the way of an administrator: without a key, with one that is not enrolled, with the right one;
// and then changes it while the cluster runs.
func TestSecureBoot(t *testing.T) {
	e := start(t, harness.Nodes(2))
	e.Timing.HealthLost = machine.Slow(10 * time.Second) // with another key all loaders restart at once
	for _, n := range []string{"n1", "n2"} {
		e.Sim.Faults().SetSecureBoot(n, "ours")
	}
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	h := e.held(v1alpha1.HoldSecureBootKeyMissing, "Operation not permitted")

	e.signingKey("not enrolled")
	e.changedSpec(h, func(c *v1alpha1.StorageCluster) { c.Spec.KernelModule.SigningKeySecret = "mok" })
	e.Eventually("a hold about the other key", func() error {
		if now := e.Get().Status.Hold; now == nil || now.ID == h.ID || !strings.Contains(now.Message, "Key was rejected") {
			return fmt.Errorf("hold %+v", now)
		}
		return nil
	})
	h = e.held(v1alpha1.HoldSecureBootKeyMissing, "Key was rejected by service")

	e.signingKey("ours")
	e.Eventually("loaders with the right key", e.loadersHaveKey)
	e.answered(h, v1alpha1.OptionRetry)
	e.ready("2/2", "2/2")

	// Another key restarts the loaders; the loaded module stays, and so does the cluster.
	steps := len(e.Steps(e.Get()))
	e.signingKey("another")
	e.Eventually("loaders with the other key", e.loadersHaveKey)
	e.ready("2/2", "2/2")
	c := e.Get()
	if got := e.Sim.World().Machine("n1").ModuleVersion(); got == "" {
		t.Error("the module is gone")
	}
	for _, h := range e.Steps(c)[:len(e.Steps(c))-steps] {
		if h.To == v1alpha1.PhaseHumanIntervention || h.To == v1alpha1.PhaseDegraded {
			t.Errorf("%s → %s: %s", h.From, h.To, h.Message)
		}
	}
	text := fmt.Sprintf("%+v", c.Status)
	if strings.Contains(text, "top-secret") {
		t.Error("the status holds the key")
	}
}
