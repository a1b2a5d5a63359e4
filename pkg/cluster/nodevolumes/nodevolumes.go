// Package nodevolumes finds the PersistentVolumes that are, or may be, disks of nodes. Such a disk may look empty
// although it is a pod's: one that is used raw has data without a signature.
package nodevolumes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Volume is a PersistentVolume that a node has, or may have.
type Volume struct {
	// Name is the PersistentVolume's.
	Name string
	// Path is that of a local volume (spec.local.path); "" for one that a driver brings to the node.
	Path string
	// Note says how a driver brings it.
	Note string
	// Raw is true if it is a disk, and not a directory: pods get the disk itself, or the kubelet formats it when it is
	// used first. Until then the disk looks empty.
	Raw bool
}

func (v *Volume) String() string {
	return fmt.Sprintf("PersistentVolume %s (%s)", v.Name, cmp.Or(v.Path, v.Note))
}

// Of finds, by node, the local volumes and the raw disks of which Kubernetes does not say which node they are attached
// to: wherever those may be, a pod may have them.
func Of(
	nodes []*corev1.Node, volumes []corev1.PersistentVolume, drivers []storagev1.CSIDriver,
) map[string][]Volume {
	out := map[string][]Volume{}
	for i := range volumes {
		pv := &volumes[i]
		v := Volume{Name: pv.Name}
		if local := pv.Spec.Local; local != nil {
			// An fsType is given for what is to be formatted (k8s.io/api/core/v1, LocalVolumeSource): the path is a device, or
			// a link to one.
			v.Path, v.Raw = local.Path, block(pv) || local.FSType != nil || strings.HasPrefix(local.Path, "/dev/")
		} else if driver := unannounced(pv, drivers); block(pv) && driver != "" {
			v.Note, v.Raw = "a raw disk that may be attached by "+driver, true
		} else {
			continue
		}
		for _, node := range onNodes(pv, nodes) {
			out[node] = append(out[node], v)
		}
	}
	return out
}

// Attached finds, by node, the raw disks that are attached there for other drivers than LINSTOR's, or are about to be:
// the VolumeAttachment is there from before the disk comes until after it went. One whose PersistentVolume is not
// there may be a raw disk.
func Attached(attachments []storagev1.VolumeAttachment, volumes []corev1.PersistentVolume) map[string][]Volume {
	byName := make(map[string]*corev1.PersistentVolume, len(volumes))
	for i := range volumes {
		byName[volumes[i].Name] = &volumes[i]
	}
	out := map[string][]Volume{}
	for i := range attachments {
		a := &attachments[i].Spec
		if a.Attacher == resources.DriverName || a.Source.PersistentVolumeName == nil {
			continue // a volume that a pod itself describes is never a raw disk
		}
		v := Volume{Name: *a.Source.PersistentVolumeName, Note: "a raw disk attached by " + a.Attacher, Raw: true}
		if pv := byName[v.Name]; pv == nil {
			v.Note = "no longer exists, but is still attached by " + a.Attacher
		} else if !block(pv) {
			continue
		}
		out[a.NodeName] = append(out[a.NodeName], v)
	}
	return out
}

// Join adds what is attached to what was found else.
func Join(found, attached map[string][]Volume) {
	for node, volumes := range attached {
		found[node] = append(found[node], volumes...)
	}
}

func block(pv *corev1.PersistentVolume) bool {
	return pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// unannounced is the driver that attaches a volume without a VolumeAttachment; "" if it is none.
func unannounced(pv *corev1.PersistentVolume, drivers []storagev1.CSIDriver) string {
	csi := pv.Spec.CSI
	switch {
	case pv.Spec.ISCSI != nil:
		return "kubernetes.io/iscsi"
	case pv.Spec.FC != nil:
		return "kubernetes.io/fc"
	case csi == nil || csi.Driver == resources.DriverName:
		return ""
	}
	for i := range drivers {
		if d := &drivers[i]; d.Name == csi.Driver && d.Spec.AttachRequired != nil && !*d.Spec.AttachRequired {
			return d.Name
		}
	}
	return ""
}

// onNodes are the nodes that a volume is on, or may be; all of them if its affinity does not say so by host name.
func onNodes(pv *corev1.PersistentVolume, nodes []*corev1.Node) []string {
	var hosts []string
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, term := range a.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn {
					hosts = append(hosts, e.Values...)
				}
			}
		}
	}
	var out []string
	for _, n := range nodes {
		if len(hosts) == 0 || slices.Contains(hosts, n.Labels[corev1.LabelHostname]) || slices.Contains(hosts, n.Name) {
			out = append(out, n.Name)
		}
	}
	return out
}
