package database_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/etcdspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/database"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// TestStuckSaysWhy: a hold about a step that has no effect says what that failed with. Other holds are about members.
func TestStuckSaysWhy(t *testing.T) {
	for reason, says := range map[membership.Reason]bool{membership.EtcdStuck: true, membership.EtcdQuorumLost: false} {
		w := clustertest.NewWorld(t, 1)
		w.Cluster.Spec.Version = "1.33.3"
		w.Cluster.Spec.Database.ManagedEtcd = &etcdspec.ManagedEtcd{}
		w.Accept()
		w.Claim(func(c *resources.ClaimData) { c.Backend = "managed-etcd" })
		in, _ := w.Input()
		in.Snapshot.Etcd = serving(1)
		in.Snapshot.Etcd.Decision.Hold = &membership.Hold{Reason: reason,
			Advice: advice.Advice{Message: "no effect", Plan: "Look"}}
		in.Snapshot.TaskStates = map[string]work.State{etcd.Task: {Err: errors.New("no snapshot")}}
		want := "no effect. Look"
		if says {
			want = "no effect. The last attempt failed: no snapshot. Look"
		}
		if e := database.Link().Judge(in.Snapshot); e.Hold == nil || e.Hold.Message != want {
			t.Errorf("%s: %+v", reason, e.Hold)
		}
	}
}

// serving is an etcd of that size with one member, which has a quorum.
func serving(size int) *etcd.Known {
	k := &etcd.Known{}
	k.Facts.Size, k.Facts.Notes.ClusterID = size, 7
	k.Facts.Look = view.New(view.Answer{Endpoint: "http://a:3379", ClusterID: 7, Linearizable: true})
	k.Decision.Endpoints, k.Decision.Row = []string{"http://a:3379"}, "grow"
	return k
}

// TestEtcdEvidence: LINSTOR is not started before all members are there, nor on ones without a quorum.
func TestEtcdEvidence(t *testing.T) {
	away := serving(1)
	away.Facts.Look = view.New()
	for name, tc := range map[string]struct {
		etcd    *etcd.Known
		claimed bool
		state   cluster.EvidenceState
		why     string
	}{
		"not looked at":           {nil, false, cluster.Unknown, "EtcdUnknown"},
		"notes cannot be read":    {etcd.Failed(errors.New("x")), true, cluster.Unknown, "EtcdUnknown"},
		"the first of three":      {serving(3), false, cluster.Missing, "StartingEtcd"},
		"all, not looked into":    {serving(1), false, cluster.Missing, "CheckingDatabase"},
		"no quorum":               {away, false, cluster.Missing, "StartingEtcd"},
		"claimed":                 {serving(3), true, cluster.Satisfied, "DatabaseClaimed"},
		"claimed, without quorum": {away, true, cluster.Missing, "EtcdUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := clustertest.NewWorld(t, 1)
			w.Cluster.Spec.Version = "1.33.3"
			w.Cluster.Spec.Database.ManagedEtcd = &etcdspec.ManagedEtcd{}
			w.Accept()
			if tc.claimed {
				w.Claim(func(c *resources.ClaimData) { c.Backend = "managed-etcd" })
			} else {
				w.Unclaimed()
				delete(w.Kube.Deployments, resources.ControllerName)
				w.Cluster.Status.Database = ""
			}
			in, r := w.Input()
			in.Snapshot.Etcd = tc.etcd
			if e := database.Link().Judge(in.Snapshot); tc.why != "CheckingDatabase" && tc.etcd != nil && tc.etcd.Err == nil &&
				!strings.Contains(e.Message, "1 of ") {
				t.Errorf("%s does not say what goes on in etcd", e.Message)
			}
			clustertest.CheckEvidence(t, database.Link().Judge(in.Snapshot), tc.state, tc.why, false, "")
			if err := database.Link().Work(t.Context(), in); err != nil || !tc.claimed && len(r.Applied) > 0 {
				t.Errorf("%v, %v", r.Calls, err)
			}
			_, err := controller.DatabaseAccess(&in.Snapshot.Facts, &in.Snapshot.Target.Spec.Database)
			if starts := err == nil; starts != (tc.etcd != nil && tc.etcd.Err == nil && (tc.etcd != away || tc.claimed)) {
				t.Errorf("LINSTOR may be started: %v", err)
			}
		})
	}
}
