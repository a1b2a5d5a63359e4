package database

import (
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
)

// FuzzParseJDBC: the URL that LINSTOR gets and the server that is looked at are the same, for every database name and
// mode.
func FuzzParseJDBC(f *testing.F) {
	f.Add("db.example.com", int32(5432), "linstor", "verify-full")
	f.Add("10.0.0.1", int32(0), "a/b?c#d%41", "x&y=z")
	f.Add("fd00::1", int32(65535), "", "")
	f.Fuzz(func(t *testing.T, host string, port int32, name, mode string) {
		if port < 0 || port > 65535 || host == "" || strings.ContainsFunc(host, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", r)
		}) {
			return // the CRD refuses them
		}
		spec := &v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: host, Port: port, Database: name,
			SSLMode: mode}}
		got, err := parseJDBC(connection.URL(spec), "sslmode")
		if err != nil {
			t.Fatal(err)
		}
		want := sqlServer{host: host, port: uint16(port), database: name, sslMode: mode}
		if port == 0 {
			want.port = 5432
		}
		if name == "" {
			want.database = "linstor"
		}
		if got != want {
			t.Errorf("%s is read as %+v, want %+v", connection.URL(spec), got, want)
		}
	})
}

// FuzzRedact: what a server says never shows the password, and the user's name not where servers put it.
func FuzzRedact(f *testing.F) {
	f.Add("linstor", "s3cret", `password authentication failed for user "linstor"`)
	f.Add("a", "a", "Access denied for user 'a'@'10.0.0.1' (using password: YES)")
	f.Add(`"`, "", `role """ is not permitted`)
	f.Fuzz(func(t *testing.T, user, password, text string) {
		s := subject{server: "PostgreSQL at db:5432", access: connection.Settings{User: user, Password: password}}
		got := s.access.Hide(text)
		if len(password) > 8 && strings.Contains(got, password) &&
			!strings.Contains("the message is omitted because it contains the password", password) {
			t.Errorf("%q shows the password %q", got, password)
		}
		if user != "" && strings.Contains(got, `user "`+user+`"`) && user != "<username>" {
			t.Errorf("%q shows the user %q", got, user)
		}
	})
}

// FuzzRows: each row of LINSTOR's table of nodes counts, however damaged it is.
func FuzzRows(f *testing.F) {
	f.Add("N1/NODE_DSP_NAME", "n1", "N2", "", []byte(`{"metadata":{"name":"abc"},"spec":{"node_dsp_name":"n1"}}`))
	f.Add("", "", "/", "x", []byte(`{"metadata":{"name":"abc"},"spec":[]}`))
	f.Fuzz(func(t *testing.T, key, value, key2, value2 string, object []byte) {
		keys := []*mvccpb.KeyValue{{Key: []byte(etcdNodes + key), Value: []byte(value)},
			{Key: []byte(etcdNodes + key2), Value: []byte(value2)}}
		row, _, _ := strings.Cut(key, "/")
		row2, _, _ := strings.Cut(key2, "/")
		rows := 2
		if row == row2 {
			rows = 1
		}
		if got := etcdNames(keys); len(got) != rows {
			t.Errorf("%d rows give %q", rows, got)
		}
		u := &unstructured.Unstructured{}
		if yaml.Unmarshal(object, &u.Object) == nil && u.Object != nil && u.GetName() != "" && nodeName(u) == "" {
			t.Errorf("a node without a name: %s", object)
		}
	})
}
