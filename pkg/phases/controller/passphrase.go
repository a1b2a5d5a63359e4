package controller

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// passphraseRounds makes guessing a passphrase from the claim slow.
const passphraseRounds = 100_000

// PassphraseHold is the hold for a passphrase that is missing, or not the one that the cluster was set up with.
// LINSTOR exits at start on a wrong one, and encrypted volumes cannot be opened without the right one; so it is
// checked before any pod is started with it.
func PassphraseHold(s *cluster.Facts) *cluster.HoldRequest {
	name := s.Target.Spec.Controller.PassphraseSecret
	claim, _ := s.Claim()
	path, unusable := v1alpha1.WorkloadNamespace+"/"+name, v1alpha1.HoldPassphraseUnusable
	switch secret := s.Kube.Secrets[name]; {
	case name == "" && claim.PassphraseCheck != "":
		return cluster.Request(unusable, "spec.controller.passphraseSecret is empty, but this cluster was set up with a "+
			"passphrase: set it to the name of the Secret that contains the passphrase")
	case name == "":
		return nil
	case secret == nil || len(secret.Data[resources.PassphraseKey]) == 0:
		return cluster.Request(unusable, "spec.controller.passphraseSecret: Secret %s does not exist or has no %s key",
			path, resources.PassphraseKey)
	case s.PassphraseDiffers:
		return cluster.Request(unusable, "Secret %s does not contain the passphrase that this cluster was set up with: "+
			"restore the original passphrase; changing the Secret does not change LINSTOR's passphrase", path)
	default:
		return nil
	}
}

// recordPassphrase keeps a salted check value of the passphrase in the claim, once LINSTOR has unlocked with it: one
// that LINSTOR would refuse, for a line break at its end perhaps, must not be taken for the right one.
func recordPassphrase(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	name := s.Target.Spec.Controller.PassphraseSecret
	claim, claimed := s.Claim()
	if !claimed || name == "" || claim.PassphraseCheck != "" || !startedWithPassphrase(&s.Facts, name) {
		return nil
	}
	if state, err := in.API.Passphrase(ctx); err != nil || state != linstor.PassphraseUnlocked {
		return nil //nolint:nilerr // it is looked at again; until then nothing is known of the passphrase
	}
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return fmt.Errorf("create the salt for the passphrase check: %w", err)
	}
	var err error
	passphrase := s.Kube.Secrets[name].Data[resources.PassphraseKey]
	if claim.PassphraseCheck, err = passphraseCheck(salt, passphrase); err != nil {
		return err
	}
	return in.ApplyClaim(ctx, claim)
}

// clockSkew bounds how far the clocks of a node and of the API server are taken to differ.
const clockSkew = 30 * time.Second

// startedWithPassphrase reports whether the controller that answers was started with the Secret as it is: its pod is
// of the present template, and the Secret was not written since. A ready pod has the Lease.
func startedWithPassphrase(s *cluster.Facts, secret string) bool {
	current, older := livePods(s)
	if !s.Linstor.Known() || len(current) != 1 || !cluster.PodReady(current[0]) ||
		slices.ContainsFunc(older, cluster.PodReady) {
		return false
	}
	written := lastWritten(s.Kube.Secrets[secret])
	if !current[0].CreationTimestamp.Time.Before(written) {
		return true // both times are the API server's
	}
	for _, c := range current[0].Status.ContainerStatuses {
		if c.Name == resources.ControllerContainer && c.State.Running != nil {
			return c.State.Running.StartedAt.After(written.Add(clockSkew))
		}
	}
	return false
}

// lastWritten is when anything of the Secret was written last, as its managed fields say: a value that was edited
// after the controller had started is one that LINSTOR has never seen.
func lastWritten(secret *corev1.Secret) time.Time {
	last := secret.CreationTimestamp.Time
	for _, m := range secret.ManagedFields {
		if m.Time != nil && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	return last
}

func passphraseCheck(salt, passphrase []byte) (string, error) {
	key, err := pbkdf2.Key(sha256.New, string(passphrase), salt, passphraseRounds, 32)
	if err != nil {
		return "", fmt.Errorf("derive the passphrase check: %w", err)
	}
	return hex.EncodeToString(salt) + ":" + hex.EncodeToString(key), nil
}

// PassphraseMemory keeps the last comparison of a passphrase with the claim's check: deriving is slow on purpose, and
// both stay the same for months. It is for one goroutine at a time.
type PassphraseMemory struct {
	check      string
	passphrase [sha256.Size]byte
	fits       bool
}

// Differs reports whether the Secret that the accepted spec names has another passphrase than the cluster was set up
// with. It is false while there is nothing to compare.
func (m *PassphraseMemory) Differs(f *cluster.Facts) bool {
	if f.Target == nil {
		return false
	}
	claim, _ := f.Claim()
	secret := f.Kube.Secrets[f.Target.Spec.Controller.PassphraseSecret]
	if claim.PassphraseCheck == "" || secret == nil || len(secret.Data[resources.PassphraseKey]) == 0 {
		return false
	}
	passphrase := secret.Data[resources.PassphraseKey]
	if sum := sha256.Sum256(passphrase); claim.PassphraseCheck != m.check || sum != m.passphrase {
		m.check, m.passphrase, m.fits = claim.PassphraseCheck, sum, derivesTo(claim.PassphraseCheck, passphrase)
	}
	return !m.fits
}

func derivesTo(check string, passphrase []byte) bool {
	saltText, _, _ := strings.Cut(check, ":")
	salt, err := hex.DecodeString(saltText)
	if err != nil {
		return false
	}
	got, err := passphraseCheck(salt, passphrase)
	return err == nil && hmac.Equal([]byte(got), []byte(check))
}
