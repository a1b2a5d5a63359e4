package database

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// etcdEvidence is what keeps LINSTOR from the etcd that the operator runs; stops is false if nothing does, and where
// it runs none. Then its message says what is going on there. Before LINSTOR's first start all members must be there:
// each one that comes later restarts LINSTOR.
func etcdEvidence(s *cluster.Facts) (e cluster.Evidence, stops bool) {
	if s.Target.Spec.Database.ManagedEtcd == nil {
		return e, false
	}
	k := s.Etcd
	_, claimed := s.Claim()
	message := k.Message()
	if err := s.TaskStates[etcd.Task].Err; err != nil {
		message += ": " + err.Error()
	}
	message = text.OneLine(message)
	switch {
	case k == nil || k.Err != nil:
		return cluster.Unknown.Because("EtcdUnknown", message), true
	case !claimed && !k.Complete():
		e = cluster.Missing.Because("StartingEtcd", message)
		e.Done, e.Total = len(k.Decision.Endpoints), k.Facts.Size
		return e, true
	case !k.Serves():
		return cluster.Missing.Because("EtcdUnavailable", message), true
	case k.Decision.Step != membership.Rest || k.Decision.Hold != nil:
		e.Message = message // LINSTOR works meanwhile
	}
	return e, false
}
