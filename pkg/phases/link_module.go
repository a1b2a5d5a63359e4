package phases

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

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
	e := s.perMember(everyMember, func(m *Member) bool { return m.moduleOK })
	for _, want := range s.loaders() {
		if e.OK() && !matches(s.Kube.DaemonSets[want.Name], want) {
			e.State, e.Lost = Missing, true
			e.Reason, e.Message = "ModuleLoaderMissing", fmt.Sprintf("DaemonSet %s is missing or was changed", want.Name)
			return e
		}
	}
	return describe(e, "ModuleLoaded", "LoadingModule", "nodes have DRBD")
}

func (moduleLink) Work(ctx context.Context, in *Input) error {
	if err := in.labelMembers(ctx); err != nil {
		return err
	}
	for _, want := range in.loaders() {
		if err := in.applyDaemonSet(ctx, want); err != nil {
			return err
		}
	}
	return nil
}

// loaders are the DaemonSets that load the module: one for each operating system that the members have.
func (s *Snapshot) loaders() []*appsv1.DaemonSet {
	if s.Target.Spec.KernelModule.Mode == v1alpha1.ModulePreinstalled {
		return nil
	}
	var keys []string
	var out []*appsv1.DaemonSet
	for _, m := range s.Members {
		if !slices.Contains(keys, m.Loader.Key) {
			keys = append(keys, m.Loader.Key)
			out = append(out, resources.ModuleLoader(s.Params(), m.Loader))
		}
	}
	return out
}

// moduleOn is whether the member has the module as far as Kubernetes can tell. LINSTOR's word comes later: drbdSeen.
func (s *Snapshot) moduleOn(m *Member) bool {
	if s.Target.Spec.KernelModule.Mode == v1alpha1.ModulePreinstalled {
		return m.Labelled
	}
	return podReady(m.LoaderPod)
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
