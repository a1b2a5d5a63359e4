package pools

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
)

// What the tests of this package look at inside of it.
const (
	LooksBeforeLost    = looksBeforeLost
	MostAllDeviceBytes = mostAllDeviceBytes
	StepFinish         = stepFinish
	StepForget         = stepForget
	StepModify         = stepModify
	StepRegister       = stepRegister
	StepRepair         = stepRepair
	StepVerify         = stepVerify
)

type PoolInUseError = poolInUseError

var (
	ConsentTo     = consentTo
	NewIntent     = newIntent
	RemoveOldPool = removeOldPool
	UsedPercent   = usedPercent
)

// RowOf is the name of the row that decides about a pool.
func RowOf(s *cluster.Snapshot, m *cluster.Member, p *cluster.MemberPool) string {
	c := &situation{MemberPool: p, s: s, m: m}
	return c.table().Find(c).Name
}

// Rows are the names of all rows.
func Rows() []string {
	var out []string
	for _, t := range []decisiontable.Table[*situation]{presence, absence} {
		for _, r := range t.Rows {
			out = append(out, r.Name)
		}
	}
	return out
}
