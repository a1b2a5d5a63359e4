package storageclass

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Groups are the resource groups in LINSTOR that the classes of the accepted spec have, which exist once a volume was
// made.
func Groups(f *cluster.Facts) []string {
	if f.Target == nil || f.Target.Spec.Volumes.Driver.Mode != volumespec.DriverManaged {
		return nil
	}
	var out []string
	for i := range f.Target.Spec.Volumes.StorageClasses {
		out = append(out, f.Target.Spec.Volumes.StorageClasses[i].Name)
	}
	return out
}

// groupDiffers says why the driver makes no volume of a class although there is room: a property of its resource group
// was changed in LINSTOR. The driver adds properties that are missing and never changes one; it answers each claim
// with "cannot change existing property value" (linstor-csi 1.12, pkg/client). Nothing is set back by the operator:
// LINSTOR applies a changed group to all of its volumes at once, those in use included.
func groupDiffers(s *cluster.Snapshot, want *storagev1.StorageClass) string {
	if !s.Linstor.Known() {
		return ""
	}
	g := s.Linstor.View.Groups[want.Name]
	if g == nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(want.Parameters)) {
		property, ok := strings.CutPrefix(key, resources.PropertyParameter)
		have, there := g.Properties[property]
		says := want.Parameters[key]
		switch {
		case !ok || !there || have == says:
		case linstor.SameValue(property, have, says):
			return fmt.Sprintf("LINSTOR stores the value %q of property %s as %q, so the driver can create only one volume: "+
				"add an entry with a different name and the value %q", says, property, have, have)
		default:
			return fmt.Sprintf("property %s of resource group %s is %q in LINSTOR, but %q in the StorageClass: the driver "+
				"cannot create volumes while they differ. To set it for all volumes of the class at once, run linstor "+
				"resource-group set-property %s %s %s", property, g.Name, have, says, g.Name, property, says)
		}
	}
	return ""
}
