package connection_test

import (
	"cmp"
	"net"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
)

func TestURL(t *testing.T) {
	for _, tc := range []struct {
		spec v1alpha1.DatabaseSpec
		want string
	}{
		{v1alpha1.DatabaseSpec{}, "k8s"},
		{v1alpha1.DatabaseSpec{Kubernetes: &v1alpha1.KubernetesDatabase{}}, "k8s"},
		{v1alpha1.DatabaseSpec{Etcd: &v1alpha1.EtcdDatabase{Endpoints: []string{"http://a:2379", "https://b:2379/",
			"c:2379"}}},
			"etcd://a:2379,b:2379,c:2379"},
		{v1alpha1.DatabaseSpec{ManagedEtcd: &etcdspec.ManagedEtcd{Replicas: 3}}, "managed-etcd"},
		{v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db"}}, "jdbc:postgresql://db:5432/linstor"},
		{v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "fd00::1", Port: 6432, Database: "x",
			SSLMode: "require"}},
			"jdbc:postgresql://[fd00::1]:6432/x?sslmode=require"},
		{v1alpha1.DatabaseSpec{MariaDB: &v1alpha1.SQLDatabase{Host: "10.0.0.1"}}, "jdbc:mariadb://10.0.0.1:3306/linstor"},
		{v1alpha1.DatabaseSpec{MariaDB: &v1alpha1.SQLDatabase{Host: "db", SSLMode: "trust"}},
			"jdbc:mariadb://db:3306/linstor?sslMode=trust"},
		// What CEL refuses must not become a parameter of the driver either.
		{v1alpha1.DatabaseSpec{MariaDB: &v1alpha1.SQLDatabase{Host: "db", Database: "a?b=c", SSLMode: "x&y=z"}},
			"jdbc:mariadb://db:3306/a%3Fb=c?sslMode=x%26y%3Dz"},
	} {
		if got := connection.URL(&tc.spec); got != tc.want {
			t.Errorf("URL is %s, want %s", got, tc.want)
		}
	}
}

// FuzzURL: a host that passed the CRD's rules or not, a name and a mode get into their own parts of the URL only.
func FuzzURL(f *testing.F) {
	f.Add("http://etcd:2379/", "db.example.com", "linstor", "verify-full")
	f.Add("https://etcd", "fd00::1", "a/b?c=d&e#f", "x&user=root")
	f.Add("", ":&", "0", "0")
	f.Fuzz(func(t *testing.T, endpoint, host, name, mode string) {
		sql := &v1alpha1.SQLDatabase{Host: host, Database: name, SSLMode: mode}
		for _, tc := range []struct {
			spec                       v1alpha1.DatabaseSpec
			scheme, port, sslParameter string
		}{
			{v1alpha1.DatabaseSpec{PostgreSQL: sql}, "jdbc:postgresql://", "5432", "sslmode"},
			{v1alpha1.DatabaseSpec{MariaDB: sql}, "jdbc:mariadb://", "3306", "sslMode"},
		} {
			got := connection.URL(&tc.spec)
			rest, found := strings.CutPrefix(got, tc.scheme+net.JoinHostPort(host, tc.port)+"/")
			path, query, _ := strings.Cut(rest, "?")
			if gotName, err := url.PathUnescape(path); !found || err != nil || gotName != cmp.Or(name, "linstor") {
				t.Errorf("%s names the database %q, %v", got, gotName, err)
			}
			want := url.Values{}
			if mode != "" {
				want.Set(tc.sslParameter, mode)
			}
			if parameters, err := url.ParseQuery(query); err != nil || !reflect.DeepEqual(parameters, want) {
				t.Errorf("%s has the parameters %v, %v, want %v", got, parameters, err, want)
			}
		}
		etcd := &v1alpha1.DatabaseSpec{Etcd: &v1alpha1.EtcdDatabase{Endpoints: []string{endpoint}}}
		if got := connection.URL(etcd); !strings.HasPrefix(got, "etcd://") {
			t.Errorf("%s", got)
		}
	})
}

func TestSame(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"k8s", "k8s", true},
		{"k8s", "etcd://a:1", false},
		{"managed-etcd", "etcd://a:1", false},
		{"managed-etcd", "managed-etcd", true},
		{"etcd://a:1", "etcd://b:1,c:1", true},
		{"jdbc:postgresql://db/linstor?sslmode=require", "jdbc:postgresql://db/linstor", true},
		{"jdbc:postgresql://db/linstor", "jdbc:postgresql://db/other", false},
		{"jdbc:postgresql://db/linstor", "jdbc:mariadb://db/linstor", false},
	} {
		if got := connection.Same(tc.a, tc.b); got != tc.want {
			t.Errorf("Same(%q, %q) = %t", tc.a, tc.b, got)
		}
		if connection.Same(tc.a, tc.b) != connection.Same(tc.b, tc.a) {
			t.Errorf("Same is not symmetric for %q and %q", tc.a, tc.b)
		}
	}
}

func TestSameKind(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"jdbc:postgresql://db:5432/linstor?sslmode=require", "jdbc:postgresql://other:5432/linstor", true},
		{"jdbc:mariadb://db:3306/linstor", "jdbc:mariadb://db:3307/linstor", true},
		{"jdbc:postgresql://db:5432/linstor", "jdbc:mariadb://db:3306/linstor", false},
		{"k8s", "k8s", false},
		{"etcd://a:1", "etcd://b:1", false},
		{"k8s", "jdbc:mariadb://db:3306/linstor", false},
	} {
		if got := connection.SameKind(tc.a, tc.b); got != tc.want || connection.SameKind(tc.b, tc.a) != tc.want {
			t.Errorf("SameKind(%q, %q) = %t", tc.a, tc.b, got)
		}
	}
}
