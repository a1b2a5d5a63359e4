package cluster

import (
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Database is what a look at the database without LINSTOR's help says. It is taken only before the claim exists.
type Database struct {
	Checked bool
	Err     error
	// Nodes are the LINSTOR nodes that the database holds already, ten at most.
	Nodes []string
}

// Claim is the record of the database that this cluster uses; ok is false if there is none. One that an earlier
// cluster has released is none: the database is looked into again before it is used.
func (f *Facts) Claim() (data resources.ClaimData, ok bool) {
	if f.Recorded.Backend == "" || f.Recorded.ReleasedBy != "" {
		return resources.ClaimData{}, false
	}
	return f.Recorded, true
}

// LeftVersion is the LINSTOR version in which a deleted cluster has left the wanted database; "" if none did.
func (f *Facts) LeftVersion() string {
	if f.Recorded.ReleasedBy == "" || !SameDatabase(f.Recorded.Backend, connection.URL(&f.Cluster.Spec.Database)) {
		return ""
	}
	return f.Recorded.Version
}

// NeverStarted reports whether LINSTOR has not run on the database yet: then there is nothing to upgrade.
func NeverStarted(claim resources.ClaimData) bool { return claim.LocalID == "" && !claim.Adopted }

// NeverUsed reports whether LINSTOR has no volume on a member that is not in its view: it answers, or never has yet.
func (f *Facts) NeverUsed() bool {
	claim, _ := f.Claim()
	return f.Linstor.Known() || f.ClaimErr == nil && NeverStarted(claim)
}

// SameDatabase lets the parts of a URL change that do not name other data: parameters, and etcd's endpoints.
func SameDatabase(a, b string) bool {
	trim := func(s string) string { s, _, _ = strings.Cut(s, "?"); return s }
	if strings.HasPrefix(a, "etcd://") && strings.HasPrefix(b, "etcd://") {
		return true
	}
	return trim(a) == trim(b)
}
