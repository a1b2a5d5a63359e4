package database

import (
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons of evidence that waits for members of etcd.
const (
	startingEtcd    = "StartingEtcd"
	etcdUnavailable = "EtcdUnavailable"
)

// WaitsForEtcd reports whether that is the reason of evidence that waits for members of etcd.
func WaitsForEtcd(reason string) bool { return reason == startingEtcd || reason == etcdUnavailable }

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
	case k.Decision.Hold != nil:
		return cluster.Asks(message, question(k, s.TaskStates[etcd.Task].Err)), true
	case !claimed && !k.Complete():
		e = cluster.Missing.Because(startingEtcd, message)
		e.Done, e.Total = len(k.Decision.Endpoints), k.Facts.Size
		return e, true
	case !k.Serves():
		return cluster.Missing.Because(etcdUnavailable, message), true
	case k.Decision.Step != membership.Rest:
		e.Message = message // LINSTOR works meanwhile
	}
	return e, false
}

// question is what a human is asked about members. It lists the nodes of those that an answer may be about: answers
// name nodes, and advice names members. Why the step failed that has no effect belongs to it: nobody may wait for what
// cannot succeed.
func question(k *etcd.Known, failed error) cluster.HoldRequest {
	h, about := k.Decision.Hold, k.Decision.Seat
	r := cluster.HoldRequest{Reason: v1alpha1.HoldReason(h.Reason)}
	words := []string{"@<member>", "@<node>"}
	if about.Name != "" {
		words = append(words, "@"+about.Name, "@"+about.Node)
	}
	for _, s := range k.Facts.Notes.Seats {
		if about.Name == "" || about.Name == s.Name {
			r.Nodes = append(r.Nodes, s.Node)
		}
	}
	r.Message = h.Message + ". "
	if r.Reason == v1alpha1.HoldEtcdStuck && failed != nil {
		r.Message += "The last attempt failed: " + text.OneLine(failed.Error()) + ". "
	}
	r.Message += strings.NewReplacer(words...).Replace(h.Plan)
	if r.Reason == v1alpha1.HoldEtcdStuck && k.Facts.Notes.ClusterID == 0 && len(r.Nodes) > 0 { // it has never served
		r.Options = []string{v1alpha1.OptionRetry, v1alpha1.OptionForsake}
	}
	return r
}
