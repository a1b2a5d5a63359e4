package controller

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// mostRaces is how often one write of the object is tried in one step at most.
const mostRaces = 5

// writeStatus writes the status that after has.
func (r *Reconciler) writeStatus(ctx context.Context, c, after *v1alpha1.StorageCluster) error {
	err := r.race(ctx, c, func(now *v1alpha1.StorageCluster) error {
		before := c.DeepCopy()
		before.ResourceVersion = now.ResourceVersion
		return r.Writer.PatchStatus(ctx, before, after)
	})
	if err == nil {
		r.pace.WroteStatus(c, after.ResourceVersion)
	}
	return err
}

// patch changes finalizers or annotations. What others wrote to annotations meanwhile stays.
func (r *Reconciler) patch(ctx context.Context, c *v1alpha1.StorageCluster,
	change func(after *v1alpha1.StorageCluster)) error {
	var after *v1alpha1.StorageCluster
	err := r.race(ctx, c, func(now *v1alpha1.StorageCluster) error {
		after = now.DeepCopy()
		change(after)
		return r.Writer.PatchMeta(ctx, now, after)
	})
	if err == nil {
		r.pace.Wrote(c, after.ResourceVersion)
	}
	return err
}

// race has the object written, and again for as long as only races are lost that change nothing of what was decided
// on. write gets the object as it is now.
func (r *Reconciler) race(ctx context.Context, c *v1alpha1.StorageCluster,
	write func(now *v1alpha1.StorageCluster) error) error {
	now := c
	for race := 1; ; race++ {
		err := write(now)
		if err == nil || race == mostRaces {
			return err
		}
		if now = r.sameNow(ctx, c, now, err); now == nil {
			return err
		}
	}
}

// sameNow is the object as it is now, past the cache, if the write of another version of it was refused, and all that
// was decided on is as it was; nil if not. What others write to labels and annotations of the object, policy engines
// and GitOps controllers among them, is no reason to look at the cluster again: where they write all the time, each
// look would be for nothing.
func (r *Reconciler) sameNow(ctx context.Context, c, sent *v1alpha1.StorageCluster,
	refused error) *v1alpha1.StorageCluster {
	if !apierrors.IsConflict(refused) {
		return nil
	}
	now, err := r.Live.Cluster(ctx, c.Name)
	if err != nil || now == nil || now.ResourceVersion == sent.ResourceVersion || !sameToUs(c, now) {
		return nil
	}
	return now
}

// sameToUs reports whether two versions of an object differ in nothing that the operator goes by.
func sameToUs(a, b *v1alpha1.StorageCluster) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		slices.Equal(a.Finalizers, b.Finalizers) && maps.Equal(ownAnnotations(a), ownAnnotations(b)) &&
		equality.Semantic.DeepEqual(a.Status, b.Status)
}

// ownAnnotations are those by which the operator is told something.
func ownAnnotations(c *v1alpha1.StorageCluster) map[string]string {
	own := maps.Clone(c.Annotations)
	maps.DeleteFunc(own, func(key, _ string) bool { return !strings.HasPrefix(key, v1alpha1.Prefix) })
	return own
}
