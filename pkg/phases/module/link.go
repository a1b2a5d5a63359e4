// Package module is the link that loads DRBD's kernel module: a DaemonSet for each kind of operating system, judged
// node by node.
package module

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/nodelabels"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Link is the link that brings the DRBD kernel module onto the members.
func Link() step.Link {
	return step.Link{State: fsm.KernelModule, Missing: fsm.ModuleMissing, Condition: conditions.KernelModuleLoaded,
		Hold: v1alpha1.HoldKernelModuleFailed, ClearsOn: []v1alpha1.HoldReason{v1alpha1.HoldKernelModuleFailed},
		Judge: judgeModule, Work: workModule, Through: moduleThrough}
}

func moduleThrough(m *cluster.Member) bool { return m.ModuleOK }

func judgeModule(s *cluster.Snapshot) cluster.Evidence {
	if h := signingKeyHold(s); h != nil {
		return cluster.Evidence{State: cluster.Failed, Reason: string(h.Reason), Message: h.Message, Hold: h,
			Total: len(s.Members)}
	}
	e := step.JudgeMembers(s, func(*cluster.Member) bool { return true }, moduleThrough)
	fresh := ""
	for _, want := range Loaders(s) {
		undone := step.Undone("DaemonSet "+want.Name, s.Kube.DaemonSets[want.Name], want)
		if joined := newSystem(s, want); e.OK() && joined != "" {
			fresh += "; " + joined
		} else if e.OK() && undone != "" {
			e.State, e.Lost = cluster.Missing, true
			e.Reason, e.Message = "ModuleLoaderMissing", undone
			return e
		}
	}
	e = step.Describe(e, "ModuleLoaded", "LoadingModule", "nodes have DRBD loaded")
	if away := loadersAway(s, e); away != "" {
		e.Message = away
	}
	e.Message += fresh
	if pending := pendingReboot(s); pending != "" && e.OK() {
		e.Message += "; " + pending
		if e.State == cluster.Satisfied {
			e.Reason = "RebootPending"
		}
	}
	if trouble := SigningKeyTrouble(s); trouble != "" {
		e.Message += "; the loaders cannot sign the module when a node boots: " + trouble
	}
	for _, want := range Loaders(s) {
		e.Message += step.ForeignNote("DaemonSet", s.Kube.DaemonSets[want.Name], want)
	}
	return e
}

// newSystem says that a loader is not there yet because its operating system is new to the cluster: only nodes that
// join have it. That is no loss, and no reason to go through the phases again for everybody. "" if a node that is
// through has it, or if it is there.
func newSystem(s *cluster.Snapshot, loader *appsv1.DaemonSet) string {
	if s.Kube.DaemonSets[loader.Name] != nil {
		return ""
	}
	var names []string
	for _, m := range s.Members {
		if !HasLoader(&s.Facts, m) || resources.ModuleLoaderName(m.OSKey) != loader.Name {
			continue
		}
		if !m.Joining {
			return ""
		}
		names = append(names, m.Name)
	}
	return fmt.Sprintf("a node with a new operating system has joined (%s): DaemonSet %s is being created",
		text.QuoteList(names), loader.Name)
}

func workModule(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	errs := []error{nodelabels.Write(ctx, in)}
	if signingKeyHold(s) != nil {
		return errors.Join(errs...) // pods would wait for the Secret's volume, and running ones would be gone
	}
	wanted := Loaders(s)
	for _, want := range wanted {
		errs = append(errs, in.ApplyDaemonSet(ctx, want))
	}
	for _, ds := range s.Kube.DaemonSets {
		if idle(s, ds, wanted) {
			errs = append(errs, in.Writer.Delete(ctx, ds))
		}
	}
	return errors.Join(errs...)
}

// idle reports whether no node uses a loader's DaemonSet any more. One that stayed would be out of date when a node
// comes that it fits, and load another version of the module there.
func idle(s *cluster.Snapshot, ds *appsv1.DaemonSet, wanted []*appsv1.DaemonSet) bool {
	selector := labels.SelectorFromSet(ds.Spec.Template.Spec.NodeSelector)
	return cluster.Ours(s.Cluster.Name, ds) && ds.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentModuleLoader &&
		ds.DeletionTimestamp == nil &&
		!slices.ContainsFunc(wanted, func(w *appsv1.DaemonSet) bool { return w.Name == ds.Name }) &&
		!slices.ContainsFunc(s.Kube.Nodes, func(n *corev1.Node) bool { return selector.Matches(labels.Set(n.Labels)) })
}

// Loaders are the DaemonSets that load the module: one for each operating system that the members have.
func Loaders(s *cluster.Snapshot) []*appsv1.DaemonSet {
	var keys []string
	var out []*appsv1.DaemonSet
	for _, m := range s.Members {
		if HasLoader(&s.Facts, m) && !slices.Contains(keys, m.OSKey) {
			keys = append(keys, m.OSKey)
			p := s.Params()
			p.SigningKeyVersion = signingKeyVersion(s, resources.ModuleLoaderName(m.OSKey))
			out = append(out, resources.ModuleLoader(p, m.Profile, m.Loader))
		}
	}
	return out
}

// FindOldLoaders marks the members whose loader's pod is not as its DaemonSet shall make it.
func FindOldLoaders(s *cluster.Snapshot) {
	wanted := map[string]string{}
	for _, ds := range Loaders(s) {
		wanted[ds.Labels[v1alpha1.LabelOS]] = resources.TemplateHash(ds)
	}
	for _, m := range s.Members {
		p := m.LoaderPod
		m.OldLoader = p != nil && HasLoader(&s.Facts, m) &&
			p.Annotations[resources.AnnotationTemplateHash] != wanted[m.OSKey]
	}
}

// OldLoaders counts them. Where nothing is exchanged, nobody waits for it: a node that is under maintenance or leaves
// is left out.
func OldLoaders(s *cluster.Snapshot) int {
	return s.Count(func(m *cluster.Member) bool { return m.Counts() && m.OldLoader })
}

// HasLoader reports whether a module loader runs on the member; else something on the node itself loads DRBD.
func HasLoader(s *cluster.Facts, m *cluster.Member) bool {
	return m.Profile.Mode(s.Target.Spec.KernelModule.Mode, m.Loader) != v1alpha1.ModulePreinstalled
}

// Loaded reports whether the member's loader is through. Where there is none, the member's satellite shows it: it
// waits for the module before it starts.
func Loaded(s *cluster.Facts, m *cluster.Member) bool {
	if HasLoader(s, m) {
		return cluster.PodReady(m.LoaderPod)
	}
	return m.Labelled && waitingSince(m.SatellitePod).IsZero()
}

// loadersAway says how many members have DRBD where not every loader runs: a loader that is exchanged, or cannot be,
// takes the module from nowhere. While LINSTOR does not say where it sees DRBD, the message counts loaders alone: that
// no node has DRBD would alarm somebody who only changed an image. "" if LINSTOR sees DRBD on none of the members
// whose loader does not run.
func loadersAway(s *cluster.Snapshot, e cluster.Evidence) string {
	if s.WasReady() && !s.Linstor.Known() && e.Done < e.Total && e.Hold == nil {
		return fmt.Sprintf("%d of %d module loaders are ready; DRBD stays loaded where it was loaded before", e.Done,
			e.Total)
	}
	seen := s.Count(func(m *cluster.Member) bool {
		return m.Counts() && !m.ModuleOK && HasLoader(&s.Facts, m) && m.Online && m.DrbdSeen()
	})
	if seen == 0 || e.Hold != nil {
		return ""
	}
	return fmt.Sprintf("%d of %d nodes have DRBD loaded; %d of %d loaders are ready", e.Done+seen, e.Total, e.Done,
		e.Total)
}

// SigningKeyTrouble says what is wrong with the Secret that loaders sign the module with; "" if nothing is, or if none
// signs. The text contains nothing of the Secret.
func SigningKeyTrouble(s *cluster.Snapshot) string {
	if s.Count(func(m *cluster.Member) bool { return signs(&s.Facts, m) }) == 0 {
		return ""
	}
	const field = "spec.kernelModule.signingKeySecret"
	name := s.Target.Spec.KernelModule.SigningKeySecret
	secret := s.Kube.Secrets[name]
	if secret == nil {
		return fmt.Sprintf("%s: Secret %s does not exist in namespace %s", field, name, v1alpha1.WorkloadNamespace)
	}
	for _, key := range []string{resources.SigningKey, resources.SigningCertificate} {
		if len(secret.Data[key]) == 0 {
			return fmt.Sprintf("%s: Secret %s in namespace %s has no %s key",
				field, name, v1alpha1.WorkloadNamespace, key)
		}
	}
	return ""
}

func signs(s *cluster.Facts, m *cluster.Member) bool {
	return resources.Signs(s.Target.Spec, m.Profile, m.Loader)
}

// signingKeyHold is the hold before loaders are started, or changed, that would wait for their key for ever. Loaders
// that were started with the key go on without it: a loaded module needs it no more.
func signingKeyHold(s *cluster.Snapshot) *cluster.HoldRequest {
	trouble := SigningKeyTrouble(s)
	differs := func(want *appsv1.DaemonSet) bool { return !step.Matches(s.Kube.DaemonSets[want.Name], want) }
	if trouble == "" || !slices.ContainsFunc(Loaders(s), differs) {
		return nil
	}
	return &cluster.HoldRequest{Reason: v1alpha1.HoldSigningKeyUnusable, Message: trouble}
}

// staleLoader reports whether the member's loader pod was started with another key than it is to use. What became of
// that pod says nothing: it is being replaced.
func staleLoader(s *cluster.Snapshot, m *cluster.Member) bool {
	if m.LoaderPod == nil || !signs(&s.Facts, m) {
		return false
	}
	version := m.LoaderPod.Annotations[resources.AnnotationSigningKeyVersion]
	return version != signingKeyVersion(s, resources.ModuleLoaderName(m.OSKey))
}

// signingKeyVersion is the version of the key that a loader's DaemonSet is to use: the Secret's, or while that cannot
// be used the one that it was started with.
func signingKeyVersion(s *cluster.Snapshot, daemonSet string) string {
	secret := s.Kube.Secrets[s.Target.Spec.KernelModule.SigningKeySecret]
	if secret != nil && SigningKeyTrouble(s) == "" {
		return resources.SigningKeyVersion(secret)
	}
	if live := s.Kube.DaemonSets[daemonSet]; live != nil {
		return live.Spec.Template.Annotations[resources.AnnotationSigningKeyVersion]
	}
	return ""
}
