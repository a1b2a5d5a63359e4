package advice_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/advice"
)

func TestOf(t *testing.T) {
	const property = "property.linstor.csi.linbit.com/"
	class := func(key, value string) v1alpha1.StorageClusterSpec {
		parameters := map[string]volumespec.ParameterValue{key: volumespec.ParameterValue(value)}
		return v1alpha1.StorageClusterSpec{Volumes: volumespec.VolumesSpec{StorageClasses: []volumespec.StorageClassSpec{
			{Name: "plain"}, {Name: "replicated", Parameters: parameters}}}}
	}
	controller := func(key, value string) v1alpha1.StorageClusterSpec {
		return v1alpha1.StorageClusterSpec{Controller: v1alpha1.ControllerSpec{Properties: map[string]string{key: value}}}
	}
	withdrawn := catalogue.Release{Version: "1.2.3", Withdrawn: "it loses letters; 1.2.4 does not"}
	small := v1alpha1.Resources{Limits: v1alpha1.ResourceAmounts{corev1.ResourceMemory: resource.MustParse("256Mi")}}
	for name, tc := range map[string]struct {
		spec    v1alpha1.StorageClusterSpec
		want    []string
		release catalogue.Release
	}{
		"nothing": {},
		"a withdrawn release": {release: withdrawn,
			want: []string{"spec.version: LINSTOR 1.2.3 is withdrawn: it loses letters; 1.2.4 does not"}},
		"a class without quorum": {spec: class(property+"DrbdOptions/auto-quorum", "disabled"), want: []string{
			"spec.volumes.storageClasses[replicated]: LINSTOR 1.31 and later ignore " + property + "DrbdOptions/auto-quorum: " +
				"remove it, or set " + property + `DrbdOptions/Resource/quorum to "off" for volumes without quorum`}},
		"a class that suspends": {spec: class(property+"DrbdOptions/auto-quorum", "suspend-io"), want: []string{
			"spec.volumes.storageClasses[replicated]: LINSTOR 1.31 and later ignore " + property + "DrbdOptions/auto-quorum: " +
				"set " + property + "DrbdOptions/Resource/on-no-quorum to suspend-io instead"}},
		"another property of a class": {spec: class(property+"DrbdOptions/Resource/quorum", "off")},
		"the cluster": {spec: controller("DrbdOptions/auto-quorum", "io-error"), want: []string{
			"spec.controller.properties: LINSTOR 1.31 and later ignore DrbdOptions/auto-quorum: set " +
				"DrbdOptions/Resource/on-no-quorum to io-error instead"}},
		"another property of the cluster": {spec: controller("DrbdOptions/Resource/on-no-quorum", "io-error")},
		"too little memory": {spec: v1alpha1.StorageClusterSpec{Controller: v1alpha1.ControllerSpec{Resources: small},
			Nodes: v1alpha1.NodesSpec{Satellite: v1alpha1.SatelliteSpec{Resources: small}}}, want: []string{
			"spec.controller.resources.limits.memory is 256Mi: the LINSTOR controller may run out of memory with less than " +
				"1Gi; raise the limit, or remove it to use the default of 11Gi",
			"spec.nodes.satellite.resources.limits.memory is 256Mi: a satellite may run out of memory with less than 512Mi; " +
				"raise the limit, or remove it to use the default of 3Gi"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := advice.Of(&tc.spec, tc.release); strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("the advice is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}
