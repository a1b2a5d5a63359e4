package resources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// ClaimData says whose database this is. It outlives the StorageCluster: with the policy Retain as it is, so that a
// later one knows its own data from another LINSTOR's; with Delete as nobody's, but with the version that the database
// is of: a later cluster would start an older LINSTOR on it otherwise, which does not notice that before LINSTOR 1.35
// (DbK8sCrd, DbMigrater).
type ClaimData struct {
	// Backend is the database's URL without credentials.
	Backend string
	// LocalID is LINSTOR's property Cluster/LocalID; empty until the controller has answered for the first time.
	LocalID string
	// Version is the LINSTOR version that the database was last started with: a database is never moved to another
	// version by accident, because LINSTOR's migrations have no way back. Empty until the first start.
	Version string
	// UpgradeTo is the version that the database is being moved to. It is written before the new controller is started:
	// from then on no older one may touch the database. Empty when no upgrade is past that point.
	UpgradeTo string
	// UpgradeSince is when that was, in RFC 3339: a backup that is older is another upgrade's.
	UpgradeSince string
	// BackupRead names the backup of the upgrade that was read back, or says why there is none. Until it is there,
	// satellites stay as they are.
	BackupRead string
	// BackupConfirmed is the upgrade, as from>to, before which a human has seen to a backup.
	BackupConfirmed string
	// SkippedChecks is the step of an upgrade, as from>to:step, whose checks a human has waived.
	SkippedChecks string
	// Adopted reports whether a human said that data which was there already may be taken over.
	Adopted bool
	// PassphraseCheck distinguishes the cluster's passphrase from another without holding it; empty without a passphrase.
	PassphraseCheck string
	// RemoveUnverified reports whether a human said that a deletion may go on although it is not known whether volumes
	// exist.
	RemoveUnverified bool
	// ReleasedBy is the UID of the StorageCluster that was deleted with the policy Delete: what the database has left is
	// nobody's. Besides it, only Backend and Version are kept. Empty while the database is in use or retained.
	ReleasedBy string
}

// Release is what is left of the claim when its cluster is deleted with the policy Delete.
func (c *ClaimData) Release(cluster types.UID) ClaimData {
	return ClaimData{Backend: c.Backend, Version: cmp.Or(c.UpgradeTo, c.Version), ReleasedBy: string(cluster)}
}

// Claim is the ConfigMap that keeps the data. Every key is written, the empty ones too: an apply takes away only keys
// that nobody else has set, and what a restored backup has put there, as an upgrade under way, would stay.
func Claim(cluster string, c ClaimData) *corev1.ConfigMap {
	data := map[string]string{}
	for key, field := range c.texts() {
		data[key] = *field
	}
	for key, field := range c.flags() {
		data[key] = strconv.FormatBool(*field)
	}
	return configMap(cluster, v1alpha1.ComponentClaim, ClaimName, data)
}

// texts are the fields that are texts, by their keys in the ConfigMap.
func (c *ClaimData) texts() map[string]*string {
	return map[string]*string{
		"backend": &c.Backend, "localID": &c.LocalID, "version": &c.Version, "passphraseCheck": &c.PassphraseCheck,
		"upgradeTo": &c.UpgradeTo, "upgradeSince": &c.UpgradeSince, "backupRead": &c.BackupRead,
		"backupConfirmed": &c.BackupConfirmed, "skippedChecks": &c.SkippedChecks, "releasedBy": &c.ReleasedBy,
	}
}

// flags are the fields that are true or false, by key.
func (c *ClaimData) flags() map[string]*bool {
	return map[string]*bool{"adopted": &c.Adopted, "removeUnverified": &c.RemoveUnverified}
}

// ClaimFrom reads a claim back. A claim that cannot be read is an error, never an empty claim: an empty one would let
// a database be taken over that is not ours.
func ClaimFrom(cm *corev1.ConfigMap) (ClaimData, error) {
	var c ClaimData
	for key, field := range c.texts() {
		*field = cm.Data[key]
	}
	if c.Backend == "" {
		return ClaimData{}, fmt.Errorf("read ConfigMap %s: key backend is missing", cm.Name)
	}
	for key, field := range c.flags() {
		text, ok := cm.Data[key]
		if !ok {
			continue
		}
		v, err := strconv.ParseBool(text)
		if err != nil {
			return ClaimData{}, fmt.Errorf("read ConfigMap %s, key %s: %w", cm.Name, key, err)
		}
		*field = v
	}
	return c, nil
}

// Revision keeps an accepted spec, so that work in progress is finished on the spec that it began with. Its name is
// made from the spec, so that equal specs share one; number orders them, and the API server lets only the number be
// changed.
func Revision(cluster string, number int64, spec *v1alpha1.StorageClusterSpec) *appsv1.ControllerRevision {
	data, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("encode spec: %v", err)) // it came from JSON
	}
	return &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: objectMeta("linstor-"+text.Digest(spec), cluster, v1alpha1.ComponentRevision),
		Data:       runtime.RawExtension{Raw: data},
		Revision:   number,
	}
}

// SpecFromRevision is the spec that a ControllerRevision keeps. Fields that this operator does not know are dropped:
// they come from a newer one.
func SpecFromRevision(r *appsv1.ControllerRevision) (*v1alpha1.StorageClusterSpec, error) {
	if len(r.Data.Raw) == 0 {
		return nil, fmt.Errorf("read ControllerRevision %s: it holds no data", r.Name)
	}
	spec := &v1alpha1.StorageClusterSpec{}
	if err := json.Unmarshal(r.Data.Raw, spec); err != nil {
		return nil, fmt.Errorf("read ControllerRevision %s: %w", r.Name, err)
	}
	return spec, nil
}
