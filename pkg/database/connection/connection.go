// Package connection is how LINSTOR reaches its database: the URL that a spec means, and the credentials.
package connection

import (
	"cmp"
	"encoding/base64"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Settings are how the controller reaches its database: the part [db] of its linstor.toml.
type Settings struct {
	// URL is LINSTOR's connection_url, without credentials.
	URL string `toml:"connection_url"`
	// User and Password are empty where the database needs none.
	User     string `toml:"user,omitempty"`
	Password string `toml:"password,omitempty"`
}

// leftOut replaces a text that cannot be cleared of a secret.
const leftOut = "the message is omitted because it contains the password"

// Hide removes user and password from what a server, a driver or LINSTOR says, which repeat them in quotes or in
// connection URLs. A text with a short password is dropped altogether, because the rest of it would show where the
// password was.
func (s Settings) Hide(text string) string {
	var secrets, shown []string // what must go, and what is put in its place
	if s.Password != "" {
		for _, form := range append(written(s.Password), base64.StdEncoding.EncodeToString([]byte(s.Password))) {
			secrets, shown = append(secrets, form), append(shown, "<password>")
		}
	}
	if s.User != "" && s.User != "<username>" {
		for _, around := range [][2]string{{`user "`, `"`}, {`user '`, `'`}, {`role "`, `"`}, {`role '`, `'`}, {"user=", ""},
			{"//", ":"}, {"//", "@"}} {
			for _, form := range written(s.User) {
				secrets, shown = append(secrets, around[0]+form+around[1]), append(shown, around[0]+"<username>"+around[1])
			}
		}
	}
	short := s.Password != "" && len(s.Password) < 8 // it may show in a text by chance
	for i, secret := range secrets {
		if short && shown[i] == "<password>" && strings.Contains(text, secret) {
			return leftOut
		}
		text = strings.ReplaceAll(text, secret, shown[i])
	}
	if slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(text, secret) }) {
		return leftOut // what was put in their place makes them up again
	}
	return text
}

// written are the ways in which programs write a text: as it is, quoted, and in URLs.
func written(text string) []string {
	return []string{text, strings.Trim(strconv.Quote(text), `"`), url.QueryEscape(text), url.PathEscape(text)}
}

// Kind is the database that a spec names.
func Kind(spec *v1alpha1.DatabaseSpec) v1alpha1.DatabaseKind {
	kind, _, _ := of(spec)
	return kind
}

// CredentialsSecret is the name of the Secret with the database's credentials; "" if the spec names none.
func CredentialsSecret(spec *v1alpha1.DatabaseSpec) string {
	_, secret, _ := of(spec)
	return secret
}

// ManagedEtcd names the identity of the etcd that the operator runs. Where LINSTOR finds that changes with its
// members.
const ManagedEtcd = "managed-etcd"

// URL is LINSTOR's connection_url for a database, without credentials, but for etcd that the operator runs. It also
// names the database's identity.
func URL(spec *v1alpha1.DatabaseSpec) string {
	_, _, url := of(spec)
	return url
}

// Same reports whether two URLs name the same data. Parameters may differ, and etcd's endpoints.
func Same(a, b string) bool {
	trim := func(s string) string { s, _, _ = strings.Cut(s, "?"); return s }
	if strings.HasPrefix(a, "etcd://") && strings.HasPrefix(b, "etcd://") {
		return true
	}
	return trim(a) == trim(b)
}

// SameKind reports whether two URLs are of SQL servers of the same kind.
func SameKind(a, b string) bool {
	kind, _, sql := strings.Cut(a, "://")
	return sql && strings.HasPrefix(kind, "jdbc:") && strings.HasPrefix(b, kind+"://")
}

func of(spec *v1alpha1.DatabaseSpec) (kind v1alpha1.DatabaseKind, secret, url string) {
	switch etcd, postgres, maria := spec.Etcd, spec.PostgreSQL, spec.MariaDB; {
	case spec.ManagedEtcd != nil:
		return v1alpha1.DatabaseManagedEtcd, "", ManagedEtcd
	case etcd != nil:
		return v1alpha1.DatabaseEtcd, etcd.CredentialsSecret, etcdURL(etcd.Endpoints)
	case postgres != nil:
		url = sqlURL("jdbc:postgresql", postgres, 5432, "sslmode")
		return v1alpha1.DatabasePostgreSQL, postgres.CredentialsSecret, url
	case maria != nil:
		return v1alpha1.DatabaseMariaDB, maria.CredentialsSecret, sqlURL("jdbc:mariadb", maria, 3306, "sslMode")
	default:
		return v1alpha1.DatabaseKubernetes, "", "k8s"
	}
}

// etcdURL is of the endpoints as LINSTOR before 1.34 takes them: host:port behind one etcd:// (linstor-server 1.33,
// DbEtcd). It speaks TLS to all of them if it has a CA certificate and to none otherwise, whatever their own scheme.
func etcdURL(endpoints []string) string {
	hosts := make([]string, len(endpoints))
	for i, e := range endpoints {
		_, host, found := strings.Cut(e, "://")
		if !found {
			host = e
		}
		hosts[i] = strings.TrimSuffix(host, "/")
	}
	return "etcd://" + strings.Join(hosts, ",")
}

func sqlURL(scheme string, db *v1alpha1.SQLDatabase, port int32, sslParameter string) string {
	port = cmp.Or(db.Port, port)
	name := cmp.Or(db.Database, "linstor")
	// JoinHostPort puts an IPv6 address into brackets.
	out := scheme + "://" + net.JoinHostPort(db.Host, strconv.Itoa(int(port))) + "/" + url.PathEscape(name)
	if db.SSLMode != "" {
		out += "?" + sslParameter + "=" + url.QueryEscape(db.SSLMode)
	}
	return out
}
