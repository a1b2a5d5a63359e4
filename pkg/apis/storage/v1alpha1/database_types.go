package v1alpha1

import "github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"

// DatabaseSpec is where LINSTOR stores its state. Set at most one field; kubernetes is used if none is set.
//
// If you change the database, the operator uses the new one only after you have approved moving LINSTOR's data to it.
// Omitting kubernetes is the same as setting it.
//
// +kubebuilder:validation:XValidation:rule="[has(self.kubernetes), has(self.etcd), has(self.managedEtcd), has(self.postgresql), has(self.mariadb)].filter(x, x).size() <= 1",message="database: set at most one of kubernetes, etcd, managedEtcd, postgresql and mariadb"
type DatabaseSpec struct {
	// kubernetes stores LINSTOR's state in custom resources of the internal.linstor.linbit.com API group, whose CRDs the
	// LINSTOR controller installs. Nothing else is required. This is the default if no other database is set.
	// Example: {}.
	// +optional
	Kubernetes *KubernetesDatabase `json:"kubernetes,omitempty"`
	// etcd is an existing etcd cluster. Only LINSTOR versions before 1.34 support etcd, so spec.version must be set to
	// one of them. Not used by default. Example: {endpoints: ["http://etcd.example.com:2379"]}.
	// +optional
	Etcd *EtcdDatabase `json:"etcd,omitempty"`
	// managedEtcd is an etcd cluster that the operator runs on the nodes exclusively for LINSTOR. It is intended for
	// clusters that stay on a LINSTOR version before 1.34, which must be set in spec.version. It does not use TLS. Not
	// used by default. Example: {replicas: 3}.
	// +optional
	ManagedEtcd *etcdspec.ManagedEtcd `json:"managedEtcd,omitempty"`
	// postgresql is an existing PostgreSQL database. Not used by default.
	// Example: {host: db.example.com, credentialsSecret: linstor-db, sslMode: verify-full}.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.sslMode) || self.sslMode in ['', 'disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full']",message="sslMode must be one of PostgreSQL's modes: disable, allow, prefer, require, verify-ca, verify-full",fieldPath=.sslMode
	PostgreSQL *SQLDatabase `json:"postgresql,omitempty"`
	// mariadb is an existing MariaDB or MySQL database. When LINSTOR sets up the database, it also runs CREATE SCHEMA IF
	// NOT EXISTS LINSTOR, so the user needs GRANT CREATE ON LINSTOR.* in addition to all privileges on the database. Not
	// used by default. Example: {host: db.example.com, credentialsSecret: linstor-db}.
	// +optional
	MariaDB *SQLDatabase `json:"mariadb,omitempty"`
}

// KubernetesDatabase has no settings.
type KubernetesDatabase struct{}

// EtcdDatabase is an existing etcd cluster.
type EtcdDatabase struct {
	// endpoints are the client URLs of one to nine members of the same cluster. You can change them when the members
	// change. Required, no default. Example: ["http://etcd-0.example.com:2379", "http://etcd-1.example.com:2379"].
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	Endpoints []EndpointURL `json:"endpoints"`
	// credentialsSecret names a Secret in linstor-storage with username and password keys. Defaults to no authentication.
	// Example: linstor-etcd.
	// +optional
	CredentialsSecret SecretName `json:"credentialsSecret,omitempty"`
}

// SQLDatabase is an existing SQL database, in which LINSTOR creates its schema.
type SQLDatabase struct {
	// host is the DNS name or IP address of the server, without port or brackets. Once the cluster has claimed the
	// database, a different host is treated as a different database. Required, no default. Example: db.example.com.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f]*(:[0-9A-Fa-f.]*){2,8})$')",message="host must be a DNS name or an IP address without a scheme, port or brackets, such as db.example.com"
	Host string `json:"host"`
	// port is the TCP port of the server, 1 to 65535. Defaults to 5432 for PostgreSQL and to 3306 for MariaDB.
	// Example: 5433.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// database is the name of the database on the server. At most 63 characters. It cannot be changed, because it
	// contains LINSTOR's data. Defaults to linstor. Example: linstor_prod.
	// +optional
	// +kubebuilder:default=linstor
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_-]*$')",message="database must be a plain name: letters, digits, '_' and '-', starting with a letter or '_', such as linstor"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="database cannot be changed, because it contains LINSTOR's data: revert the change",reason=FieldValueForbidden
	Database string `json:"database,omitempty"`
	// credentialsSecret names a Secret in linstor-storage with username and password keys. Required, no default.
	// Example: linstor-db.
	// +kubebuilder:validation:MinLength=1
	CredentialsSecret SecretName `json:"credentialsSecret"`
	// sslMode is the sslmode (PostgreSQL) or sslMode (MariaDB) connection parameter, a single word. Defaults to the
	// driver's default. Example: verify-full.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_-]*$')",message="sslMode must be a single word, such as verify-full"
	SSLMode string `json:"sslMode,omitempty"`
}

// DatabaseKind is a kind of database that LINSTOR supports.
type DatabaseKind string

// Kinds of databases.
const (
	// DatabaseKubernetes: Kubernetes custom resources; LINSTOR installs their CRDs itself.
	DatabaseKubernetes DatabaseKind = "kubernetes"
	// DatabaseEtcd: an etcd cluster; only LINSTOR versions before 1.34 support it.
	DatabaseEtcd DatabaseKind = "etcd"
	// DatabaseManagedEtcd: an etcd cluster that the operator runs; only LINSTOR versions before 1.34 support it.
	DatabaseManagedEtcd DatabaseKind = "managedEtcd"
	// DatabasePostgreSQL: a PostgreSQL database.
	DatabasePostgreSQL DatabaseKind = "postgresql"
	// DatabaseMariaDB: a MariaDB or MySQL database.
	DatabaseMariaDB DatabaseKind = "mariadb"
)

// ControllerSpec configures the LINSTOR controller.
type ControllerSpec struct {
	// properties are LINSTOR controller properties, which apply to the whole cluster. They override the operator's
	// defaults. Keys that you remove here are also removed from LINSTOR; keys that were never set here are left
	// unchanged. At most 64, with keys of up to 256 characters. Defaults to none.
	// Example: {"DrbdOptions/AutoEvictAllowEviction": "true"}.
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() > 0 && k.size() <= 256 && self[k].size() <= 4096)",message="properties: a key must have 1 to 256 characters, and a value at most 4096, because LINSTOR cannot store more"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('Aux/storage.linstor.dev/'))",message="properties: keys under Aux/storage.linstor.dev/ are reserved for the operator; choose another key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('NetCom/') && !k.startsWith('encrypted/') && !(k in ['Cluster/LocalID', 'defaultDebugSslConnector', 'defaultPlainConSvc', 'defaultSslConSvc']))",message="properties: LINSTOR itself manages its identity, connections and keys (Cluster/LocalID, NetCom/, encrypted/ and the default connectors); remove the key",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('Auth/') && !k.startsWith('REST/') && !k.startsWith('Rest/'))",message="properties: Auth/ and REST/ change how the LINSTOR API is accessed, and would lock the operator out; remove the key",reason=FieldValueForbidden
	Properties map[string]string `json:"properties,omitempty"`
	// passphraseSecret names a Secret in linstor-storage whose MASTER_PASSPHRASE key contains LINSTOR's master
	// passphrase, which is required for encrypted volumes. The controller uses it to unlock itself. Keep a copy: without
	// the passphrase, encrypted data is lost. Defaults to no passphrase. Example: linstor-passphrase.
	// +optional
	PassphraseSecret SecretName `json:"passphraseSecret,omitempty"`
	// resources are the resource requests and limits of the controller container. The memory limit must be at least 1Gi;
	// the Java heap gets up to 3/4 of it. Defaults to {requests: {cpu: 100m, memory: 512Mi}, limits: {memory: 11Gi}}.
	// Example: {limits: {memory: 2Gi}}.
	// +optional
	Resources Resources `json:"resources,omitempty"`
}
