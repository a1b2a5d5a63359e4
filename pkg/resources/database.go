package resources

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Database is how the controller reaches its database.
type Database struct {
	// URL is LINSTOR's connection_url, without credentials.
	URL string
	// User and Password are empty where the database asks for none.
	User, Password string
}

const (
	postgresPort    = 5432
	mariadbPort     = 3306
	defaultDatabase = "linstor"
)

// DatabaseURL is LINSTOR's connection_url for a database, without credentials. It also names the database's identity.
//
// LINSTOR before 1.34 takes etcd's endpoints as host:port behind one etcd:// (linstor-server 1.33, DbEtcd); it speaks TLS
// to all of them if it has a CA certificate and to none otherwise, whatever the endpoints' own scheme.
func DatabaseURL(spec *v1alpha1.DatabaseSpec) string {
	switch {
	case spec.Etcd != nil:
		hosts := make([]string, len(spec.Etcd.Endpoints))
		for i, e := range spec.Etcd.Endpoints {
			_, host, found := strings.Cut(e, "://")
			if !found {
				host = e
			}
			hosts[i] = strings.TrimSuffix(host, "/")
		}
		return "etcd://" + strings.Join(hosts, ",")
	case spec.PostgreSQL != nil:
		return sqlURL("jdbc:postgresql", spec.PostgreSQL, postgresPort, "sslmode")
	case spec.MariaDB != nil:
		return sqlURL("jdbc:mariadb", spec.MariaDB, mariadbPort, "sslMode")
	default:
		return "k8s"
	}
}

func sqlURL(scheme string, db *v1alpha1.SQLDatabase, port int32, sslParameter string) string {
	if db.Port != 0 {
		port = db.Port
	}
	name := db.Database
	if name == "" {
		name = defaultDatabase
	}
	// JoinHostPort puts an IPv6 address into brackets.
	out := scheme + "://" + net.JoinHostPort(db.Host, strconv.Itoa(int(port))) + "/" + url.PathEscape(name)
	if db.SSLMode != "" {
		out += "?" + sslParameter + "=" + url.QueryEscape(db.SSLMode)
	}
	return out
}
