package controller

import (
	"context"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// setEpoch gives LINSTOR the claim's number, where it has none or a lower one. It is a write of its own: LINSTOR
// refuses a request with one bad property whole, and the number would stay behind as long as the spec has one.
func setEpoch(in *step.Input) {
	s := in.Snapshot
	claim, _ := s.Claim()
	n := epoch.Parse(claim.Epoch).Number
	if n <= epoch.In(s.Linstor.View) {
		return
	}
	number := strconv.Itoa(n)
	in.Ensure(work.Task{Key: epochKey, Input: number, Do: func(ctx context.Context) error {
		return in.API.SetProperties(ctx, map[string]string{linstor.PropEpoch: number}, nil)
	}})
}

// closeDebugListener keeps a controller with key store and trust store from opening a listener that nobody needs. It
// counts from the controller's next start on, so that a controller which runs without stores is exchanged after it.
// Like the number it is a write of its own: nothing hangs on it, and a LINSTOR that does not know the property must
// not refuse the others.
func closeDebugListener(in *step.Input) {
	s := in.Snapshot
	if s.Linstor.View == nil || !s.Netcom.Controller.Locked() || listenerOff(s) {
		return
	}
	in.Ensure(work.Task{Key: listenerKey, Input: off, Do: func(ctx context.Context) error {
		return in.API.SetProperties(ctx, map[string]string{netcomtls.PropDebugListener: off}, nil)
	}})
}

const off = "False" // as LINSTOR writes it

func listenerOff(s *cluster.Snapshot) bool {
	return strings.EqualFold(s.Linstor.View.Properties[netcomtls.PropDebugListener], off)
}

// listenerFirst reports whether the controller waits for the end of that listener before it gets its stores. One that
// refuses the property is not waited for, nor is one that does not answer, or that takes the property and does not
// show it for long.
func listenerFirst(s *cluster.Snapshot) bool {
	d := s.Kube.Deployments[resources.ControllerName]
	if d == nil || s.Linstor.View == nil || !s.Netcom.Controller.Locked() || listenerOff(s) {
		return false
	}
	c := meta.FindStatusCondition(s.Cluster.Status.Conditions, conditions.ControllerReady)
	late := c != nil && c.Reason == reasonClosingListener && s.Now.Sub(c.LastTransitionTime.Time) > s.Timing.Straggler
	return !netcom.Locked(&d.Spec.Template) && !late && s.TaskStates[listenerKey].Err == nil
}
