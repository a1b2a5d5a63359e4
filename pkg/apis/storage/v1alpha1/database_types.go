package v1alpha1

import corev1 "k8s.io/api/core/v1"

// DatabaseSpec is where LINSTOR keeps its state: exactly one of its fields, kubernetes if none is given.
type DatabaseSpec struct {
	// kubernetes keeps LINSTOR's state in custom resources of the group internal.linstor.linbit.com, which LINSTOR's
	// controller installs itself. Needs nothing else. This is the default.
	// +optional
	Kubernetes *KubernetesDatabase `json:"kubernetes,omitempty"`
	// etcd is an existing etcd cluster. Only LINSTOR before 1.34 can use it.
	// +optional
	Etcd *EtcdDatabase `json:"etcd,omitempty"`
	// postgresql is an existing PostgreSQL database.
	// +optional
	PostgreSQL *SQLDatabase `json:"postgresql,omitempty"`
	// mariadb is an existing MariaDB or MySQL database.
	// +optional
	MariaDB *SQLDatabase `json:"mariadb,omitempty"`
}

// KubernetesDatabase has no settings.
type KubernetesDatabase struct{}

// EtcdDatabase is an existing etcd cluster.
type EtcdDatabase struct {
	// endpoints are the client URLs, such as "http://etcd.example.com:2379".
	// +listType=set
	Endpoints []string `json:"endpoints"`
	// credentialsSecret names a Secret in linstor-storage with keys username and password. Default: no authentication.
	// +optional
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
}

// SQLDatabase is an existing SQL database. LINSTOR makes its schema in it.
type SQLDatabase struct {
	// host is the server's DNS name or IP address.
	Host string `json:"host"`
	// port is the server's TCP port. Default: 5432 for PostgreSQL, 3306 for MariaDB.
	// +optional
	Port int32 `json:"port,omitempty"`
	// database is the name of the database. Default: linstor.
	// +optional
	Database string `json:"database,omitempty"`
	// credentialsSecret names a Secret in linstor-storage with keys username and password.
	CredentialsSecret string `json:"credentialsSecret"`
	// sslMode is appended to the connection URL: PostgreSQL's sslmode or MariaDB's sslMode, such as "verify-full".
	// Default: the driver's default.
	// +optional
	SSLMode string `json:"sslMode,omitempty"`
}

// DatabaseKind is one of the databases that LINSTOR can use.
type DatabaseKind string

// Kinds of databases.
const (
	DatabaseKubernetes DatabaseKind = "kubernetes"
	DatabaseEtcd       DatabaseKind = "etcd"
	DatabasePostgreSQL DatabaseKind = "postgresql"
	DatabaseMariaDB    DatabaseKind = "mariadb"
)

// Kind is the database that the spec asks for.
func (d *DatabaseSpec) Kind() DatabaseKind {
	switch {
	case d.Etcd != nil:
		return DatabaseEtcd
	case d.PostgreSQL != nil:
		return DatabasePostgreSQL
	case d.MariaDB != nil:
		return DatabaseMariaDB
	default:
		return DatabaseKubernetes
	}
}

// ControllerSpec configures the LINSTOR controller.
type ControllerSpec struct {
	// properties are LINSTOR's controller properties, which hold for the whole cluster, such as
	// "DrbdOptions/AutoEvictAllowEviction": "true". They win over the operator's defaults; keys that are removed here are
	// removed in LINSTOR, keys that somebody else set are left alone.
	// +optional
	// +mapType=granular
	Properties map[string]string `json:"properties,omitempty"`
	// passphraseSecret names a Secret in linstor-storage whose key MASTER_PASSPHRASE is LINSTOR's master passphrase, needed
	// for encrypted volumes. The controller unlocks itself with it. Keep a copy: without it encrypted data is lost.
	// Default: no passphrase.
	// +optional
	PassphraseSecret string `json:"passphraseSecret,omitempty"`
	// resources are the controller container's resource requests and limits. Default: none.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
}
