package phases

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Snapshot is all that one reconcile knows. Nobody changes it after it was taken.
type Snapshot struct {
	Now       time.Time
	Timing    Timing
	Catalogue *catalogue.Catalogue
	// Cluster is the StorageCluster as read.
	Cluster *v1alpha1.StorageCluster
	// Target is the accepted spec; nil before the first acceptance.
	Target *Target
	Kube   Kube
	// Linstor is the view of LINSTOR.
	Linstor Linstor
	// Database is what is known of the database without LINSTOR's help.
	Database Database
	// TaskStates are the background writes that failed last, by key.
	TaskStates map[string]work.State
	// Members are the nodes that take part, by name.
	Members []*Member
	// Gone are the nodes that took part and whose Node object was deleted, by name.
	Gone []*Gone

	mass MassFailure

	// upgrade is the change of version that is pending or going on; nil if none is.
	upgrade *Upgrade

	// wwns are the nodes that have a disk of a WWN, in lower case.
	wwns map[string][]string
}

// Target is the accepted spec.
type Target struct {
	// Name is the ControllerRevision's.
	Name string
	Spec *v1alpha1.StorageClusterSpec
	// Release is the catalogue's entry for the accepted version.
	Release catalogue.Release
}

// Kube is what the API server's objects say, from the cache.
type Kube struct {
	Nodes       []*corev1.Node
	DaemonSets  map[string]*appsv1.DaemonSet
	Deployments map[string]*appsv1.Deployment
	Services    map[string]*corev1.Service
	ConfigMaps  map[string]*corev1.ConfigMap
	Secrets     map[string]*corev1.Secret
	Revisions   map[string]*appsv1.ControllerRevision
	// Pods are those of our components, by component and node name.
	Pods map[string]map[string]*corev1.Pod
	// ControllerPods are the pods of the controller's Deployment.
	ControllerPods []*corev1.Pod
	// LocalVolumePaths are device paths that local PersistentVolumes name, by node.
	LocalVolumePaths map[string][]string
}

// Linstor is the view of LINSTOR, if there is one.
type Linstor struct {
	// View is nil when Err is set or LINSTOR was not asked.
	View *linstor.View
	// Err says why there is no view.
	Err error
	// Asked is false when no controller can be there to answer.
	Asked bool
	// Down remembers the nodes that are not ONLINE, by lower-case name.
	Down map[string]Down
}

// Known is whether there is a view to decide on.
func (l Linstor) Known() bool { return l.View != nil }

// Database is what a look at the database without LINSTOR's help says. It is taken only before the claim exists.
type Database struct {
	// Checked is false when no look was taken.
	Checked bool
	// Err says why the look failed.
	Err error
	// Nodes are the LINSTOR nodes that the database holds already, ten at most.
	Nodes []string
}

// Claim is the record of the database that this cluster uses; ok is false if there is none. One that an earlier cluster has
// released is none: the database is looked into again before it is used.
func (s *Snapshot) Claim() (resources.ClaimData, bool, error) {
	data, found, err := s.recorded()
	if err != nil || !found || data.ReleasedBy != "" {
		return resources.ClaimData{}, false, err
	}
	return data, true, nil
}

// recorded is the claim, whoever's.
func (s *Snapshot) recorded() (data resources.ClaimData, found bool, err error) {
	cm, found := s.Kube.ConfigMaps[resources.ClaimName]
	if !found {
		return resources.ClaimData{}, false, nil
	}
	data, err = resources.ClaimFrom(cm)
	return data, true, err
}

// wantedDatabase is the database that the cluster works with, or shall work with.
func (s *Snapshot) wantedDatabase() *v1alpha1.DatabaseSpec {
	if s.Target != nil {
		return &s.Target.Spec.Database
	}
	return &s.Cluster.Spec.Database
}

// leftVersion is the LINSTOR version that an earlier cluster, deleted with the policy Delete, has left the wanted database in;
// "" if none did.
func (s *Snapshot) leftVersion() string {
	data, _, _ := s.recorded()
	if data.ReleasedBy == "" || !sameDatabase(data.Backend, resources.DatabaseURL(&s.Cluster.Spec.Database)) {
		return ""
	}
	return data.Version
}

// Params are the builders' parameters for the accepted spec, with the release that the controller shall run now.
func (s *Snapshot) Params() resources.Params { return s.paramsOf(s.controllerRelease()) }

// satelliteParams are the same with the release that satellites shall run now.
func (s *Snapshot) satelliteParams() resources.Params { return s.paramsOf(s.satelliteRelease()) }

func (s *Snapshot) paramsOf(r catalogue.Release) resources.Params {
	return resources.Params{Cluster: s.Cluster.Name, Spec: s.Target.Spec, Version: r.Version, Release: r}
}

// Phase is the phase that the status names; Pending if none.
func (s *Snapshot) Phase() v1alpha1.Phase {
	if s.Cluster.Status.Phase == "" {
		return v1alpha1.PhasePending
	}
	return s.Cluster.Status.Phase
}

// PhaseAge is how long the phase has gone on without progress. Time in which the user had suspended the cluster before does
// not count.
func (s *Snapshot) PhaseAge() time.Duration {
	st := &s.Cluster.Status
	begin := time.Time{}
	for _, t := range []*metav1.Time{st.PhaseSince, st.ProgressSince} {
		if t != nil && t.After(begin) {
			begin = t.Time
		}
	}
	if begin.IsZero() {
		return 0
	}
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionSuspended); c != nil && c.LastTransitionTime.After(begin) {
		begin = c.LastTransitionTime.Time
	}
	return s.Now.Sub(begin)
}
