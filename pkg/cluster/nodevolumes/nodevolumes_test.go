package nodevolumes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

type source = corev1.PersistentVolumeSource

func volume(name string, mode corev1.PersistentVolumeMode, from source) corev1.PersistentVolume {
	pv := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.VolumeMode, pv.Spec.PersistentVolumeSource = &mode, from
	return pv
}

func csi(driver string) source {
	return source{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver}}
}

const (
	raw    = corev1.PersistentVolumeBlock
	files  = corev1.PersistentVolumeFilesystem
	theirs = "ebs.csi.aws.com"
)

func TestAttached(t *testing.T) {
	volumes := []corev1.PersistentVolume{volume("raw", raw, csi(theirs)), volume("formatted", files, csi(theirs)),
		volume("ours", raw, csi(resources.DriverName)),
		volume("migrated", raw, source{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}),
		{ObjectMeta: metav1.ObjectMeta{Name: "no mode"}}}
	for _, tc := range []struct {
		name     string
		attacher string
		volume   *string
		attached bool
		want     string
	}{
		{name: "raw", attacher: theirs, volume: ptr.To("raw"), attached: true,
			want: "PersistentVolume raw (a raw disk attached by ebs.csi.aws.com)"},
		{name: "on its way", attacher: theirs, volume: ptr.To("raw"),
			want: "PersistentVolume raw (a raw disk attached by ebs.csi.aws.com)"},
		{name: "of a driver of before CSI", attacher: theirs, volume: ptr.To("migrated"), attached: true,
			want: "PersistentVolume migrated (a raw disk attached by ebs.csi.aws.com)"},
		{name: "with a file system", attacher: theirs, volume: ptr.To("formatted"), attached: true},
		{name: "without a mode", attacher: theirs, volume: ptr.To("no mode"), attached: true},
		{name: "LINSTOR's", attacher: resources.DriverName, volume: ptr.To("ours"), attached: true},
		{name: "deleted meanwhile", attacher: theirs, volume: ptr.To("gone"), attached: true,
			want: "PersistentVolume gone (no longer exists, but is still attached by ebs.csi.aws.com)"},
		{name: "LINSTOR's, deleted meanwhile", attacher: resources.DriverName, volume: ptr.To("gone"), attached: true},
		{name: "which a pod itself describes", attacher: theirs, attached: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: tc.attacher, NodeName: "n1",
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: tc.volume}},
				Status: storagev1.VolumeAttachmentStatus{Attached: tc.attached}}
			got := Attached([]storagev1.VolumeAttachment{a}, volumes)
			text := ""
			for node, all := range got {
				if node != "n1" || len(all) != 1 || !all[0].Raw {
					t.Errorf("%+v", got)
				}
				text = all[0].String()
			}
			if text != tc.want {
				t.Errorf("%q, want %q", text, tc.want)
			}
		})
	}
}

// TestUnannounced: of some raw disks nothing in Kubernetes says where they are attached.
func TestUnannounced(t *testing.T) {
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}
	driver := func(name string, attach *bool) storagev1.CSIDriver {
		return storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.CSIDriverSpec{AttachRequired: attach}}
	}
	drivers := []storagev1.CSIDriver{driver("silent", ptr.To(false)), driver(theirs, ptr.To(true)), driver("plain", nil),
		driver(resources.DriverName, ptr.To(false))}
	here := volume("here", raw, csi("silent"))
	on := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
		Values: []string{"n2"}}
	here.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{on}}}}}
	for _, tc := range []struct {
		volume corev1.PersistentVolume
		want   map[string]string
	}{
		{volume("v", raw, csi("silent")), map[string]string{
			"n1": "PersistentVolume v (a raw disk that may be attached by silent)",
			"n2": "PersistentVolume v (a raw disk that may be attached by silent)"}},
		{here, map[string]string{"n2": "PersistentVolume here (a raw disk that may be attached by silent)"}},
		{volume("v", raw, source{FC: &corev1.FCVolumeSource{}}), map[string]string{
			"n1": "PersistentVolume v (a raw disk that may be attached by kubernetes.io/fc)",
			"n2": "PersistentVolume v (a raw disk that may be attached by kubernetes.io/fc)"}},
		{volume("v", raw, source{ISCSI: &corev1.ISCSIPersistentVolumeSource{}}), map[string]string{
			"n1": "PersistentVolume v (a raw disk that may be attached by kubernetes.io/iscsi)",
			"n2": "PersistentVolume v (a raw disk that may be attached by kubernetes.io/iscsi)"}},
		{volume("v", files, csi("silent")), map[string]string{}},
		{volume("v", files, source{ISCSI: &corev1.ISCSIPersistentVolumeSource{}}), map[string]string{}},
		{volume("v", raw, csi(theirs)), map[string]string{}},
		{volume("v", raw, csi("plain")), map[string]string{}},
		{volume("v", raw, csi("without an object")), map[string]string{}},
		{volume("v", raw, csi(resources.DriverName)), map[string]string{}},
	} {
		got := map[string]string{}
		for node, all := range Of(nodes, []corev1.PersistentVolume{tc.volume}, drivers) {
			for i := range all {
				got[node] += all[i].String()
			}
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%+v: %s", tc.volume.Spec, d)
		}
	}
}

// Only an affinity that says on which hosts a volume is keeps it to them.
func TestOnNodes(t *testing.T) {
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}
	for _, tc := range []struct {
		name string
		on   corev1.NodeSelectorRequirement
		want []string
	}{
		{"a host", corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
			Values: []string{"n1"}}, []string{"n1"}},
		{"any but one", corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn,
			Values: []string{"n1"}}, []string{"n1", "n2"}},
		{"a zone of that name", corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone,
			Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}, []string{"n1", "n2"}},
	} {
		pv := &corev1.PersistentVolume{}
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{tc.on}}}}}
		if got := onNodes(pv, nodes); !cmp.Equal(got, tc.want) {
			t.Errorf("%s: on %v, want %v", tc.name, got, tc.want)
		}
	}
}
