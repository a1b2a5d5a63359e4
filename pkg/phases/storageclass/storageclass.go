// Package storageclass judges and keeps the StorageClasses of spec.volumes.storageClasses. Which objects are to be
// made is one question; whether LINSTOR could place a volume of a class now is another one, which LINSTOR itself
// answers with one sentence for everything.
package storageclass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Reasons why nobody gets a volume of a class, or not such a one as the spec says.
const (
	// ReasonForeign: a StorageClass of the name is not the operator's.
	ReasonForeign = "ForeignStorageClass"
	// ReasonInUse: it differs in what cannot be changed, and volumes are of it.
	ReasonInUse = "StorageClassInUse"
	// ReasonUnsatisfiable: the nodes and pools of today cannot take a volume of it.
	ReasonUnsatisfiable = "Unsatisfiable"
	// ReasonGroupDiffers: its resource group in LINSTOR has another value of a property than the spec.
	ReasonGroupDiffers = "ResourceGroupDiffers"
	// ReasonMaking: it is being made.
	ReasonMaking = "MakingStorageClass"
)

// Judge judges the entries of the accepted spec, in their order, and then the operator's StorageClasses that have no
// entry.
func Judge(s *cluster.Snapshot) []*cluster.StorageClass {
	var out []*cluster.StorageClass
	p, live := s.SatelliteParams(), s.Kube.Driver.Classes
	wanted, nodes := map[string]bool{}, satellites(&s.Facts)
	for i := range s.Target.Spec.Volumes.StorageClasses {
		e := &s.Target.Spec.Volumes.StorageClasses[i]
		wanted[e.Name] = true
		c := &cluster.StorageClass{Name: e.Name, Live: live[e.Name]}
		other := otherDefault(live, e.Name)
		c.Want = resources.StorageClass(p, e, e.Default && (marked(c.Live) || other == ""))
		judgeEntry(s, c)
		if e.Default && other != "" && c.Reason != ReasonForeign {
			c.Note = defaultNote(c, other)
		} else if says := advice.OfClass(e); says != "" {
			c.Note = "StorageClass " + e.Name + ": " + says
		}
		if c.Reason == "" || c.Reason == ReasonMaking {
			if why := shortage(s, nodes, e); why != "" {
				c.Reason, c.Message = ReasonUnsatisfiable, why
			} else if why := groupDiffers(s, c.Want); why != "" {
				c.Reason, c.Message = ReasonGroupDiffers, why
			}
		}
		out = append(out, c)
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		if c := live[name]; !wanted[name] && ours(s, c) {
			out = append(out, leftOver(s, c))
		}
	}
	return out
}

// marked reports whether a StorageClass, which may be nil, is marked as the default.
func marked(c *storagev1.StorageClass) bool {
	return c != nil && c.Annotations[resources.AnnotationDefaultClass] == "true"
}

// defaultNote explains what becomes of an entry that wants to be the default where another StorageClass is.
func defaultNote(c *cluster.StorageClass, other string) string {
	if marked(c.Live) {
		return fmt.Sprintf("StorageClass %s is also marked as the default: Kubernetes uses the newer one", other)
	}
	return fmt.Sprintf("StorageClass %s is already the default: remove its annotation %s to make %s the default", other,
		resources.AnnotationDefaultClass, c.Name)
}

func ours(s *cluster.Snapshot, c *storagev1.StorageClass) bool {
	return cluster.Ours(s.Cluster.Name, c)
}

// judgeEntry compares a StorageClass with its entry.
func judgeEntry(s *cluster.Snapshot, c *cluster.StorageClass) {
	volumes := s.Kube.Driver.Volumes.ByClass[c.Name]
	switch {
	case c.Live == nil:
		c.Do = cluster.ClassApply
	case !ours(s, c.Live):
		c.Reason, c.Message = ReasonForeign, fmt.Sprintf("the StorageClass with this name was not created by the operator: "+
			"give the entry another name, delete the StorageClass, or label it %s=%s to hand it over to the operator",
			v1alpha1.LabelCluster, s.Cluster.Name)
		return
	case step.Matches(c.Live, c.Want):
		return
	case !resources.ClassFixedDiffers(c.Live, c.Want):
		c.Do = cluster.ClassApply
	case volumes > 0:
		c.Reason, c.Message = ReasonInUse, inUse(c.Name, volumes)
		return
	default:
		c.Do = cluster.ClassReplace
	}
	c.Reason, c.Message = ReasonMaking, "it is being created or updated"
}

func inUse(name string, volumes int) string {
	return fmt.Sprintf("its parameters differ from the spec, and %s it: existing volumes keep their parameters, but "+
		"share the LINSTOR resource group %s with future volumes. Restore the entry, and add another one with a new name",
		text.Amount(volumes, "PersistentVolume uses", "PersistentVolumes use"), name)
}

// leftOver is a StorageClass whose entry was removed.
func leftOver(s *cluster.Snapshot, live *storagev1.StorageClass) *cluster.StorageClass {
	c := &cluster.StorageClass{Name: live.Name, Live: live, Do: cluster.ClassRemove}
	if n := s.Kube.Driver.Volumes.ByClass[live.Name]; n > 0 {
		c.Do = cluster.ClassLeave
		c.Note = fmt.Sprintf("StorageClass %s is no longer in the spec, but is kept because %s it", live.Name,
			text.Amount(n, "PersistentVolume uses", "PersistentVolumes use"))
	}
	return c
}

// otherDefault is the name of another StorageClass that is marked as the default; "" if there is none.
func otherDefault(live map[string]*storagev1.StorageClass, than string) string {
	for _, name := range slices.Sorted(maps.Keys(live)) {
		if name != than && marked(live[name]) {
			return name
		}
	}
	return ""
}

// Pending is the first StorageClass that something is to be done about; nil if there is none.
func Pending(s *cluster.Snapshot) *cluster.StorageClass {
	for _, c := range s.Classes {
		if c.Do != cluster.ClassLeave {
			return c
		}
	}
	return nil
}

// Work makes and removes StorageClasses. One that fails keeps no other from its turn.
func Work(ctx context.Context, in *step.Input) error {
	var errs []error
	for _, c := range in.Snapshot.Classes {
		switch c.Do {
		case cluster.ClassApply:
			errs = append(errs, in.Writer.Apply(ctx, c.Want))
		case cluster.ClassRemove, cluster.ClassReplace:
			errs = append(errs, step.IgnoreOutdated(exchange(ctx, in, c)))
		case cluster.ClassLeave:
		}
	}
	return errors.Join(errs...)
}

// exchange removes a StorageClass that no volume is of, and makes it anew if it is still wanted. Claims that wait for
// it take the new one. A volume that was made just now is not in the cache yet, so that the API server itself is
// looked at.
func exchange(ctx context.Context, in *step.Input, c *cluster.StorageClass) error {
	volumes, err := in.Live.Volumes(ctx, resources.DriverName)
	if err != nil {
		return fmt.Errorf("list volumes of StorageClass %s: %w", c.Name, err)
	}
	for _, class := range volumes {
		if class == c.Name {
			return nil // the next look counts it
		}
	}
	if err := in.Stands(ctx); err != nil {
		return err
	}
	if err := in.Delete(ctx, []client.Object{c.Live}); err != nil || c.Do == cluster.ClassRemove {
		return err
	}
	return in.Writer.Apply(ctx, c.Want)
}

// Refuse says why a spec cannot be accepted because of a StorageClass that an earlier spec has left: its entry is back
// with other parameters, while volumes are of it. CEL compares with the spec before only. "" if there is none.
func Refuse(s *cluster.Snapshot, spec *volumespec.VolumesSpec, p resources.Params) string {
	for i := range spec.StorageClasses {
		e := &spec.StorageClasses[i]
		live, n := s.Kube.Driver.Classes[e.Name], s.Kube.Driver.Volumes.ByClass[e.Name]
		if live != nil && n > 0 && ours(s, live) && resources.ClassFixedDiffers(live, resources.StorageClass(p, e, false)) {
			return fmt.Sprintf("spec.volumes.storageClasses[%s]: %s", e.Name, inUse(e.Name, n))
		}
	}
	return ""
}
