package resources

import (
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
)

// FuzzClaim: a claim that somebody edited is read as it is or not at all, and never as an empty one; what was read and
// written again is the same.
func FuzzClaim(f *testing.F) {
	f.Add("k8s", "5a1e", "1.35.3", "true", "yes")
	f.Add("", "5a1e", "", "", "")
	f.Add("jdbc:postgresql://db:5432/linstor", "", "1.34.2\x00", "T", "false")
	f.Fuzz(func(t *testing.T, backend, id, version, adopted, unverified string) {
		cm := &corev1.ConfigMap{Data: map[string]string{"backend": backend, "localID": id, "version": version}}
		for key, value := range map[string]string{"adopted": adopted, "removeUnverified": unverified} {
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

// FuzzControllerConfig: what a Secret holds as user and password is what LINSTOR reads from its configuration, and
// nothing else.
func FuzzControllerConfig(f *testing.F) {
	f.Add("linstor", "pass")
	f.Add(`a"b'c\`, "x\n[db]\nconnection_url = \"h2\"\n")
	f.Add("\x00\u2028", "\"\"\"")
	f.Fuzz(func(t *testing.T, user, password string) {
		if !utf8.ValidString(user) || !utf8.ValidString(password) {
			return // TOML is UTF-8; see TestDatabaseAccess for what becomes of others
		}
		spec := &v1alpha1.StorageClusterSpec{Database: v1alpha1.DatabaseSpec{
			PostgreSQL: &v1alpha1.SQLDatabase{Host: "db", CredentialsSecret: "db"}}}
		o, ok := ControllerConfig(Params{Cluster: "linstor", Spec: spec},
			connection.Settings{URL: connection.URL(&spec.Database), User: user, Password: password}).(*corev1.Secret)
		if !ok {
			t.Fatal("credentials are not in a Secret")
		}
		var got map[string]map[string]string
		if _, err := toml.Decode(string(o.Data[controllerConfigKey]), &got); err != nil {
			t.Fatalf("%q: %v", o.Data[controllerConfigKey], err)
		}
		want := map[string]map[string]string{"db": {"connection_url": connection.URL(&spec.Database)}}
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
		q := platform.ProfileOf(platform.Of(v1alpha1.PlatformAuto, n))
		l := catalogue.Embedded().LoaderFor(osImage)
		for _, label := range []string{q.Key(), q.OSKey(v1alpha1.KernelModuleMode(mode), l)} {
			if label == "" || len(validation.IsValidLabelValue(label)) > 0 {
				t.Errorf("label %q", label)
			}
		}
		name := ModuleLoaderName(q.OSKey(v1alpha1.KernelModuleMode(mode), l))
		if len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > 63 {
			t.Errorf("name %q", name)
		}
	})
}
