package resources

import (
	"bytes"
	"fmt"

	"github.com/BurntSushi/toml"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// controllerConfigKey is the file that LINSTOR reads in /etc/linstor.
const controllerConfigKey = "linstor.toml"

// linstorTOML is the part of linstor.toml that differs from LINSTOR's defaults.
type linstorTOML struct {
	DB dbTOML `toml:"db"`
}

type dbTOML struct {
	ConnectionURL string `toml:"connection_url"`
	User          string `toml:"user,omitempty"`
	Password      string `toml:"password,omitempty"`
}

// ControllerConfig is the object with linstor.toml: a ConfigMap, or a Secret of the same name if the database needs
// credentials, because LINSTOR reads them from no other place.
func ControllerConfig(p Params, db Database) client.Object {
	text := renderTOML(linstorTOML{DB: dbTOML{ConnectionURL: db.URL, User: db.User, Password: db.Password}})
	meta := objectMeta(ControllerConfigName, p.Cluster, v1alpha1.ComponentController)
	if needsSecret(&p.Spec.Database) {
		return &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: meta,
			Type:       corev1.SecretTypeOpaque,
			Data:       map[string][]byte{controllerConfigKey: text},
		}
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta,
		Data:       map[string]string{controllerConfigKey: string(text)},
	}
}

// needsSecret is whether the configuration has credentials in it.
func needsSecret(db *v1alpha1.DatabaseSpec) bool {
	switch {
	case db.Etcd != nil:
		return db.Etcd.CredentialsSecret != ""
	default:
		return db.PostgreSQL != nil || db.MariaDB != nil
	}
}

// configVolume is the volume with linstor.toml, from whatever ControllerConfig makes.
func configVolume(p Params) corev1.Volume {
	v := corev1.Volume{Name: "linstor-config"}
	if needsSecret(&p.Spec.Database) {
		v.Secret = &corev1.SecretVolumeSource{SecretName: ControllerConfigName}
	} else {
		v.ConfigMap = &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ControllerConfigName},
		}
	}
	return v
}

// renderTOML encodes with a real encoder: a password may hold quotes, and must not become configuration.
func renderTOML(v any) []byte {
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.Indent = ""
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // structs of strings can always be encoded
	}
	return b.Bytes()
}
