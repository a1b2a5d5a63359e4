package e2e

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	inroom "github.com/linstor-dev/storagecluster-operator/pkg/phases/certificates"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// forgetMode makes the claim one of an operator that remembered no mode of TLS.
func forgetMode(e *env) {
	e.T.Helper()
	e.Eventually("the claim remembers no mode", func() error {
		claim := e.claim()
		delete(claim.Data, "tlsMode")
		return e.Client().Update(e.Ctx, claim)
	})
}

// remembers waits until the claim remembers a mode of TLS.
func remembers(e *env, mode tlsspec.Mode) {
	e.T.Helper()
	e.Eventually("the claim remembers "+string(mode), func() error {
		if got := e.claim().Data["tlsMode"]; got != string(mode) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
}

// inMode wants what CertificatesValid says, and that satellites are locked, or all are open.
func inMode(e *env, mode tlsspec.Mode, words string) {
	e.T.Helper()
	want := inroom.ReasonNotWanted
	if mode == tlsspec.Managed {
		want = conditions.ReasonAsExpected
	}
	e.WaitStatus("the spec is looked at", func(s *v1alpha1.StorageClusterStatus) bool {
		return s.ObservedGeneration == e.Get().Generation
	})
	e.says(conditions.CertificatesValid, "True/"+want, words)
	remembers(e, mode)
	if err := harness.Encrypted(&e.Administrator, mode == tlsspec.Managed, 2); err != nil {
		e.T.Error(err)
	}
}

// stay wants that pods were not exchanged.
func stay(e *env, before map[types.UID]bool) {
	e.T.Helper()
	after := uidsOf(e)
	for uid := range before {
		if !after[uid] {
			e.T.Errorf("pod %s was exchanged", uid)
		}
	}
}

// TestOpenFromBefore: a cluster of a time at which clusters were open stays so under an operator that locks new ones,
// also when it is made anew on its claim, until its spec says Managed. Then no line that is taken out opens it.
func TestOpenFromBefore(t *testing.T) {
	const open = "spec.tls.mode is not set, so this existing cluster keeps running without TLS"
	e := start(t, harness.Nodes(2))
	e.Run()
	e.Apply(harness.Manifest(harness.ThinPool))
	inMode(e, tlsspec.Disabled, "spec.tls.mode is Disabled")
	e.StopOperator()
	before := uidsOf(e)
	forgetMode(e)
	e.Update(setTLS(""))
	e.Run()
	inMode(e, tlsspec.Disabled, open)
	stay(e, before)

	e.StopOperator()
	forgetMode(e)
	e.Run()
	e.Remove()
	e.WaitGone()
	forgetMode(e) // which the operator may have remembered before the deletion
	e.Apply(harness.Manifest(harness.NoMode + harness.ThinPool))
	inMode(e, tlsspec.Disabled, "to secure both, set spec.tls.mode to Managed")

	e.Update(setTLS(tlsspec.Managed))
	e.Eventually("satellites are locked", func() error { return harness.Encrypted(&e.Administrator, true, 2) })
	inMode(e, tlsspec.Managed, "all certificates are valid")
	before = uidsOf(e)
	e.Update(setTLS(""))
	inMode(e, tlsspec.Managed, "all certificates are valid")
	stay(e, before)
	e.Remove()
	e.WaitGone()
	e.Apply(harness.Manifest(harness.NoMode + harness.ThinPool))
	inMode(e, tlsspec.Managed, "all certificates are valid")
}
