package phases

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// moduleLink brings the DRBD kernel module onto the members.
type moduleLink struct{}

func (moduleLink) State() fsm.State          { return fsm.KernelModule }
func (moduleLink) Missing() fsm.Event        { return fsm.ModuleMissing }
func (moduleLink) Condition() string         { return v1alpha1.ConditionKernelModuleLoaded }
func (moduleLink) Hold() v1alpha1.HoldReason { return v1alpha1.HoldKernelModuleFailed }

func (moduleLink) Evidence(s *Snapshot) Evidence {
	if h := s.signingKeyHold(); h != nil {
		return Evidence{State: Failed, Reason: string(h.Reason), Message: h.Message, Total: len(s.Members), Hold: h}
	}
	e := s.perMember(everyMember, func(m *Member) bool { return m.moduleOK })
	for _, want := range s.loaders() {
		if e.OK() && !matches(s.Kube.DaemonSets[want.Name], want) {
			e.State, e.Lost = Missing, true
			e.Reason, e.Message = "ModuleLoaderMissing", fmt.Sprintf("DaemonSet %s is missing or was changed", want.Name)
			return e
		}
	}
	e = describe(e, "ModuleLoaded", "LoadingModule", "nodes have DRBD")
	if pending := s.pendingReboot(); pending != "" && e.OK() {
		e.Message += "; " + pending
		if e.State == Satisfied {
			e.Reason = "RebootPending"
		}
	}
	if trouble := s.signingKeyTrouble(); trouble != "" {
		e.Message += "; the loaders cannot sign the module when a node boots: " + trouble
	}
	return e
}

func (moduleLink) Work(ctx context.Context, in *Input) error {
	if err := in.labelMembers(ctx); err != nil {
		return err
	}
	if in.signingKeyHold() != nil {
		return nil // pods would wait for the Secret's volume, and running ones would be gone
	}
	for _, want := range in.loaders() {
		if err := in.applyDaemonSet(ctx, want); err != nil {
			return err
		}
	}
	for _, idle := range in.idleLoaders() {
		if err := in.Writer.Delete(ctx, idle); err != nil {
			return err
		}
	}
	return nil
}

// idleLoaders are DaemonSets that no node uses any more. One that stayed would be out of date when a node comes that it fits,
// and load another version of the module there.
func (s *Snapshot) idleLoaders() []*appsv1.DaemonSet {
	var out []*appsv1.DaemonSet
	wanted := s.loaders()
	for _, ds := range s.Kube.DaemonSets {
		selector := labels.SelectorFromSet(ds.Spec.Template.Spec.NodeSelector)
		switch {
		case !ours(s.Cluster.Name, ds), ds.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentModuleLoader, ds.DeletionTimestamp != nil:
		case slices.ContainsFunc(wanted, func(w *appsv1.DaemonSet) bool { return w.Name == ds.Name }):
		case slices.ContainsFunc(s.Kube.Nodes, func(n *corev1.Node) bool { return selector.Matches(labels.Set(n.Labels)) }):
		default:
			out = append(out, ds)
		}
	}
	return out
}

// loaders are the DaemonSets that load the module: one for each operating system that the members have.
func (s *Snapshot) loaders() []*appsv1.DaemonSet {
	var keys []string
	var out []*appsv1.DaemonSet
	for _, m := range s.Members {
		if s.hasLoader(m) && !slices.Contains(keys, m.OSKey) {
			keys = append(keys, m.OSKey)
			p := s.Params()
			p.SigningKeyVersion = s.signingKeyVersion(resources.ModuleLoaderName(m.OSKey))
			out = append(out, resources.ModuleLoader(p, m.Profile, m.Loader))
		}
	}
	return out
}

// hasLoader is whether a module loader runs on the member; else something on the node itself loads DRBD.
func (s *Snapshot) hasLoader(m *Member) bool {
	return m.Profile.Mode(s.Target.Spec.KernelModule.Mode, m.Loader) != v1alpha1.ModulePreinstalled
}

// moduleOn is whether the member's loader is through. Where there is none, the member's satellite tells: it waits for the
// module before it starts.
func (s *Snapshot) moduleOn(m *Member) bool {
	if s.hasLoader(m) {
		return podReady(m.LoaderPod)
	}
	return m.Labelled && waitingSince(m.SatellitePod).IsZero()
}

// drbdSeen is whether LINSTOR sees DRBD on the node: a loader that ran is no proof that LINSTOR can use what it loaded.
func (s *Snapshot) drbdSeen(m *Member) bool { return slices.Contains(m.Linstor.Layers, "DRBD") }

func everyMember(*Member) bool { return true }

// describe gives evidence about members its reason and message.
func describe(e Evidence, done, doing, what string) Evidence {
	if e.Reason != "" {
		return e
	}
	e.Reason, e.Message = doing, fmt.Sprintf("%d of %d %s", e.Done, e.Total, what)
	if e.State == Satisfied {
		e.Reason = done
	}
	if e.Hold != nil {
		e.Reason, e.Message = string(e.Hold.Reason), e.Hold.Message
	}
	return e
}
