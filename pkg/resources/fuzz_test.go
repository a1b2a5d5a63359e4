package resources

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
)

// FuzzClaim: a claim that somebody edited is read as it is or not at all, and never as an empty one; what was read and written
// again is the same.
func FuzzClaim(f *testing.F) {
	f.Add("k8s", "5a1e", "1.35.3", "true", "yes")
	f.Add("", "5a1e", "", "", "")
	f.Add("jdbc:postgresql://db:5432/linstor", "", "1.34.2\x00", "T", "false")
	f.Fuzz(func(t *testing.T, backend, id, version, adopted, unverified string) {
		cm := &corev1.ConfigMap{Data: map[string]string{claimBackend: backend, claimLocalID: id, claimVersion: version}}
		for key, value := range map[string]string{claimAdopted: adopted, claimRemoveUnverified: unverified} {
			if value != "" {
				cm.Data[key] = value
			}
		}
		c, err := ClaimFrom(cm)
		if err != nil {
			if c != (ClaimData{}) {
				t.Errorf("an error and a claim: %+v", c)
			}
			return
		}
		if c.Backend == "" || c.Backend != backend || c.LocalID != id {
			t.Errorf("%v is read as %+v", cm.Data, c)
		}
		again, err := ClaimFrom(Claim("linstor", c))
		if err != nil || again != c {
			t.Errorf("%+v is read again as %+v, %v", c, again, err)
		}
	})
}

// FuzzRevision: a revision whose data somebody changed is refused, or gives a spec that survives being kept and read again.
func FuzzRevision(f *testing.F) {
	for _, data := range []string{
		``, `null`, `{}`, `[]`, `{"storagePools":[{"name":"ssd","lvmThin":{"volumeGroup":"a","thinPool":"b"},"devices":{"match":[{"minSize":"1e3Gi"}]}}]}`,
		`{"nodes":{"minReady":"90%","lostAfter":"24h"}}`, `{"nodes":{"lostAfter":"-1"}}`, `{"unknown":{"a":1}}`, `{"version":7}`,
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rev := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}}
		spec, err := SpecFromRevision(rev)
		if err != nil {
			if spec != nil {
				t.Error("an error and a spec")
			}
			return
		}
		kept := Revision("linstor", 1, spec)
		again, err := SpecFromRevision(kept)
		if err != nil || !equality.Semantic.DeepEqual(spec, again) {
			t.Errorf("%s is kept as %s: %v\n%s", data, kept.Data.Raw, err, cmp.Diff(spec, again))
		}
		if Revision("linstor", 2, again).Name != kept.Name {
			t.Error("the same spec has another name")
		}
	})
}

// FuzzControllerConfig: what a Secret holds as user and password is what LINSTOR reads from its configuration, and nothing else.
func FuzzControllerConfig(f *testing.F) {
	f.Add("linstor", "pass")
	f.Add(`a"b'c\`, "x\n[db]\nconnection_url = \"h2\"\n")
	f.Add("\x00\u2028", "\"\"\"")
	f.Fuzz(func(t *testing.T, user, password string) {
		if !utf8.ValidString(user) || !utf8.ValidString(password) {
			return // TOML is UTF-8; see TestDatabaseAccess for what becomes of others
		}
		spec := &v1alpha1.StorageClusterSpec{Database: v1alpha1.DatabaseSpec{PostgreSQL: &v1alpha1.SQLDatabase{Host: "db"}}}
		o, ok := ControllerConfig(Params{Cluster: "linstor", Spec: spec}, Database{URL: DatabaseURL(&spec.Database), User: user, Password: password}).(*corev1.Secret)
		if !ok {
			t.Fatal("credentials are not in a Secret")
		}
		var got map[string]map[string]string
		if _, err := toml.Decode(string(o.Data[controllerConfigKey]), &got); err != nil {
			t.Fatalf("%q: %v", o.Data[controllerConfigKey], err)
		}
		want := map[string]map[string]string{"db": {"connection_url": DatabaseURL(&spec.Database)}}
		for key, value := range map[string]string{"user": user, "password": password} {
			if value != "" {
				want["db"][key] = value
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

// FuzzPlatform: whatever a Node says of itself, its labels can be written and its DaemonSets have names.
func FuzzPlatform(f *testing.F) {
	f.Add("Talos (v1.10.0)", "v1.33.1", "", "Auto")
	f.Add("Flatcar Container Linux by Kinvolk 4230", "v1.33.1+k0s", "true", "Compile")
	f.Add("Red Hat Enterprise Linux CoreOS 418.94", "", "", "")
	f.Fuzz(func(t *testing.T, osImage, kubeletVersion, microk8s, mode string) {
		n := &corev1.Node{}
		n.Labels = map[string]string{"microk8s.io/cluster": microk8s}
		n.Status.NodeInfo.OSImage, n.Status.NodeInfo.KubeletVersion = osImage, kubeletVersion
		q := ProfileOf(PlatformOf(v1alpha1.PlatformAuto, n))
		l := catalogue.Embedded().LoaderFor(osImage)
		for _, label := range []string{q.Key(), q.OSKey(v1alpha1.KernelModuleMode(mode), l)} {
			if label == "" || len(validation.IsValidLabelValue(label)) > 0 {
				t.Errorf("label %q", label)
			}
		}
		if name := ModuleLoaderName(q.OSKey(v1alpha1.KernelModuleMode(mode), l)); len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > 63 {
			t.Errorf("name %q", name)
		}
	})
}

// FuzzDatabaseURL: no field of the spec gets into a part of the connection URL that is another's. etcd's credentials never do.
func FuzzDatabaseURL(f *testing.F) {
	f.Add("http://etcd:2379/", "db.example.com", "linstor", "verify-full")
	f.Add("https://user:pass@etcd", "fd00::1", "a/b?c=d&e#f", "x&user=root")
	f.Fuzz(func(t *testing.T, endpoint, host, name, mode string) {
		sql := &v1alpha1.SQLDatabase{Host: host, Database: name, SSLMode: mode}
		for prefix, spec := range map[string]v1alpha1.DatabaseSpec{
			"etcd://": {Etcd: &v1alpha1.EtcdDatabase{Endpoints: []string{endpoint}}}, "jdbc:postgresql://": {PostgreSQL: sql}, "jdbc:mariadb://": {MariaDB: sql}, "k8s": {},
		} {
			u := DatabaseURL(&spec)
			if !strings.HasPrefix(u, prefix) || u != DatabaseURL(&spec) {
				t.Errorf("%s", u)
			}
			if query := u[len(prefix):]; strings.HasPrefix(prefix, "jdbc") && strings.Count(strings.TrimPrefix(query, host), "&") > strings.Count(name, "&") {
				t.Errorf("a second parameter in %s", u)
			}
		}
		if _, err := json.Marshal(sql); err != nil {
			t.Error(err)
		}
	})
}
