package specchange

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// offEtcd is the way off etcd, as the end of a message; "" for another database.
func offEtcd(kind v1alpha1.DatabaseKind) string {
	if kind != v1alpha1.DatabaseEtcd && kind != v1alpha1.DatabaseManagedEtcd {
		return ""
	}
	return ". Set spec.database to one of these (see docs/how-to/move-the-database.md): the operator moves LINSTOR's " +
		"data there when you resume with " + v1alpha1.OptionMigrate
}

// refuseEtcd says why the wanted etcd cannot be run; "" if it can, or none is wanted.
func refuseEtcd(f *cluster.Facts, e *etcdspec.ManagedEtcd) string {
	if e == nil {
		return ""
	}
	// CEL compares with the spec of before only: it sees neither an edit after one without managedEtcd, nor a
	// StorageCluster that is made again.
	if cm := f.Kube.ConfigMaps[etcdmember.Notes]; cm != nil {
		has := cm.Data[etcdmember.KeyPath]
		if has != "" && has != cmp.Or(e.DataPath, etcdspec.DefaultDataPath) {
			return fmt.Sprintf("the members' data is in %s: set spec.database.managedEtcd.dataPath to %s; if the API server "+
				"rejects that, set spec.suspend to true, remove managedEtcd, add it again with that dataPath, and then set "+
				"spec.suspend to false", has, has)
		}
	}
	if e.Version == "" {
		return ""
	}
	all := f.Catalogue.Etcd()
	if slices.ContainsFunc(all, func(o catalogue.Etcd) bool { return o.Version == e.Version }) {
		return ""
	}
	var known []string
	for _, o := range all {
		known = append(known, o.Version)
	}
	return fmt.Sprintf("this operator does not support etcd %s: set version to one of %s, or use an operator "+
		"version that supports it", e.Version, strings.Join(known, ", "))
}
