package resources

import (
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
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

// FuzzRevision: a revision whose data somebody changed is refused, or gives a spec that survives being kept and read
// again.
func FuzzRevision(f *testing.F) {
	for _, data := range []string{
		``, `null`, `{}`, `[]`,
		`{"storagePools":[{"name":"ssd","lvmThin":{"volumeGroup":"a","thinPool":"b"},` +
			`"devices":{"match":[{"minSize":"900Gi","maxSize":"1000000P"}]}}]}`,
		`{"nodes":{"minReady":"90%","lostAfter":"24h"}}`, `{"nodes":{"lostAfter":"-1"}}`, `{"unknown":{"a":1}}`,
		`{"version":7}`, `{"nodes":{"satellite":{"resources":{"limits":{}}}}}`, `{"nodes":{"minReady":"90%","minReady":1}}`,
	} {
		f.Add([]byte(data))
	}
	exponent := regexp.MustCompile(`[0-9.][eE]`) // the API server accepts none: 1e-9999999 takes half a minute to read
	f.Fuzz(func(t *testing.T, data []byte) {
		if exponent.Match(data) {
			return
		}
		rev := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}}
		spec, err := SpecFromRevision(rev)
		if err != nil {
			if spec != nil {
				t.Error("an error and a spec")
			}
			return
		}
		if slices.ContainsFunc(quantities(spec), func(q *resource.Quantity) bool { return q != nil && q.Cmp(most) >= 0 }) {
			return // nor such amounts, which are written as others
		}
		if m := spec.Nodes.MinReady; m != nil && m.Type == intstr.Int {
			m.StrVal = "" // of a key that is there twice
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

// most is what sizes and amounts must be less than.
var most = resource.MustParse("8Ei")

func quantities(spec *v1alpha1.StorageClusterSpec) []*resource.Quantity {
	var out []*resource.Quantity
	for i := range spec.StoragePools {
		if d := spec.StoragePools[i].Devices; d != nil {
			for _, m := range d.Match {
				out = append(out, m.MinSize, m.MaxSize)
			}
		}
	}
	for _, amounts := range []v1alpha1.ResourceAmounts{spec.Nodes.Satellite.Resources.Limits,
		spec.Nodes.Satellite.Resources.Requests, spec.Controller.Resources.Limits, spec.Controller.Resources.Requests} {
		for _, q := range amounts {
			out = append(out, &q)
		}
	}
	return out
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
