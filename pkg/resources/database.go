package resources

import (
	"encoding/base64"
	"net"
	"net/url"
	"slices"
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

// shortPassword is how long a password is that may show in a text by chance.
const shortPassword = 8

// leftOut stands for a text that cannot be cleared of a secret.
const leftOut = "the message is left out, because it repeats the password"

// Hide removes user and password from what a server, a driver or LINSTOR says, which repeat them in quotes or in connection
// URLs. A text with a short password is dropped altogether, because the rest of it would show where the password was.
func (d Database) Hide(text string) string {
	var secrets, shown []string // what must go, and what is put in its place
	if d.Password != "" {
		for _, form := range append(written(d.Password), base64.StdEncoding.EncodeToString([]byte(d.Password))) {
			secrets, shown = append(secrets, form), append(shown, "<password>")
		}
	}
	if d.User != "" && d.User != "<username>" {
		for _, around := range [][2]string{{`user "`, `"`}, {`user '`, `'`}, {`role "`, `"`}, {`role '`, `'`}, {"user=", ""}, {"//", ":"}, {"//", "@"}} {
			for _, form := range written(d.User) {
				secrets, shown = append(secrets, around[0]+form+around[1]), append(shown, around[0]+"<username>"+around[1])
			}
		}
	}
	short := d.Password != "" && len(d.Password) < shortPassword
	for i, s := range secrets {
		if short && shown[i] == "<password>" && strings.Contains(text, s) {
			return leftOut
		}
		text = strings.ReplaceAll(text, s, shown[i])
	}
	if slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) }) {
		return leftOut // what was put in their place makes them up again
	}
	return text
}

// written are the ways in which programs write a text: as it is, quoted, and in URLs.
func written(text string) []string {
	return []string{text, strings.Trim(strconv.Quote(text), `"`), url.QueryEscape(text), url.PathEscape(text)}
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
