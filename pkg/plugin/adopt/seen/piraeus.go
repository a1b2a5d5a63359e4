package seen

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LinstorCluster is what is read of one. Piraeus' definitions (piraeus-operator 2.11, api/v1) are not ours: fields
// that are not known here are left out, and none is required.
type LinstorCluster struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Repository                 string                `json:"repository"`
		ExternalController         *struct{ URL string } `json:"externalController"`
		NodeSelector               map[string]string     `json:"nodeSelector"`
		NodeAffinity               *corev1.NodeSelector  `json:"nodeAffinity"`
		Tolerations                []corev1.Toleration   `json:"tolerations"`
		Properties                 []Property            `json:"properties"`
		Patches                    []json.RawMessage     `json:"patches"`
		PassphraseSecret           string                `json:"linstorPassphraseSecret"`
		InternalTLS                *TLSConfig            `json:"internalTLS"`
		APITLS                     *APITLS               `json:"apiTLS"`
		Controller                 *Component            `json:"controller"`
		CSIController              *Component            `json:"csiController"`
		CSINode                    *Component            `json:"csiNode"`
		HighAvailabilityController *Component            `json:"highAvailabilityController"`
		AffinityController         *Component            `json:"affinityController"`
		NFSServer                  *Component            `json:"nfsServer"`
		MaxConcurrentEvacuations   *int64                `json:"maxConcurrentEvacuations"`
	} `json:"spec"`
	Status struct {
		Version string `json:"version"`
	} `json:"status"`
}

// Component switches a part of Piraeus on or off.
type Component struct {
	Enabled     *bool           `json:"enabled"`
	Replicas    *int64          `json:"replicas"`
	PodTemplate json.RawMessage `json:"podTemplate"`
}

// Off reports whether a part that is on by default was switched off.
func (c *Component) Off() bool { return c != nil && c.Enabled != nil && !*c.Enabled }

// TLSConfig locks the connections between LINSTOR's controller and its satellites.
type TLSConfig struct {
	SecretName   string          `json:"secretName"`
	CertManager  json.RawMessage `json:"certManager"`
	CAReference  json.RawMessage `json:"caReference"`
	TLSHandshake bool            `json:"tlsHandshakeDaemon"`
}

// APITLS locks LINSTOR's API.
type APITLS struct {
	APISecretName string          `json:"apiSecretName"`
	ClientSecret  string          `json:"clientSecretName"`
	CertManager   json.RawMessage `json:"certManager"`
	CAReference   json.RawMessage `json:"caReference"`
}

// Property is one of LINSTOR's: with a value, or taken from the Node.
type Property struct {
	Name       string          `json:"name"`
	Value      string          `json:"value"`
	ValueFrom  json.RawMessage `json:"valueFrom"`
	ExpandFrom json.RawMessage `json:"expandFrom"`
}

// Fixed reports whether the value is the property's own.
func (p *Property) Fixed() bool { return len(p.ValueFrom)+len(p.ExpandFrom) == 0 }

// SatelliteConfiguration is for the nodes that it picks.
type SatelliteConfiguration struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeSelector       map[string]string    `json:"nodeSelector"`
		NodeAffinity       *corev1.NodeSelector `json:"nodeAffinity"`
		Properties         []Property           `json:"properties"`
		Patches            []json.RawMessage    `json:"patches"`
		StoragePools       []PiraeusPool        `json:"storagePools"`
		InternalTLS        *TLSConfig           `json:"internalTLS"`
		IPFamilies         []string             `json:"ipFamilies"`
		PodTemplate        json.RawMessage      `json:"podTemplate"`
		DeletionPolicy     string               `json:"deletionPolicy"`
		EvacuationStrategy json.RawMessage      `json:"evacuationStrategy"`
	} `json:"spec"`
}

// Everywhere reports whether the configuration is for all nodes.
func (c *SatelliteConfiguration) Everywhere() bool {
	return len(c.Spec.NodeSelector) == 0 && c.Spec.NodeAffinity == nil
}

// Satellite is the object that Piraeus makes for each node.
type Satellite struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		StoragePools   []PiraeusPool `json:"storagePools"`
		InternalTLS    *TLSConfig    `json:"internalTLS"`
		DeletionPolicy string        `json:"deletionPolicy"`
	} `json:"spec"`
}

// NodeConnection is for connections between nodes.
type NodeConnection struct {
	metav1.ObjectMeta `json:"metadata"`
}

// PiraeusPool is a pool as Piraeus' objects describe it.
type PiraeusPool struct {
	Name       string     `json:"name"`
	Properties []Property `json:"properties"`
	LVM        *struct {
		VolumeGroup    string          `json:"volumeGroup"`
		SharedSpace    json.RawMessage `json:"sharedSpace"`
		ExternalLocked json.RawMessage `json:"externalLocking"`
	} `json:"lvmPool"`
	LVMThin *struct {
		VolumeGroup string `json:"volumeGroup"`
		ThinPool    string `json:"thinPool"`
	} `json:"lvmThinPool"`
	File     *directory `json:"filePool"`
	FileThin *directory `json:"fileThinPool"`
	ZFS      *zpool     `json:"zfsPool"`
	ZFSThin  *zpool     `json:"zfsThinPool"`
	Source   *struct {
		HostDevices []string `json:"hostDevices"`
	} `json:"source"`
}

type (
	directory struct {
		Directory string `json:"directory"`
	}
	zpool struct {
		ZPool string `json:"zPool"`
	}
)

// Kinds of pools, as LINSTOR calls its providers.
const (
	KindLVM      = "LVM"
	KindLVMThin  = "LVM_THIN"
	KindZFS      = "ZFS"
	KindZFSThin  = "ZFS_THIN"
	KindFile     = "FILE"
	KindFileThin = "FILE_THIN"
	KindDiskless = "DISKLESS"
)

// InLinstor is the pool as LINSTOR has it: Piraeus derives what its entry leaves out from the pool's name.
func (p *PiraeusPool) InLinstor() Pool {
	out := Pool{Name: p.Name}
	switch {
	case p.LVM != nil:
		out.Kind, out.Place = KindLVM, cmp.Or(p.LVM.VolumeGroup, p.Name)
	case p.LVMThin != nil:
		thin := cmp.Or(p.LVMThin.ThinPool, p.Name)
		out.Kind, out.Place = KindLVMThin, cmp.Or(p.LVMThin.VolumeGroup, "linstor_"+thin)+"/"+thin
	case p.ZFS != nil:
		out.Kind, out.Place = KindZFS, cmp.Or(p.ZFS.ZPool, p.Name)
	case p.ZFSThin != nil:
		out.Kind, out.Place = KindZFSThin, cmp.Or(p.ZFSThin.ZPool, p.Name)
	case p.File != nil:
		out.Kind, out.Place = KindFile, cmp.Or(p.File.Directory, path.Join("/var/lib/linstor-pools", p.Name))
	case p.FileThin != nil:
		out.Kind, out.Place = KindFileThin, cmp.Or(p.FileThin.Directory, path.Join("/var/lib/linstor-pools", p.Name))
	}
	return out
}

// VersionPattern is what versions of LINSTOR and of Piraeus look like.
var VersionPattern = regexp.MustCompile(`^\d{1,4}\.\d{1,4}\.\d{1,4}$`)

// TagOf is the version in an image's tag: quay.io/piraeusdatastore/piraeus-server:v1.34.2 is 1.34.2. A tag that is no
// version is "", and so is an image that has only a digest.
func TagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	tag, _, _ = strings.Cut(strings.TrimPrefix(tag, "v"), "-")
	if !VersionPattern.MatchString(tag) {
		return ""
	}
	return tag
}

// Container is the container of that name, or the first one.
func Container(t *corev1.PodTemplateSpec, name string) *corev1.Container {
	all := t.Spec.Containers
	if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &all[i]
	}
	if len(all) == 0 {
		return &corev1.Container{}
	}
	return &all[0]
}
