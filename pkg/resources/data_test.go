package resources_test

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

// TestControllerConfigQuotes reads linstor.toml back with credentials that would break out of careless quotes.
func TestControllerConfigQuotes(t *testing.T) {
	db := connection.Settings{URL: "jdbc:postgresql://db:5432/linstor", User: `o"brien\`,
		Password: "p\"\n[http]\nenabled = false\n#'''"}
	secret, ok := resources.ControllerConfig(params(fullSpec()), db).(*corev1.Secret)
	if !ok {
		t.Fatal("not a Secret")
	}
	var got map[string]map[string]string
	if err := toml.Unmarshal(secret.Data["linstor.toml"], &got); err != nil {
		t.Fatalf("%v in:\n%s", err, secret.Data["linstor.toml"])
	}
	want := map[string]map[string]string{"db": {"connection_url": db.URL, "user": db.User, "password": db.Password}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("linstor.toml (-want +got):\n%s", diff)
	}
}

func TestEtcdWithoutCredentialsIsNoSecret(t *testing.T) {
	etcd := &v1alpha1.EtcdDatabase{Endpoints: []string{"http://a:2379"}}
	p := params(v1alpha1.StorageClusterSpec{Database: v1alpha1.DatabaseSpec{Etcd: etcd}})
	cm, ok := resources.ControllerConfig(p,
		connection.Settings{URL: connection.URL(&p.Spec.Database)}).(*corev1.ConfigMap)
	if !ok {
		t.Fatal("not a ConfigMap")
	}
	// LINSTOR 1.33 authenticates as soon as a user is given, even an empty one.
	if text := cm.Data["linstor.toml"]; strings.Contains(text, "user") {
		t.Errorf("linstor.toml names a user:\n%s", text)
	}
	etcd.CredentialsSecret = "etcd"
	if _, ok := resources.ControllerConfig(p, connection.Settings{}).(*corev1.Secret); !ok {
		t.Error("credentials of etcd are not in a Secret")
	}
}

func TestClaimRoundTrip(t *testing.T) {
	for _, want := range []resources.ClaimData{
		{Backend: "k8s"},
		{Backend: "k8s", LocalID: "id", Adopted: true, PassphraseCheck: "salt:hash", RemoveUnverified: true},
		{Backend: "k8s", Version: "1.35.3", ReleasedBy: "uid"},
		{Backend: "k8s", TLS: tlsspec.Managed},
	} {
		got, err := resources.ClaimFrom(resources.Claim("linstor", want))
		if err != nil || got != want {
			t.Errorf("claim %+v comes back as %+v, %v", want, got, err)
		}
	}
	for name, data := range map[string]map[string]string{
		"empty":      nil,
		"no backend": {"localID": "x"},
		"bad flag":   {"backend": "k8s", "adopted": "perhaps"},
		"empty flag": {"backend": "k8s", "removeUnverified": ""},
	} {
		if c, err := resources.ClaimFrom(&corev1.ConfigMap{Data: data}); err == nil || c != (resources.ClaimData{}) {
			t.Errorf("%s: claim is %+v, error %v", name, c, err)
		}
	}
}

func TestRevision(t *testing.T) {
	spec := fullSpec()
	a, b := revision.Of("linstor", 1, &spec), revision.Of("linstor", 2, &spec)
	if a.Name != b.Name || b.Revision != 2 {
		t.Errorf("equal specs give %s and %s, revision %d", a.Name, b.Name, b.Revision)
	}
	back, err := revision.Spec(a)
	if err != nil {
		t.Fatal(err)
	}
	if again := revision.Of("linstor", 1, back); again.Name != a.Name {
		t.Errorf("the spec comes back changed: %s, then %s", a.Name, again.Name)
	}
	spec.Suspend = true
	if other := revision.Of("linstor", 1, &spec); other.Name == a.Name {
		t.Error("another spec has the same name")
	}
	for name, raw := range map[string]string{"empty": "", "no object": `"x"`, "wrong type": `{"suspend":"yes"}`,
		"cut off": `{"suspend":tr`} {
		r := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(raw)}}
		if got, err := revision.Spec(r); err == nil {
			t.Errorf("%s gives %+v", name, got)
		}
	}
}
