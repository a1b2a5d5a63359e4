// Package backupspec is the section spec.backup of a StorageCluster, and what the status says of backups.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package backupspec

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BackupSpec says where backups of LINSTOR's database go, and when they are taken.
//
// +kubebuilder:validation:XValidation:rule="has(self.s3) != has(self.claim)",message="backup: give exactly one place for backups, s3 or claim"
type BackupSpec struct {
	// s3 is a directory in a bucket of an S3 service. The operator makes no bucket. Default: none. Example:
	// {endpoint: "https://s3.example.com", bucket: backups, credentialsSecret: linstor-backup-s3}.
	// +optional
	S3 *S3Spec `json:"s3,omitempty"`
	// claim is a directory in the volume of a PersistentVolumeClaim in linstor-storage, in place of s3. The volume must not be of
	// LINSTOR, and better not of this Kubernetes cluster. Default: none. Example: {name: linstor-backups}.
	// +optional
	Claim *ClaimSpec `json:"claim,omitempty"`
	// schedule is when backups are taken, as a CronJob's: minute, hour, day and number of the month, day of the week. The first one is
	// taken at once. One that was missed is taken once, as soon as it can be. Default: none: on request only. Example: "0 */6 * * *".
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[0-9A-Za-z*,/?-]+( [0-9A-Za-z*,/?-]+){4}$')",message="schedule must have five fields: minute, hour, day of the month, month and day of the week, such as 0 */6 * * *"
	Schedule string `json:"schedule,omitempty"`
	// timeZone is the schedule's time zone, by its name in the IANA database. A time that a change of clocks leaves out is left out.
	// Default: UTC. Example: Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$') && self != 'Local'",message="timeZone must be the name of a time zone, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
	// keep is how many backups of the schedule stay, and how many from before upgrades, from 1 to 1000. Older ones are removed after one
	// was taken. Those that were taken on request stay until somebody removes them. Default: 28. Example: 60.
	// +optional
	// +kubebuilder:default=28
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Keep int32 `json:"keep,omitempty"`
	// verify is what each backup must pass before it is kept. Parse: it is read to its end, and again from the store. RestoreTest: before
	// that, LINSTOR's own program restores it into an empty database in the backup's pod and exports that again, and both must hold the
	// same rows; LINSTOR 1.35.1 or newer does. Default: Parse. Example: RestoreTest.
	// +optional
	// +kubebuilder:default=Parse
	Verify Verification `json:"verify,omitempty"`
}

// Verification is what a backup must pass before it is kept.
//
// +kubebuilder:validation:Enum=Parse;RestoreTest
type Verification string

const (
	// VerifyParse is that it is read to its end, and again from the store.
	VerifyParse Verification = "Parse"
	// VerifyRestoreTest is that LINSTOR's own program restores it, too.
	VerifyRestoreTest Verification = "RestoreTest"
)

// S3Spec is a directory in a bucket of an S3 service.
type S3Spec struct {
	// endpoint is the URL of the service, without a path. Default: none. Example: https://s3.eu-central-1.amazonaws.com.
	// +kubebuilder:validation:MaxLength=261
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?$')",message="endpoint must be a URL of the form https://host[:port], such as https://s3.eu-central-1.amazonaws.com"
	Endpoint string `json:"endpoint"`
	// region is the bucket's region. Default: us-east-1, which services other than AWS mostly take. Example: eu-central-1.
	// +optional
	// +kubebuilder:default=us-east-1
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9-]+$`
	Region string `json:"region,omitempty"`
	// bucket is the bucket's name. It must be there. Default: none. Example: backups.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`
	Bucket string `json:"bucket"`
	// prefix is the directory in which each cluster has one of its own, named by LINSTOR's Cluster/LocalID. Default: the bucket itself.
	// Example: linstor/production.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*$')",message="prefix must be a path of letters, digits, '.', '_', '=' and '-', without '/' at its ends, such as linstor/production"
	Prefix string `json:"prefix,omitempty"`
	// credentialsSecret is a Secret in linstor-storage with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and where they are
	// needed AWS_SESSION_TOKEN and ca.crt, the certificate of who signed that of the service. Default: none. Example: linstor-backup-s3.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	CredentialsSecret string `json:"credentialsSecret"`
}

// ClaimSpec is a directory in the volume of a PersistentVolumeClaim.
type ClaimSpec struct {
	// name is the PersistentVolumeClaim's, in linstor-storage. The operator makes none. Default: none. Example: linstor-backups.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
	// prefix is the directory in which each cluster has one of its own, named by LINSTOR's Cluster/LocalID. Default: the volume itself.
	// Example: linstor/production.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*$')",message="prefix must be a path of letters, digits, '.', '_', '=' and '-', without '/' at its ends, such as linstor/production"
	Prefix string `json:"prefix,omitempty"`
}

// BackupStatus is what came of backups. What there is in the store is not listed here.
type BackupStatus struct {
	// requested is the annotation storage.linstor.dev/backup whose backup was taken last.
	// +optional
	Requested string `json:"requested,omitempty"`
	// request is the annotation storage.linstor.dev/backup while its backup was not taken.
	// +optional
	Request *Request `json:"request,omitempty"`
	// scheduled is when the last backup of the schedule was begun.
	// +optional
	Scheduled *metav1.Time `json:"scheduled,omitempty"`
	// upgrade is the backup that was taken before the change of LINSTOR's version that is pending.
	// +optional
	Upgrade string `json:"upgrade,omitempty"`
	// place is a fingerprint of where these backups are, and of which database they are.
	// +optional
	Place string `json:"place,omitempty"`
	// next is when the schedule asks for the next one.
	// +optional
	Next *metav1.Time `json:"next,omitempty"`
	// last is the backup that was taken last.
	// +optional
	Last *Backup `json:"last,omitempty"`
	// current is the one that is being taken, or that could not be taken and is tried again.
	// +optional
	Current *CurrentBackup `json:"current,omitempty"`
	// comparison is that of a backup with what lies on the nodes, as the annotation storage.linstor.dev/compare-backup or
	// storage.linstor.dev/restore asks for it.
	// +optional
	Comparison *Comparison `json:"comparison,omitempty"`
}

// Request is a backup that was asked for.
type Request struct {
	// name is what was asked for.
	Name string `json:"name"`
	// linstor is the version that LINSTOR had when it was first seen: a backup of another version is not what was asked for.
	Linstor string `json:"linstor"`
	// refused says why it is not taken any more; absent while it is to be taken. Ask for another one, with another name.
	// +optional
	Refused string `json:"refused,omitempty"`
}

// Comparison is a comparison of a backup with what lies on the nodes: what LINSTOR would make anew, empty, or cut, if it ran on that
// backup. It goes when the annotation does, or when the restore has ended that it is for.
type Comparison struct {
	// backup is the backup's ID.
	Backup string `json:"backup"`
	// since is when the comparison was begun: no node has listed what lies on it earlier.
	Since metav1.Time `json:"since"`
	// stopped reports whether the comparison is for a restore, and LINSTOR does not run meanwhile.
	// +optional
	Stopped bool `json:"stopped,omitempty"`
	// pod is the one that compares, whose log has every difference. No two comparisons have the same. It is absent while the comparison is
	// put off.
	// +optional
	Pod string `json:"pod,omitempty"`
	// ended is when it was made, or failed; absent while it goes on.
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`
	// taken is when the backup was taken.
	// +optional
	Taken *metav1.Time `json:"taken,omitempty"`
	// linstor is the version of LINSTOR that the backup was taken of.
	// +optional
	Linstor string `json:"linstor,omitempty"`
	// sha256 is the checksum of the backup, which tells it from others of its ID.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
	// digest is another one for other differences; absent without any.
	// +optional
	Digest string `json:"digest,omitempty"`
	// nodes is how many nodes were looked into.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// addresses are those that the backup has for one node, and another machine has now. No satellite runs on such a machine when LINSTOR
	// is started on the backup: LINSTOR would take it for the node.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Addresses []TakenAddress `json:"addresses,omitempty"`
	// differences counts what was found, by kind: AddressTaken, Doomed, Absent, Stray, InUse, Larger, Smaller, SnapshotAbsent, Unseen and Unknown.
	// +optional
	Differences map[string]int32 `json:"differences,omitempty"`
	// worst are the first ten differences.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	Worst []string `json:"worst,omitempty"`
	// message says what came of it.
	// +optional
	Message string `json:"message,omitempty"`
}

// TakenAddress is an address that a backup has for one node, and another machine has now.
type TakenAddress struct {
	// address is the address.
	Address string `json:"address"`
	// node is the LINSTOR node that the backup has it for.
	Node string `json:"node"`
	// machine is the Node that has it now.
	Machine string `json:"machine"`
}

// Backup is a backup that was taken, and read back from the store.
type Backup struct {
	// id names it: scheduled- and the time, manual- and what was asked for, or upgrade-, the two versions and the time.
	ID string `json:"id"`
	// taken is when LINSTOR exported its database.
	Taken metav1.Time `json:"taken"`
	// linstor is the version of LINSTOR that did. An older one does not read it.
	Linstor string `json:"linstor"`
	// resourceDefinitions is how many volumes LINSTOR had then.
	// +optional
	// +default=0
	ResourceDefinitions int32 `json:"resourceDefinitions"`
	// bytes is its size in the store.
	Bytes int64 `json:"bytes"`
	// verified is what it has passed.
	// +optional
	Verified Verification `json:"verified,omitempty"`
	// problem says what did not work although the backup was taken: older ones could not be removed.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// CurrentBackup is a backup that is being taken.
type CurrentBackup struct {
	// id names the backup. It keeps it when it is tried again, so that the store has it once.
	ID string `json:"id"`
	// since is when it was begun.
	Since metav1.Time `json:"since"`
	// attempted is when the attempt that goes on was begun; absent while it waits for the next one. It is there before its pod.
	// +optional
	Attempted *metav1.Time `json:"attempted,omitempty"`
	// attempts is how often it failed.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// failed is when it failed last. The next attempt comes a minute later, and later each time, up to half an hour.
	// +optional
	Failed *metav1.Time `json:"failed,omitempty"`
	// message says why.
	// +optional
	Message string `json:"message,omitempty"`
	// pod is the one that failed last. It stays until the next attempt.
	// +optional
	Pod string `json:"pod,omitempty"`
}
