package databasebackup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/backupspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/compare"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/difference"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons of Events about comparisons.
const (
	// ReasonCompared: a backup was compared with what lies on the nodes.
	ReasonCompared = "BackupCompared"
	// ReasonNotCompared: it could not be.
	ReasonNotCompared = "BackupNotCompared"
)

// listsWithin is how long the pods that list what lies on the nodes may take. What has not listed by then counts as a
// node into which nobody has looked.
const listsWithin = 5 * time.Minute

// asked is the backup that is to be compared; "" for none.
func asked(c *v1alpha1.StorageCluster) string { return c.Annotations[v1alpha1.AnnotationCompareBackup] }

// comparisonOf is what the status says of the comparison that is asked for; nil if none is, or it has not begun.
func comparisonOf(s *cluster.Snapshot) *backupspec.Comparison {
	st := s.Cluster.Status.Backup
	if s.Cluster.Spec.Backup == nil || st == nil || st.Comparison == nil || st.Comparison.Backup != asked(s.Cluster) {
		return nil
	}
	return st.Comparison
}

// compared is what the status says of the comparison after this reconcile. One begins with it: it is there before its
// pods.
func compared(s *cluster.Snapshot) *backupspec.Comparison {
	if asked(s.Cluster) == "" {
		return nil
	}
	c := comparisonOf(s).DeepCopy()
	switch {
	case c == nil:
		c = &backupspec.Comparison{Backup: asked(s.Cluster), Since: metav1.NewTime(s.Now),
			Pod: databasebackup.ComparisonPod(s.Cluster, s.Now)}
	case c.Ended != nil:
		return c
	}
	if _, err := store.ParseID(c.Backup); err != nil {
		return notCompared(s, c, fmt.Sprintf("annotation %s: %v", v1alpha1.AnnotationCompareBackup, err))
	}
	if why := notNow(s); why != "" {
		c.Message = "it is put off: " + why
		return c
	}
	p := s.Kube.Comparisons[c.Pod]
	if p == nil {
		addresses, waiting := listed(s, listings(s, c))
		c.Message = fmt.Sprintf("%d of %d nodes have listed what lies on them", len(addresses), len(addresses)+waiting)
		return c
	}
	if r := found(p); r != nil && string(r.ID) == c.Backup {
		noteFound(s, c, r)
		return c
	}
	if why := failure(s.Now.Sub(p.CreationTimestamp.Time), p); why != "" {
		return notCompared(s, c, why)
	}
	c.Message = "the backup is being compared"
	if why := trouble(p); why != "" {
		c.Message += ": " + why
	}
	return c
}

func notCompared(s *cluster.Snapshot, c *backupspec.Comparison, why string) *backupspec.Comparison {
	c.Ended, c.Message = &metav1.Time{Time: s.Now}, "it was not compared: "+text.OneLine(why)
	return c
}

// noteFound notes what a comparison has found.
func noteFound(s *cluster.Snapshot, c *backupspec.Comparison, r *compare.Result) {
	c.Ended, c.Taken, c.Nodes = &metav1.Time{Time: s.Now}, &metav1.Time{Time: r.Taken}, int32(r.Nodes)
	c.Message = fmt.Sprintf("no difference: the %s of the backup lie on %s as it says",
		text.Amount(r.Stored, "volume or snapshot", "volumes and snapshots"), text.Amount(r.Nodes, "node", "nodes"))
	if len(r.Found) == 0 {
		return
	}
	c.Differences, c.Worst = map[string]int32{}, r.Worst
	var counts []string
	for _, kind := range difference.Kinds() {
		if n := r.Found[kind]; n > 0 {
			c.Differences[string(kind)] = int32(n)
			counts = append(counts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	c.Message = fmt.Sprintf("the nodes differ from the backup: %s; kubectl -n %s logs %s lists all",
		strings.Join(counts, ", "), v1alpha1.WorkloadNamespace, c.Pod)
}

// found is what a pod has found; nil if it does not say.
func found(p *corev1.Pod) *compare.Result {
	if p.Status.Phase != corev1.PodSucceeded {
		return nil
	}
	for i := range p.Status.ContainerStatuses {
		if end := p.Status.ContainerStatuses[i].State.Terminated; end != nil {
			if r, err := compare.ParseNote(end.Message); err == nil {
				return r
			}
		}
	}
	return nil
}

// notNow says why nothing is compared now; "" if nothing hinders. LINSTOR is not needed: its database may be lost.
func notNow(s *cluster.Snapshot) string {
	claim, _ := s.Claim()
	switch {
	case s.Cluster.DeletionTimestamp != nil:
		return "the cluster is being deleted"
	case s.OperatorImage == "":
		return noImage
	case claim.LocalID == "":
		return "it is not recorded yet which database this is"
	default:
		return noPlace(&s.Facts)
	}
}

func listings(s *cluster.Snapshot, c *backupspec.Comparison) *appsv1.DaemonSet {
	return databasebackup.Listings(s.SatelliteParams(), s.OperatorImage, databasebackup.Token(c.Pod))
}

// listed are the addresses of the pods that have listed what lies on their nodes, by node, and how many are waited
// for. Pods of an earlier comparison have an older listing.
func listed(s *cluster.Snapshot, want *appsv1.DaemonSet) (addresses map[string]string, waiting int) {
	addresses = map[string]string{}
	for _, m := range s.Members {
		p := s.Kube.Pods[v1alpha1.ComponentListing][m.Name]
		switch {
		case cluster.PodReady(p) && p.Annotations[resources.AnnotationTemplateHash] == resources.TemplateHash(want):
			addresses[m.Name] = net.JoinHostPort(p.Status.PodIP, strconv.Itoa(listing.Port))
		case m.Labelled && m.NodeReady:
			waiting++
		}
	}
	return addresses, waiting
}

// compares makes the pods of the comparison that is noted in the status, and removes what is left of others. The pod
// that has compared stays with its log until the comparison is forgotten.
func compares(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if s.Target == nil || s.Cluster.Spec.Suspend {
		return nil
	}
	c, name := comparisonOf(s), ""
	if c != nil {
		name = c.Pod
	}
	if err := removeBut(ctx, in, s.Kube.Comparisons, name); err != nil {
		return err
	}
	if c == nil || c.Ended != nil || notNow(s) != "" {
		return removeListings(ctx, in)
	}
	want, live := listings(s, c), s.Kube.DaemonSets[databasebackup.Listing]
	if live != nil && resources.TemplateHash(live) != resources.TemplateHash(want) {
		return removeListings(ctx, in) // of an earlier comparison
	}
	if err := in.Stands(ctx); err != nil {
		return step.IgnoreOutdated(err)
	}
	if live == nil {
		return in.ApplyDaemonSet(ctx, want)
	}
	addresses, waiting := listed(s, want)
	if s.Kube.Comparisons[name] != nil || waiting > 0 && s.Now.Sub(live.CreationTimestamp.Time) < listsWithin {
		return nil
	}
	claim, _ := s.Claim()
	config := compare.Config{Cluster: claim.LocalID, ID: store.ID(c.Backup), Listings: addresses,
		Token: databasebackup.Token(c.Pod)}
	o := &databasebackup.Comparison{Image: s.OperatorImage, Pod: c.Pod}
	config.Store, config.Credentials, o.Place = placeOf(s.Cluster.Spec.Backup)
	told, _ := json.Marshal(config) //nolint:errchkjson // texts and numbers
	o.Config = string(told)
	return in.Writer.Apply(ctx, databasebackup.Comparator(s.SatelliteParams(), s.Cluster, o))
}

// removeListings removes the pods that list what lies on the nodes.
func removeListings(ctx context.Context, in *step.Input) error {
	if live := in.Snapshot.Kube.DaemonSets[databasebackup.Listing]; lists(live) {
		return in.Writer.Delete(ctx, live)
	}
	return nil
}

func lists(ds *appsv1.DaemonSet) bool { return ds != nil && ds.DeletionTimestamp == nil }

// Left reports whether Remove has anything to remove.
func Left(f *cluster.Facts) bool {
	return len(others(f.Kube.Backups, "")) > 0 || len(others(f.Kube.Comparisons, "")) > 0 ||
		lists(f.Kube.DaemonSets[databasebackup.Listing])
}

// Remove removes all pods.
func Remove(ctx context.Context, in *step.Input) error {
	k := &in.Snapshot.Kube
	return errors.Join(removeBut(ctx, in, k.Backups, ""), removeBut(ctx, in, k.Comparisons, ""), removeListings(ctx, in))
}
