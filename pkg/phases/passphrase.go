package phases

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// PassphraseKey is the key of the passphrase in its Secret. LINSTOR reads the environment variable of that name.
const PassphraseKey = "MASTER_PASSPHRASE"

// passphraseRounds makes guessing a passphrase from the claim slow.
const passphraseRounds = 100_000

// passphraseHold is the hold for a passphrase that is missing, or not the one that the cluster was set up with. LINSTOR
// exits at start on a wrong one, and encrypted volumes cannot be opened without the right one; so it is checked before any
// pod is started with it.
func (s *Snapshot) passphraseHold() *HoldRequest {
	name := s.Target.Spec.Controller.PassphraseSecret
	claim, claimed, _ := s.Claim()
	if name == "" {
		if claimed && claim.PassphraseCheck != "" {
			return passphraseTrouble("spec.controller.passphraseSecret is empty, but this cluster was set up with a passphrase: name the Secret again")
		}
		return nil
	}
	path := v1alpha1.WorkloadNamespace + "/" + name
	secret := s.Kube.Secrets[name]
	if secret == nil || len(secret.Data[PassphraseKey]) == 0 {
		return passphraseTrouble(fmt.Sprintf("spec.controller.passphraseSecret: Secret %s with key %s does not exist", path, PassphraseKey))
	}
	if claimed && claim.PassphraseCheck != "" && !passphraseFits(claim.PassphraseCheck, secret.Data[PassphraseKey]) {
		return passphraseTrouble(fmt.Sprintf(
			"Secret %s holds another passphrase than the one this cluster was set up with: put the old one back; LINSTOR's passphrase is not changed by changing the Secret", path))
	}
	return nil
}

func passphraseTrouble(message string) *HoldRequest {
	return &HoldRequest{Reason: v1alpha1.HoldPassphraseUnusable, Message: message}
}

// recordPassphrase keeps a salted check value of the passphrase in the claim, once LINSTOR runs with it: one that LINSTOR
// refused must not be taken for the right one.
func (in *Input) recordPassphrase(ctx context.Context) error {
	name := in.Target.Spec.Controller.PassphraseSecret
	claim, claimed, err := in.Claim()
	if err != nil || !claimed || name == "" || claim.PassphraseCheck != "" || !in.Linstor.Known() {
		return err
	}
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return fmt.Errorf("salt for the passphrase check: %w", err)
	}
	claim.PassphraseCheck, err = passphraseCheck(salt, in.Kube.Secrets[name].Data[PassphraseKey])
	if err != nil {
		return err
	}
	return in.applyClaim(ctx, claim)
}

func passphraseCheck(salt, passphrase []byte) (string, error) {
	key, err := pbkdf2.Key(sha256.New, string(passphrase), salt, passphraseRounds, 32)
	if err != nil {
		return "", fmt.Errorf("derive the passphrase check: %w", err)
	}
	return hex.EncodeToString(salt) + ":" + hex.EncodeToString(key), nil
}

// compared is the last comparison of a check with a passphrase. Deriving is slow on purpose, and every reconcile compares the
// same two several times.
var compared struct {
	sync.Mutex
	check      string
	passphrase [sha256.Size]byte
	fits       bool
}

func passphraseFits(check string, passphrase []byte) bool {
	compared.Lock()
	defer compared.Unlock()
	if sum := sha256.Sum256(passphrase); check != compared.check || sum != compared.passphrase {
		compared.check, compared.passphrase, compared.fits = check, sum, derivesTo(check, passphrase)
	}
	return compared.fits
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
