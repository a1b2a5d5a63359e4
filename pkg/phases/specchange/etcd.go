package specchange

import (
	"fmt"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
)

// offEtcd is the way off etcd, as the end of a message; "" for another database.
func offEtcd(kind v1alpha1.DatabaseKind) string {
	if kind != v1alpha1.DatabaseEtcd && kind != v1alpha1.DatabaseManagedEtcd {
		return ""
	}
	return ". Set spec.database to one of these, as in docs/how-to/move-the-database.md: the operator moves LINSTOR's " +
		"data there once you have answered " + v1alpha1.OptionMigrate
}

// refuseEtcd says why the wanted etcd cannot be run; "" if it can, or none is wanted.
func refuseEtcd(f *cluster.Facts, e *etcdspec.ManagedEtcd) string {
	if e == nil || e.Version == "" {
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
	return fmt.Sprintf("this operator does not know etcd %s; it knows %s", e.Version, strings.Join(known, ", "))
}
