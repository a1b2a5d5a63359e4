package deleting_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/membership"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// TestMembersStopAfterLinstor: the controller's Deployment is gone before its pod is.
func TestMembersStopAfterLinstor(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	p := resources.Params{Cluster: w.Cluster.Name, Spec: &w.Cluster.Spec}
	c := seats.Configuration{Expectation: datadir.Expectation{Name: "n01-1"}, Version: "3.6.14"}
	ds := etcdmember.DaemonSet(p, etcdmember.Site{}, "n01", c)
	w.Kube.DaemonSets = map[string]*appsv1.DaemonSet{ds.Name: ds}
	w.Kube.Deployments, w.Kube.Pods = nil, nil
	decide := func() (step.Outcome, []string) {
		in, r := w.Input()
		return phases.Decide(t.Context(), in), r.Calls
	}
	o, calls := decide()
	if o.Kind != step.KindWait || !strings.Contains(o.Message, "controller is still terminating") || len(calls) > 0 {
		t.Errorf("%s (%s), %v", o.Kind, o.Message, calls)
	}
	pod := w.Kube.ControllerPods[0]
	w.KubeNode("n01").Status.Conditions[0].Status = corev1.ConditionUnknown // no kubelet tells that it has stopped
	want := []string{"delete DaemonSet/" + ds.Name}
	if o, calls := decide(); !slices.Equal(calls, want) {
		t.Errorf("on a dead node: %s (%s), %v", o.Kind, o.Message, calls)
	}
	w.KubeNode(pod.Spec.NodeName).Status.Conditions[0].Status = corev1.ConditionTrue
	w.Kube.ControllerPods = nil
	if o, calls := decide(); !slices.Equal(calls, want) {
		t.Errorf("%s (%s), %v", o.Kind, o.Message, calls)
	}
}

// TestADeletionTellsOfEtcd: nobody is asked about members then, and their data says whether volumes exist.
func TestADeletionTellsOfEtcd(t *testing.T) {
	w := clustertest.DeletedWorld(t, 2)
	w.Phase(v1alpha1.PhaseDeleting, time.Hour)
	w.Silent(errors.New("x"))
	w.Etcd = &etcd.Known{}
	w.Etcd.Facts.Notes.ClusterID = 7
	w.Etcd.Decision.Hold = &membership.Hold{Reason: membership.EtcdQuorumLost,
		Advice: advice.Advice{Message: "etcd has no quorum."}}
	in, _ := w.Input()
	o := phases.Decide(t.Context(), in)
	const want = "; etcd has no quorum (to choose how to resolve this, recreate the StorageCluster"
	if o.Kind != step.KindHold || !strings.Contains(o.Hold.Message, want) {
		t.Errorf("%s %s (%s)", o.Kind, o.Reason, o.Message)
	}
}
