package databasebackup_test

import (
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
)

// TestMoversName: the pod of a move is found by its name although the members of the etcd have changed that the data
// comes from, and another move has another one.
func TestMoversName(t *testing.T) {
	p := resources.Params{Cluster: v1alpha1.ClusterName, Spec: &v1alpha1.StorageClusterSpec{}}
	mover := func(mark, from string) string {
		return databasebackup.Mover(p, &v1alpha1.StorageCluster{}, &databasebackup.Move{Image: "operator", Mark: mark,
			Config: "{}", From: from, To: &v1alpha1.DatabaseSpec{}}).Name
	}
	first := mover("k8s@1", "etcd://192.0.2.1:3379")
	if other := mover("k8s@1", "etcd://192.0.2.1:3379,192.0.2.2:3379"); other != first {
		t.Errorf("%s, then %s", first, other)
	}
	if mover("k8s@2", "etcd://192.0.2.1:3379") == first {
		t.Errorf("two moves have pod %s", first)
	}
}
