// Package backupspec defines spec.backup and status.backup of a StorageCluster.
//
// +kubebuilder:object:generate=true
// +groupName=storage.linstor.dev
// +versionName=v1alpha1
package backupspec

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BackupSpec sets when backups of LINSTOR's database are taken and where they are stored.
//
// +kubebuilder:validation:XValidation:rule="has(self.s3) != has(self.claim)",message="backup: set exactly one of s3 and claim"
type BackupSpec struct {
	// s3 stores backups in an existing S3 bucket. Not used by default.
	// Example: {endpoint: "https://s3.example.com", bucket: backups, credentialsSecret: linstor-backup-s3}.
	// +optional
	S3 *S3Spec `json:"s3,omitempty"`
	// claim stores backups in the volume of an existing PersistentVolumeClaim in linstor-storage, instead of s3. The
	// volume must not be a LINSTOR volume, and should be outside this Kubernetes cluster. Not used by default.
	// Example: {name: linstor-backups}.
	// +optional
	Claim *ClaimSpec `json:"claim,omitempty"`
	// schedule is when backups are taken, in cron format, with five fields: minute, hour, day, month and weekday. The
	// first backup is taken immediately. If backups were missed, one is taken as soon as possible. By default, backups
	// are taken only on request. Example: "0 */6 * * *".
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[0-9A-Za-z*,/?-]+( [0-9A-Za-z*,/?-]+){4}$')",message="schedule must have five fields: minute, hour, day of the month, month and day of the week, such as 0 */6 * * *"
	Schedule string `json:"schedule,omitempty"`
	// timeZone is the schedule's time zone, as an IANA name. Scheduled times skipped by a clock change are ignored.
	// Defaults to UTC. Example: Europe/Berlin.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$') && self != 'Local'",message="timeZone must be an IANA time zone name, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
	// keep is the number of scheduled backups to keep, from 1 to 1000. The same number of pre-upgrade backups is kept in
	// addition. Older backups are deleted after a new backup has been taken. Backups taken on request are kept until you
	// delete them. Defaults to 28. Example: 60.
	// +optional
	// +kubebuilder:default=28
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Keep int32 `json:"keep,omitempty"`
	// verify is the check that every backup must pass. Defaults to Parse. Example: RestoreTest. Values:
	// - Parse: the export is read completely, and the stored backup is read back and compared.
	// - RestoreTest: in addition, LINSTOR's own tool first restores the export to an empty database in the backup pod and
	//   exports it again; the two exports must contain the same rows. Requires LINSTOR 1.35.1 or newer.
	// +optional
	// +kubebuilder:default=Parse
	Verify Verification `json:"verify,omitempty"`
}

// Verification is the check that every backup must pass.
//
// +kubebuilder:validation:Enum=Parse;RestoreTest
type Verification string

const (
	// VerifyParse means that the export is read completely, and the stored backup is read back and compared.
	VerifyParse Verification = "Parse"
	// VerifyRestoreTest means that LINSTOR's own tool also restores the backup.
	VerifyRestoreTest Verification = "RestoreTest"
)

// S3Spec sets where backups are stored in an S3 bucket.
type S3Spec struct {
	// endpoint is the URL of the S3 service, without a path. Required, no default.
	// Example: https://s3.eu-central-1.amazonaws.com.
	// +kubebuilder:validation:MaxLength=261
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?$')",message="endpoint must be a URL of the form https://host[:port], such as https://s3.eu-central-1.amazonaws.com"
	Endpoint string `json:"endpoint"`
	// region is the region of the bucket. Defaults to us-east-1, which most services other than AWS accept.
	// Example: eu-central-1.
	// +optional
	// +kubebuilder:default=us-east-1
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9-]+$`
	Region string `json:"region,omitempty"`
	// bucket is the name of an existing bucket. Required, no default. Example: backups.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`
	Bucket string `json:"bucket"`
	// prefix is the parent directory of the backups. Each cluster has a subdirectory named after its Cluster/LocalID.
	// Defaults to the root of the bucket. Example: linstor/production.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*$')",message="prefix must be a path of letters, digits, '.', '_', '=' and '-', without a leading or trailing '/', such as linstor/production"
	Prefix string `json:"prefix,omitempty"`
	// credentialsSecret names a Secret in linstor-storage with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY and,
	// if needed, AWS_SESSION_TOKEN and ca.crt, the CA certificate of the S3 service. Required, no default.
	// Example: linstor-backup-s3.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	CredentialsSecret string `json:"credentialsSecret"`
}

// ClaimSpec sets where backups are stored in the volume of a PersistentVolumeClaim.
type ClaimSpec struct {
	// name is the name of an existing PersistentVolumeClaim in linstor-storage. Required, no default.
	// Example: linstor-backups.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
	// prefix is the parent directory of the backups. Each cluster has a subdirectory named after its Cluster/LocalID.
	// Defaults to the root of the volume. Example: linstor/production.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.matches('^[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*$')",message="prefix must be a path of letters, digits, '.', '_', '=' and '-', without a leading or trailing '/', such as linstor/production"
	Prefix string `json:"prefix,omitempty"`
}

// BackupStatus is the observed state of the backups. It does not list all backups in the store.
type BackupStatus struct {
	// requested is the latest value of the storage.linstor.dev/backup annotation for which a backup has been taken.
	// +optional
	Requested string `json:"requested,omitempty"`
	// request is the backup requested by the storage.linstor.dev/backup annotation, until it has been taken.
	// +optional
	Request *Request `json:"request,omitempty"`
	// scheduled is when the most recent scheduled backup was started.
	// +optional
	Scheduled *metav1.Time `json:"scheduled,omitempty"`
	// upgrade is the ID of the backup taken before the pending LINSTOR version change.
	// +optional
	Upgrade string `json:"upgrade,omitempty"`
	// place is a fingerprint of the backup store and of the database that is backed up.
	// +optional
	Place string `json:"place,omitempty"`
	// next is the time of the next scheduled backup.
	// +optional
	Next *metav1.Time `json:"next,omitempty"`
	// last is the most recent backup.
	// +optional
	Last *Backup `json:"last,omitempty"`
	// current is the backup that is being taken, or that failed and will be retried.
	// +optional
	Current *CurrentBackup `json:"current,omitempty"`
	// comparison compares a backup with the volumes on the nodes, as requested by the storage.linstor.dev/compare-backup
	// or storage.linstor.dev/restore annotation.
	// +optional
	Comparison *Comparison `json:"comparison,omitempty"`
}

// Request is a request for a backup.
type Request struct {
	// name is the requested name of the backup.
	Name string `json:"name"`
	// linstor is the LINSTOR version when the request was first seen. A backup taken with a different version does not
	// satisfy the request.
	Linstor string `json:"linstor"`
	// refused is why the backup will not be taken; absent while the request is pending. Use a different name next time.
	// +optional
	Refused string `json:"refused,omitempty"`
}

// Comparison is a comparison of a backup with the volumes on the nodes. It shows which volumes LINSTOR would recreate
// EMPTY or TRUNCATE if it were started with that backup. It is removed when the annotation is removed or the restore
// ends.
type Comparison struct {
	// backup is the ID of the backup.
	Backup string `json:"backup"`
	// since is when the comparison was started. The volume lists from the nodes are more recent.
	Since metav1.Time `json:"since"`
	// stopped is true if the comparison is part of a restore, for which LINSTOR has been stopped.
	// +optional
	Stopped bool `json:"stopped,omitempty"`
	// pod is the pod that runs the comparison. Its log lists every difference. Absent while the comparison is postponed.
	// +optional
	Pod string `json:"pod,omitempty"`
	// ended is when the comparison completed or failed; absent while it is in progress.
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`
	// taken is when the backup was taken.
	// +optional
	Taken *metav1.Time `json:"taken,omitempty"`
	// linstor is the LINSTOR version that the backup was taken with.
	// +optional
	Linstor string `json:"linstor,omitempty"`
	// sha256 is the checksum of the backup, which distinguishes it from other backups with the same ID.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
	// digest is a hash of the differences. Absent if there are none.
	// +optional
	Digest string `json:"digest,omitempty"`
	// nodes is the number of nodes that were inspected.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// addresses are IP addresses that a node has in the backup, but a different machine has now. When LINSTOR is started
	// with the backup, no satellite is started on such a machine, because LINSTOR would mistake it for the node.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	Addresses []TakenAddress `json:"addresses,omitempty"`
	// differences is the number of differences of each kind: AddressTaken, Doomed, Absent, Stray, InUse, Larger, Smaller,
	// SnapshotAbsent, Unseen and Unknown.
	// +optional
	Differences map[string]int32 `json:"differences,omitempty"`
	// worst lists the ten most serious differences.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	Worst []string `json:"worst,omitempty"`
	// message summarizes the result.
	// +optional
	Message string `json:"message,omitempty"`
}

// TakenAddress is an IP address that belongs to a node in a backup, but now to a different machine.
type TakenAddress struct {
	// address is the IP address.
	Address string `json:"address"`
	// node is the LINSTOR node that has the address in the backup.
	Node string `json:"node"`
	// machine is the Node that has the address now.
	Machine string `json:"machine"`
}

// Backup is a completed backup that was read back from the store.
type Backup struct {
	// id identifies the backup: scheduled-TIME, manual-NAME or upgrade-FROM-TO-TIME, where FROM and TO are LINSTOR
	// versions.
	ID string `json:"id"`
	// taken is when LINSTOR exported its database.
	Taken metav1.Time `json:"taken"`
	// linstor is the LINSTOR version that exported the database. Older versions cannot read the backup.
	Linstor string `json:"linstor"`
	// resourceDefinitions is the number of volumes that LINSTOR had at that time.
	// +optional
	// +default=0
	ResourceDefinitions int32 `json:"resourceDefinitions"`
	// bytes is the size of the backup in the store.
	Bytes int64 `json:"bytes"`
	// verified is the check that the backup has passed.
	// +optional
	Verified Verification `json:"verified,omitempty"`
	// problem is why older backups could not be deleted after this one had been taken.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// CurrentBackup is a backup that is being taken.
type CurrentBackup struct {
	// id identifies the backup. Retries use the same id, so that the backup is stored only once.
	ID string `json:"id"`
	// since is when the backup was started.
	Since metav1.Time `json:"since"`
	// attempted is when the current attempt was started; absent between attempts. It is set before the pod is created.
	// +optional
	Attempted *metav1.Time `json:"attempted,omitempty"`
	// attempts is the number of failed attempts.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// failed is when the last attempt failed. The next attempt follows after one minute; the delay increases with each
	// failure, up to 30 minutes.
	// +optional
	Failed *metav1.Time `json:"failed,omitempty"`
	// message is why the last attempt failed.
	// +optional
	Message string `json:"message,omitempty"`
	// pod is the pod of the last failed attempt. It is kept until the next attempt.
	// +optional
	Pod string `json:"pod,omitempty"`
}
