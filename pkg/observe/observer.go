// Package observe reads the facts that a reconcile decides on, has package judge make the snapshot of them, and
// remembers between reconciles what that needs. It writes nothing. A source that fails is recorded as failed; nothing
// is concluded from it here.
package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/apicerts"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/etcd"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/nodevolumes"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/selection"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/pace"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/judge"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/usernamespace"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// Prober looks into a database before LINSTOR was started on it.
type Prober interface {
	// Look returns what the database holds, as far as it says whose data it is.
	Look(ctx context.Context, spec *v1alpha1.DatabaseSpec, access connection.Settings) (connection.Contents, error)
}

// Viewer looks at LINSTOR.
type Viewer interface {
	View(ctx context.Context, want linstor.ViewOptions) (*linstor.View, error)
	Snapshots(ctx context.Context, nodes ...string) ([]linstor.Snapshot, error)
}

// TaskStates are the states of background writes.
type TaskStates interface {
	Errors() map[string]error
	State(key string) work.State
}

// Observer takes snapshots, one at a time. It keeps LINSTOR's last view for a short while, so that a burst of
// Kubernetes events does not become a burst of requests to LINSTOR.
type Observer struct {
	// Reader reads from the cache.
	Reader  client.Reader
	Linstor Viewer
	// Door is how LINSTOR is reached; nil where that never changes.
	Door   Door
	Prober Prober
	// Etcd speaks to the members of the etcd that the operator runs.
	Etcd  api.API
	Tasks TaskStates
	// Events reads Events from the API server: a cache of them would hold all of the namespace's for a few that are read
	// once in a while. nil: none are read.
	Events client.Reader
	// Discovery finds optional APIs; without it there are none.
	Discovery Discovery
	// Watches end with the definitions of optional APIs; nil where there are none.
	Watches Watches
	// Live reads past the cache: what optional APIs have, and the claim.
	Live      client.Reader
	Catalogue *catalogue.Catalogue
	Timing    cluster.Timing
	Clock     clock.PassiveClock
	// APIClock is what the API server's clock shows now, zero if that is not known; nil where it never is.
	APIClock func() time.Time
	// Version is this operator's own, and Image its image; "" if that is not known.
	Version, Image string
	// Disks makes each look at LINSTOR one at the disks of all nodes, for a spec that is not accepted yet.
	Disks bool

	mu       sync.Mutex // guards looks, which writes that end change as well
	looks    pace.Looks
	last     cluster.Linstor
	before   *linstor.View // the last view; it stays while LINSTOR is silent
	copiesAt time.Time     // when all copies of volumes were looked at last
	down     map[string]cluster.Down
	tainted  map[cluster.TaintedNode]cluster.TaintSince
	states   map[string]cluster.StateSince
	// takenPods are carried on from look to look as well.
	takenPods  map[types.UID]string
	devices    bool
	disks      diskMemory
	attached   map[string][]nodevolumes.Volume // raw disks of other drivers, when disks were looked at last
	passphrase controller.PassphraseMemory
	probe      cluster.Database
	probeAt    time.Time
	probed     string
	optional   optionalMemory
	// watchesSnapshots is true if the cache may watch kinds of the API of snapshots.
	watchesSnapshots bool
	warnings         warningMemory
	monitored        monitorMemory
	members          *etcd.Known // the last look
}

// Invalidate makes the next snapshot look at LINSTOR anew, because a write to it has ended.
func (o *Observer) Invalidate() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks.Dirty = true
}

// Refresh makes the next snapshot look at LINSTOR anew, however young the last view is: a human has just said that
// something changed.
func (o *Observer) Refresh() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks, o.probeAt, o.members = pace.Looks{}, time.Time{}, nil
}

// Observe takes a snapshot for the object as it was read.
func (o *Observer) Observe(ctx context.Context, c *v1alpha1.StorageCluster) (*cluster.Snapshot, error) {
	f := &cluster.Facts{Now: o.Clock.Now(), Timing: o.Timing, Catalogue: o.Catalogue, OperatorVersion: o.Version,
		OperatorImage: o.Image, Cluster: c, TaskStates: map[string]work.State{}}
	if err := o.kubernetes(ctx, f); err != nil {
		return nil, err
	}
	o.optional.look(ctx, o.Discovery, optional.Groups(), f)
	o.monitors(ctx, f)
	if cm := f.Kube.ConfigMaps[resources.ClaimName]; cm != nil {
		f.Recorded, f.ClaimErr = resources.ClaimFrom(cm)
	}
	f.Unreadable = o.target(f)
	specs := []*v1alpha1.StorageClusterSpec{&c.Spec}
	var tls *tlsspec.TLSSpec
	if f.Target != nil {
		tls = &f.Target.Spec.TLS
		specs = append(specs, f.Target.Spec) // what runs may still have the Secrets of before
	}
	redactSecrets(&f.Kube, specs...)
	f.Certificates = apicerts.Read(f.Kube.Secrets, tls, f.Now)
	if o.APIClock != nil {
		f.Certificates.APIClock = o.APIClock()
	}
	if err := o.drainBudget(ctx, f); err != nil {
		return nil, err
	}
	if err := o.driver(ctx, f); err != nil {
		return nil, err
	}
	if err := o.snapshots(ctx, f); err != nil {
		return nil, err
	}
	if err := o.volumes(ctx, f); err != nil {
		return nil, err
	}
	if err := o.backupClaim(ctx, f); err != nil {
		return nil, err
	}
	if err := o.canary(ctx, f); err != nil {
		return nil, err
	}
	f.Kube.Warnings = o.warnings.of(ctx, o, f)
	f.PassphraseDiffers = o.passphrase.Differs(f)
	o.tainted = selection.Remember(o.tainted, f)
	f.Tainted, f.States, f.TakenPods = o.tainted, o.states, o.takenPods
	o.door(f)
	f.Linstor = o.linstor(ctx, f)
	f.Certificates.Seen = o.seen(f)
	f.Etcd = o.etcd(ctx, f)
	f.Database = o.database(ctx, f)
	for key := range o.Tasks.Errors() {
		f.TaskStates[key] = o.Tasks.State(key)
	}
	s := phases.Judge(*f)
	o.disks.complete = judge.HasOptionalPools(s)
	o.states = judge.RememberStates(o.states, s)
	o.takenPods = address.RememberTaken(o.takenPods, s)
	return s, nil
}

// kubernetes reads the cached objects. The cache answers from memory, so an error here is a fault, not an outage.
// Nobody changes what a snapshot holds, so that the objects themselves are taken, not copies of them.
func (o *Observer) kubernetes(ctx context.Context, f *cluster.Facts) error {
	k := &f.Kube
	everywhere := []client.ListOption{client.UnsafeDisableDeepCopy}
	ours := slices.Concat(everywhere, []client.ListOption{client.InNamespace(v1alpha1.WorkloadNamespace)})
	revision := client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentRevision}
	var nodes corev1.NodeList
	var podList corev1.PodList
	var daemonSets appsv1.DaemonSetList
	var deployments appsv1.DeploymentList
	var services corev1.ServiceList
	var configMaps corev1.ConfigMapList
	var secrets corev1.SecretList
	var revisions appsv1.ControllerRevisionList
	for _, l := range []struct {
		list client.ObjectList
		opts []client.ListOption
	}{
		{&nodes, everywhere}, {&podList, ours}, {&daemonSets, ours}, {&deployments, ours}, {&services, ours},
		{&configMaps, ours}, {&secrets, ours}, {&revisions, slices.Concat(ours, []client.ListOption{revision})},
	} {
		if err := o.Reader.List(ctx, l.list, l.opts...); err != nil {
			return fmt.Errorf("list %T: %w", l.list, err)
		}
	}
	for i := range nodes.Items {
		k.Nodes = append(k.Nodes, &nodes.Items[i])
	}
	k.DaemonSets = byName(daemonSets.Items, func(o *appsv1.DaemonSet) string { return o.Name })
	k.Deployments = byName(deployments.Items, func(o *appsv1.Deployment) string { return o.Name })
	k.Services = byName(services.Items, func(o *corev1.Service) string { return o.Name })
	k.ConfigMaps = byName(configMaps.Items, func(o *corev1.ConfigMap) string { return o.Name })
	k.Secrets = byName(secrets.Items, func(o *corev1.Secret) string { return o.Name })
	k.Revisions = byName(revisions.Items, func(o *appsv1.ControllerRevision) string { return o.Name })
	k.UserNamespaces = usernamespace.Wanted(k.Nodes, k.Deployments[resources.ControllerName])
	sortPods(k, podList.Items, f.Cluster.Name)
	return nil
}

func byName[T any](items []T, name func(*T) string) map[string]*T {
	out := make(map[string]*T, len(items))
	for i := range items {
		out[name(&items[i])] = &items[i]
	}
	return out
}

// sortPods keeps one pod for each component and node. While a pod is being replaced there are two; the one that stays
// counts.
func sortPods(k *cluster.Kube, all []corev1.Pod, owner string) {
	k.Pods = map[string]map[string]*corev1.Pod{}
	named := map[string]*map[string]*corev1.Pod{v1alpha1.ComponentCanary: &k.Canary.Pods,
		v1alpha1.ComponentBackup: &k.Backups, v1alpha1.ComponentComparison: &k.Comparisons,
		v1alpha1.ComponentRestore: &k.Restores}
	for i := range all {
		p := &all[i]
		component := p.Labels[v1alpha1.LabelComponent]
		switch {
		case !cluster.Ours(owner, p):
		case named[component] != nil:
			if *named[component] == nil {
				*named[component] = map[string]*corev1.Pod{}
			}
			(*named[component])[p.Name] = p
		case component == v1alpha1.ComponentController:
			k.ControllerPods = append(k.ControllerPods, p)
		case p.Spec.NodeName != "":
			if k.Pods[component] == nil {
				k.Pods[component] = map[string]*corev1.Pod{}
			}
			old := k.Pods[component][p.Spec.NodeName]
			if old == nil || old.DeletionTimestamp != nil ||
				p.DeletionTimestamp == nil && p.CreationTimestamp.After(old.CreationTimestamp.Time) {
				k.Pods[component][p.Spec.NodeName], p = p, old
			}
			if p != nil {
				k.Hidden = append(k.Hidden, p)
			}
		}
	}
}

// target reads the accepted spec. A revision or claim that cannot be read is an error: working on another spec than
// the accepted one could touch what the user did not ask for.
func (o *Observer) target(f *cluster.Facts) error {
	if err := f.ClaimErr; err != nil {
		return fmt.Errorf("the database record cannot be read: %w; correct ConfigMap %s/%s", err,
			v1alpha1.WorkloadNamespace, resources.ClaimName)
	}
	name := f.Cluster.Status.Target
	rev := f.Kube.Revisions[name]
	if rev == nil {
		return nil
	}
	spec, err := revision.Spec(rev)
	if err != nil {
		return fmt.Errorf("the accepted spec (ControllerRevision %s/%s) cannot be read: %w; run the operator version that "+
			"wrote it, or delete the ControllerRevision so that the operator evaluates the spec again",
			v1alpha1.WorkloadNamespace, name, err)
	}
	release, ok := o.Catalogue.Release(spec.Version)
	if !ok {
		return o.unknownVersion(spec.Version, "the accepted spec requests")
	}
	claim, claimed := f.Claim()
	if _, ok := o.Catalogue.Release(claim.Version); claimed && claim.Version != "" && !ok {
		return o.unknownVersion(claim.Version, "the database was last used with")
	}
	f.Target = specchange.NewTarget(name, spec, release, f.Cluster)
	return nil
}

// unknownVersion is the error of a LINSTOR version that this operator does not know, an older one than before perhaps.
func (o *Observer) unknownVersion(version, whose string) error {
	return fmt.Errorf("this operator does not support LINSTOR %s, which %s, so it changes nothing; run an operator "+
		"version that supports it, or add it to ConfigMap %s/storagecluster-catalogue and restart this operator, which "+
		"supports %s", version, whose, v1alpha1.OperatorNamespace, strings.Join(o.Catalogue.Versions(), ", "))
}
