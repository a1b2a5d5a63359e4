package v1alpha1

import "github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"

// DatabaseSpec is where LINSTOR keeps its state: exactly one of its fields, kubernetes if none is given.
//
// Another database than the one that LINSTOR uses is not taken up before a human has answered that LINSTOR's data shall
// be moved there. Leaving kubernetes out and giving it are the same.
//
// +kubebuilder:validation:XValidation:rule="[has(self.kubernetes), has(self.etcd), has(self.managedEtcd), has(self.postgresql), has(self.mariadb)].filter(x, x).size() <= 1",message="database takes at most one of kubernetes, etcd, managedEtcd, postgresql and mariadb: remove the others"
type DatabaseSpec struct {
	// kubernetes keeps LINSTOR's state in custom resources of the group internal.linstor.linbit.com, which LINSTOR's
	// controller installs itself. It needs nothing else. Default: used when no other database is given. Example: {}.
	// +optional
	Kubernetes *KubernetesDatabase `json:"kubernetes,omitempty"`
	// etcd is an existing etcd cluster. Only LINSTOR before 1.34 can use it, so spec.version must be given and older.
	// Default: not used. Example: {endpoints: ["http://etcd.example.com:2379"]}.
	// +optional
	Etcd *EtcdDatabase `json:"etcd,omitempty"`
	// managedEtcd is an etcd cluster that the operator runs on the nodes for LINSTOR alone: a bridge for those who stay with
	// LINSTOR before 1.34, which must be given in spec.version. It has no TLS. Default: not used. Example: {replicas: 3}.
	// +optional
	ManagedEtcd *etcdspec.ManagedEtcd `json:"managedEtcd,omitempty"`
	// postgresql is an existing PostgreSQL database. Default: not used.
	// Example: {host: db.example.com, credentialsSecret: linstor-db, sslMode: verify-full}.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.sslMode) || self.sslMode in ['', 'disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full']",message="sslMode must be one of PostgreSQL's modes: disable, allow, prefer, require, verify-ca, verify-full",fieldPath=.sslMode
	PostgreSQL *SQLDatabase `json:"postgresql,omitempty"`
	// mariadb is an existing MariaDB or MySQL database. LINSTOR also runs CREATE SCHEMA IF NOT EXISTS LINSTOR when it sets the
	// database up, so that its user needs GRANT CREATE ON LINSTOR.* besides all rights on the database. Default: not used.
	// Example: {host: db.example.com, credentialsSecret: linstor-db}.
	// +optional
	MariaDB *SQLDatabase `json:"mariadb,omitempty"`
}

// KubernetesDatabase has no settings.
type KubernetesDatabase struct{}

// EtcdDatabase is an existing etcd cluster.
type EtcdDatabase struct {
	// endpoints are the client URLs of one to nine members, all of one cluster; they may change with the cluster's members.
	// No default. Example: ["http://etcd-0.example.com:2379", "http://etcd-1.example.com:2379"].
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	Endpoints []EndpointURL `json:"endpoints"`
	// credentialsSecret names a Secret in linstor-storage with keys username and password. Default: no authentication.
	// Example: linstor-etcd.
	// +optional
	CredentialsSecret SecretName `json:"credentialsSecret,omitempty"`
}

// SQLDatabase is an existing SQL database. LINSTOR makes its schema in it.
type SQLDatabase struct {
	// host is the server's DNS name or IP address, without port and without brackets. Once the
	// cluster has claimed the database another host is another database. No default. Example: db.example.com.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f]*(:[0-9A-Fa-f.]*){2,8})$')",message="host must be a DNS name or an IP address without scheme, port or brackets, such as db.example.com"
	Host string `json:"host"`
	// port is the server's TCP port, 1 to 65535. Default: 5432 for PostgreSQL, 3306 for MariaDB. Example: 5433.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// database is the name of the database on the server, up to 63 characters. It cannot be changed: the other database
	// holds another state. Default: linstor. Example: linstor_prod.
	// +optional
	// +kubebuilder:default=linstor
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_-]*$')",message="database must be a plain name: letters, digits, '_' and '-', beginning with a letter or '_', such as linstor"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="database cannot be changed, because another database holds another state of LINSTOR: take the change back",reason=FieldValueForbidden
	Database string `json:"database,omitempty"`
	// credentialsSecret names a Secret in linstor-storage with keys username and password. No default. Example: linstor-db.
	// +kubebuilder:validation:MinLength=1
	CredentialsSecret SecretName `json:"credentialsSecret"`
	// sslMode is appended to the connection URL: PostgreSQL's sslmode or MariaDB's sslMode, one word.
	// Default: the driver's default. Example: verify-full.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_-]*$')",message="sslMode must be one word, such as verify-full"
	SSLMode string `json:"sslMode,omitempty"`
}

// DatabaseKind is one of the databases that LINSTOR can use.
type DatabaseKind string

// Kinds of databases.
const (
	// DatabaseKubernetes: custom resources of Kubernetes, which LINSTOR installs itself.
	DatabaseKubernetes DatabaseKind = "kubernetes"
	// DatabaseEtcd: an etcd cluster; only LINSTOR before 1.34 can use it.
	DatabaseEtcd DatabaseKind = "etcd"
	// DatabaseManagedEtcd: an etcd cluster that the operator runs; only LINSTOR before 1.34 can use it.
	DatabaseManagedEtcd DatabaseKind = "managedEtcd"
	// DatabasePostgreSQL: a PostgreSQL database.
	DatabasePostgreSQL DatabaseKind = "postgresql"
	// DatabaseMariaDB: a MariaDB or MySQL database.
	DatabaseMariaDB DatabaseKind = "mariadb"
)

// ControllerSpec configures the LINSTOR controller.
type ControllerSpec struct {
	// properties are LINSTOR's controller properties, which hold for the whole cluster. They win over the operator's
	// defaults; keys that are removed here are removed in LINSTOR, keys that somebody else set are left alone. Up to 64, keys
	// up to 256 characters. Default: none. Example: {"DrbdOptions/AutoEvictAllowEviction": "true"}.
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 256 && self[k].size() <= 4096)",message="properties: a key must have 1 to 256 characters, a value at most 4096: LINSTOR stores no longer ones"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('Aux/storage.linstor.dev/'))",message="properties: keys under Aux/storage.linstor.dev/ are the operator's own notes: choose another key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('NetCom/') && !k.startsWith('encrypted/') && !(k in ['Cluster/LocalID', 'defaultDebugSslConnector', 'defaultPlainConSvc', 'defaultSslConSvc']))",message="properties: Cluster/LocalID, NetCom/, encrypted/ and the default connectors are LINSTOR's identity, connections and keys, which it sets itself: remove the key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('Auth/') && !k.startsWith('REST/') && !k.startsWith('Rest/'))",message="properties: Auth/ and REST/ change how the LINSTOR API is reached and would lock the operator out: remove the key",reason=FieldValueForbidden
	Properties map[string]string `json:"properties,omitempty"`
	// passphraseSecret names a Secret in linstor-storage whose key MASTER_PASSPHRASE is LINSTOR's master passphrase, needed
	// for encrypted volumes. The controller unlocks itself with it. Keep a copy: without it encrypted data is lost.
	// Default: no passphrase. Example: linstor-passphrase.
	// +optional
	PassphraseSecret SecretName `json:"passphraseSecret,omitempty"`
	// resources are the controller container's requests and limits. Java's heap is 3/4 of the memory limit (1Gi or more).
	// Default: {requests: {cpu: 100m, memory: 512Mi}, limits: {memory: 11Gi}}. Example: {limits: {memory: 2Gi}}.
	// +optional
	Resources Resources `json:"resources,omitempty"`
}
