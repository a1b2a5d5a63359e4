package controller

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// DatabaseAccess is a database's URL and credentials; an error names what is missing in the Secret.
func DatabaseAccess(s *cluster.Facts, spec *v1alpha1.DatabaseSpec) (connection.Settings, error) {
	db := connection.Settings{URL: connection.URL(spec)}
	if spec.ManagedEtcd != nil {
		return etcdAccess(s)
	}
	name := connection.CredentialsSecret(spec)
	if name == "" {
		return db, nil
	}
	secret := s.Kube.Secrets[name]
	path, field := v1alpha1.WorkloadNamespace+"/"+name,
		fmt.Sprintf("spec.database.%s.credentialsSecret", connection.Kind(spec))
	if secret == nil {
		return db, fmt.Errorf("the Secret %s does not exist, but %s refers to it: create it with username and password keys",
			path, field)
	}
	db.User, db.Password = string(secret.Data["username"]), string(secret.Data["password"])
	if db.User == "" {
		return db, fmt.Errorf("the Secret %s does not contain a username key, which %s requires", path, field)
	}
	return db, nil
}

// etcdAccess is where LINSTOR finds the etcd that the operator runs. It is an error where LINSTOR must not be started:
// on members of another cluster, and on ones without a quorum.
func etcdAccess(s *cluster.Facts) (db connection.Settings, err error) {
	if db.URL, err = s.Etcd.URL(configuredURL(s)); err != nil {
		return db, err
	}
	switch {
	case !s.Etcd.Ours():
		return db, errors.New("some of the responding etcd members belong to another cluster")
	case !s.Etcd.Serves() && s.Kube.Deployments[resources.ControllerName] == nil:
		return db, errors.New("etcd has no quorum")
	default:
		return db, nil
	}
}

// urlLine is the one with the database's URL in linstor.toml.
var urlLine = regexp.MustCompile(`(?m)^connection_url = "([^"]*)"$`)

// configuredURL is the database's URL in the configuration that the controller has; "" if it has none.
func configuredURL(s *cluster.Facts) string {
	cm := s.Kube.ConfigMaps[resources.ControllerConfigName]
	if cm == nil {
		return ""
	}
	for _, file := range cm.Data {
		if m := urlLine.FindStringSubmatch(file); m != nil {
			return m[1]
		}
	}
	return ""
}

// credentialsVersion restarts the controller when the credentials change, and only then: a label on their Secret is no
// reason to stop LINSTOR. It is the resourceVersion that the Secret had when what is used of it changed last, kept
// beside the configuration that was made from it. The annotation of the pods is readable by whoever may read pods, so
// it must not be a hash of the password, which could be guessed from it.
func credentialsVersion(s *cluster.Facts, config client.Object) string {
	source := s.Kube.Secrets[connection.CredentialsSecret(&s.Target.Spec.Database)]
	want, ok := config.(*corev1.Secret)
	if !ok || source == nil {
		return ""
	}
	if live := s.Kube.Secrets[want.Name]; live != nil && equality.Semantic.DeepEqual(live.Data, want.Data) {
		return cmp.Or(live.Annotations[resources.AnnotationCredentialsVersion], source.ResourceVersion)
	}
	return source.ResourceVersion
}
