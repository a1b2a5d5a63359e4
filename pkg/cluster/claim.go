package cluster

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Database is what a look at the database without LINSTOR's help says. It is taken before the claim exists, and of the
// database that LINSTOR's data is to be moved into.
type Database struct {
	Checked bool
	Err     error
	// Contents are what the database holds already.
	connection.Contents
}

// Claim is the record of the database that this cluster uses; ok is false if there is none. One that an earlier
// cluster has released is none: the database is looked into again before it is used.
func (f *Facts) Claim() (data resources.ClaimData, ok bool) {
	if f.Recorded.Backend == "" || f.Recorded.ReleasedBy != "" {
		return resources.ClaimData{}, false
	}
	return f.Recorded, true
}

// AcceptedDatabase is the URL of the accepted spec's database; "" before the first acceptance.
func (f *Facts) AcceptedDatabase() string {
	if f.Target == nil {
		return ""
	}
	return connection.URL(&f.Target.Spec.Database)
}

// LeftVersion is the LINSTOR version in which a deleted cluster has left the wanted database; "" if none did.
func (f *Facts) LeftVersion() string {
	if f.Recorded.ReleasedBy == "" || !connection.Same(f.Recorded.Backend, connection.URL(&f.Cluster.Spec.Database)) {
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
