package databasebackup

import (
	"cmp"
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
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/restore"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/address"
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

const (
	// listsWithin is how long the pods that list what lies on the nodes may take. What has not listed by then counts as a
	// node into which nobody has looked.
	listsWithin = 5 * time.Minute
	// listedFor is how long after the pods begin to list the one that compares may be made: a listing is not served
	// when it is older than listing.Fresh.
	listedFor = 10 * time.Minute
	// comparesWithin is how long the pod that compares may take: it ends itself after a quarter of an hour, but not where
	// it finds no node.
	comparesWithin = 20 * time.Minute
)

// asked is the backup that is to be compared; "" for none. stopped reports whether that is for a restore: then it
// counts only if LINSTOR does not run meanwhile.
func asked(s *cluster.Snapshot) (id string, stopped bool) {
	if r := s.Restore; r != nil {
		return string(r.ID), true
	}
	return text.Head(s.Cluster.Annotations[v1alpha1.AnnotationCompareBackup], restore.LongestID), false
}

// comparisonOf is what the status says of the comparison that is asked for; nil if none is, or it has not begun.
func comparisonOf(s *cluster.Snapshot, st *backupspec.BackupStatus) *backupspec.Comparison {
	id, stopped := asked(s)
	if s.Cluster.Spec.Backup == nil || st == nil || st.Comparison == nil || st.Comparison.Backup != id ||
		st.Comparison.Stopped != stopped {
		return nil
	}
	return st.Comparison
}

// ForRestore is the comparison that the restore rests on; nil if it has not begun.
func ForRestore(s *cluster.Snapshot) *backupspec.Comparison {
	return comparisonOf(s, s.Cluster.Status.Backup)
}

// freshForRestore is how long after its end a comparison is good for a restore: pods that use volumes come and go,
// and nodes fail.
const freshForRestore = time.Hour

// Outdated reports whether a comparison does not count for a restore any more.
func Outdated(s *cluster.Snapshot, c *backupspec.Comparison) bool {
	return c.Ended != nil && s.Now.Sub(c.Ended.Time).Abs() > freshForRestore
}

// again reports whether a comparison for a restore that has ended is to be made once more. A human has looked at one
// that failed before the cluster comes by here again. What is being imported was compared.
func again(s *cluster.Snapshot, c *backupspec.Comparison) bool {
	if s.Restore == nil || c.Ended == nil || s.Restore.UnderWay() {
		return false
	}
	failed := c.Taken == nil && s.Phase() == v1alpha1.PhaseAssessing
	return failed || Outdated(s, c) && s.Phase() != v1alpha1.PhaseHumanIntervention
}

// compared is what the status says of the comparison after this reconcile; st is what it says of backups. One begins
// with it: it is there before its pods.
func compared(s *cluster.Snapshot, st *backupspec.BackupStatus) *backupspec.Comparison {
	c := begun(s, st)
	if c == nil || c.Ended != nil {
		return c
	}
	if _, err := store.ParseID(c.Backup); err != nil {
		return notCompared(s, c, fmt.Sprintf("annotation %s: %v", v1alpha1.AnnotationCompareBackup, err))
	}
	p := s.Kube.Comparisons[c.Pod]
	if p != nil {
		if r, at := Note(p, compare.ParseNote); r != nil && string(r.ID) == c.Backup {
			if at.IsZero() {
				at = metav1.NewTime(s.Now)
			}
			noteFound(c, r, at)
			return c
		}
	}
	if why := notNow(s, p != nil); why != "" {
		c.Pod, c.Message = "", "postponed: "+why
		return c
	}
	if p == nil {
		return list(s, c)
	}
	if why := ended(s, p); why != "" {
		return notCompared(s, c, why)
	}
	c.Message = "the backup is being compared with the nodes"
	if why := Trouble(&s.Facts, p); why != "" {
		c.Message += ": " + why
	}
	return c
}

// begun is the comparison that is asked for, which begins if it has not; nil if there is none to be made.
func begun(s *cluster.Snapshot, st *backupspec.BackupStatus) *backupspec.Comparison {
	id, stopped := asked(s)
	c := comparisonOf(s, st)
	switch {
	case id == "":
		return nil
	case c == nil && s.Restore != nil && s.Restore.UnderWay():
		return nil // it was made, or the claim would not say so
	case c != nil && c.Pod != "" && s.Restore != nil && !s.Restore.Stopped && !s.Restore.UnderWay():
		// LINSTOR has run since it was begun: volumes may have been made and moved
		return &backupspec.Comparison{Backup: id, Stopped: stopped, Since: metav1.NewTime(s.Now)}
	case c == nil || again(s, c):
		return &backupspec.Comparison{Backup: id, Stopped: stopped, Since: metav1.NewTime(s.Now)}
	default:
		return c
	}
}

// list begins a comparison, unless its pods list already, and says how far they are.
func list(s *cluster.Snapshot, c *backupspec.Comparison) *backupspec.Comparison {
	if c.Pod == "" { // it was put off
		c.Since, c.Pod = metav1.NewTime(s.Now), databasebackup.ComparisonPod(s.Cluster, s.Now)
	}
	if s.Now.Sub(c.Since.Time) > listedFor {
		return notCompared(s, c, "its pod was not created before the nodes' volume lists expired; the BackupReady "+
			"condition may show the reason")
	}
	want, live := listings(s, c), s.Kube.DaemonSets[databasebackup.Listing]
	if live != nil && !cluster.Ours(s.Cluster.Name, live) {
		return notCompared(s, c, fmt.Sprintf("DaemonSet %s/%s exists, but was not created by the operator: delete it, "+
			"or recreate it under a different name", live.Namespace, live.Name))
	}
	nodes, have, _ := listed(s, want)
	c.Message = fmt.Sprintf("%d of %d nodes have listed their volumes", have, len(nodes))
	return c
}

// ended is why the pod that compares has found nothing; "" as long as that is open.
func ended(s *cluster.Snapshot, p *corev1.Pod) string {
	age := s.Now.Sub(p.CreationTimestamp.Time)
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		return "its pod succeeded but produced no result"
	case age > comparesWithin:
		return cmp.Or(Trouble(&s.Facts, p), "its pod did not finish in time")
	default:
		return Failure(&s.Facts, age, p)
	}
}

func notCompared(s *cluster.Snapshot, c *backupspec.Comparison, why string) *backupspec.Comparison {
	c.Ended, c.Message = &metav1.Time{Time: s.Now}, "not compared: "+text.OneLine(why)
	return c
}

// noteFound notes what a comparison has found that ended then.
func noteFound(c *backupspec.Comparison, r *compare.Result, at metav1.Time) {
	c.Ended, c.Taken, c.Nodes = &at, &metav1.Time{Time: r.Taken}, int32(r.Nodes)
	c.Linstor, c.SHA256, c.Digest = r.Linstor, r.SHA256, r.Digest
	c.Addresses = nil
	for _, a := range r.Addresses {
		c.Addresses = append(c.Addresses, backupspec.TakenAddress(a))
	}
	c.Message = fmt.Sprintf("no differences: compared %s in the backup with %s",
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
	c.Message = fmt.Sprintf("the nodes differ from the backup: %s; for all differences, run kubectl -n %s logs %s",
		strings.Join(counts, ", "), v1alpha1.WorkloadNamespace, c.Pod)
}

// notNow says why nothing is compared now; "" if nothing hinders. LINSTOR is not needed: its database may be lost.
// What is needed to make pods only does not stop the one that compares already.
func notNow(s *cluster.Snapshot, compares bool) string {
	claim, _ := s.Claim()
	switch why := stopped(s); {
	case why != "":
		return why
	case claim.LocalID == "":
		return noDatabase
	case s.Restore != nil && !s.Restore.Stopped:
		return "the LINSTOR controller is running"
	case compares:
		return ""
	case s.OperatorImage == "":
		return noImage
	default:
		return NoPlace(&s.Facts)
	}
}

func listings(s *cluster.Snapshot, c *backupspec.Comparison) *appsv1.DaemonSet {
	return databasebackup.Listings(s.SatelliteParams(), s.OperatorImage, databasebackup.Token(c.Pod))
}

// listed are the addresses of the pods that have listed what lies on their nodes, by node, "" for a member without
// one, how many have, and how many are waited for. Pods of an earlier comparison have an older listing.
func listed(s *cluster.Snapshot, want *appsv1.DaemonSet) (nodes map[string]string, have, waiting int) {
	nodes = map[string]string{}
	for _, m := range s.Members {
		nodes[m.Name] = ""
		p := s.Kube.Pods[v1alpha1.ComponentListing][m.Name]
		switch {
		case cluster.PodReady(p) && p.Annotations[resources.AnnotationTemplateHash] == resources.TemplateHash(want):
			have++
			nodes[m.Name] = net.JoinHostPort(p.Status.PodIP, strconv.Itoa(listing.Port))
		case m.Labelled && m.NodeReady:
			waiting++
		}
	}
	return nodes, have, waiting
}

// compares makes the pods of the comparison that is noted in the status, and removes what is left of others. The pod
// that has compared stays with its log until the comparison is forgotten.
func compares(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	if s.Target == nil || s.Cluster.Spec.Suspend {
		return nil
	}
	c, name := comparisonOf(s, s.Cluster.Status.Backup), ""
	if c != nil {
		name = c.Pod
	}
	if err := removeBut(ctx, in, s.Kube.Comparisons, name); err != nil {
		return err
	}
	there := s.Kube.Comparisons[name] != nil
	switch {
	case name == "" || c.Ended != nil || notNow(s, there) != "":
		return removeListings(ctx, in)
	case there || s.Now.Sub(c.Since.Time) > listedFor:
		return nil
	}
	return makeComparison(ctx, in, c)
}

// makeComparison makes the pods that list, and once they have the one that compares.
func makeComparison(ctx context.Context, in *step.Input, c *backupspec.Comparison) error {
	s := in.Snapshot
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
	nodes, _, waiting := listed(s, want)
	if waiting > 0 && s.Now.Sub(live.CreationTimestamp.Time) < listsWithin {
		return nil
	}
	return in.Writer.Apply(ctx, comparator(s, c, nodes))
}

// comparator is the pod that compares.
func comparator(s *cluster.Snapshot, c *backupspec.Comparison, nodes map[string]string) *corev1.Pod {
	claim, _ := s.Claim()
	config := compare.Config{Cluster: claim.LocalID, ID: store.ID(c.Backup), Nodes: nodes,
		Token: databasebackup.Token(c.Pod), Machines: address.Machines(s)}
	o := &databasebackup.Comparison{Image: s.OperatorImage, Pod: c.Pod}
	config.Store, config.Credentials, o.Place = PlaceOf(s.Cluster.Spec.Backup)
	told, _ := json.Marshal(config) //nolint:errchkjson // texts
	o.Config, o.Nodes, o.Machines = string(told), config.NodeTexts(), config.Machines.Texts()
	return databasebackup.Comparator(s.SatelliteParams(), s.Cluster, o)
}

// removeListings removes the pods that list what lies on the nodes.
func removeListings(ctx context.Context, in *step.Input) error {
	if live := lister(&in.Snapshot.Facts); live != nil {
		return in.Writer.Delete(ctx, live)
	}
	return nil
}

// lister is our DaemonSet whose pods list; nil if there is none, or it goes.
func lister(f *cluster.Facts) *appsv1.DaemonSet {
	live := f.Kube.DaemonSets[databasebackup.Listing]
	if live == nil || live.DeletionTimestamp != nil || !cluster.Ours(f.Cluster.Name, live) {
		return nil
	}
	return live
}

// RemoveComparison removes what compares a backup with the nodes.
func RemoveComparison(ctx context.Context, in *step.Input) error {
	return errors.Join(RemovePods(ctx, in, in.Snapshot.Kube.Comparisons), removeListings(ctx, in))
}

// Left reports whether Remove has anything to remove.
func Left(f *cluster.Facts) bool {
	return len(others(f.Kube.Backups, "")) > 0 || len(others(f.Kube.Comparisons, "")) > 0 ||
		len(others(f.Kube.Restores, "")) > 0 || lister(f) != nil
}

// Remove removes all pods.
func Remove(ctx context.Context, in *step.Input) error {
	return errors.Join(RemovePods(ctx, in, in.Snapshot.Kube.Backups), RemoveComparison(ctx, in),
		RemovePods(ctx, in, in.Snapshot.Kube.Restores))
}
