package specchange_test

import (
	"slices"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
)

func TestChanges(t *testing.T) {
	from := &v1alpha1.StorageClusterSpec{Version: "1.34.2", StoragePools: []v1alpha1.StoragePoolSpec{{Name: "ssd"},
		{Name: "old"}}}
	to := from.DeepCopy()
	to.Version = "1.35.3"
	to.StoragePools = []v1alpha1.StoragePoolSpec{{Name: "ssd", Properties: map[string]string{"a": "b"}}}
	to.Volumes.StorageClasses = []volumespec.StorageClassSpec{{Name: "with.a.dot"}}
	to.Images.PullSecrets = []string{"s"}
	changes, err := specchange.Changes(from, to)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range changes {
		c := &changes[i]
		got = append(got, c.At+" = "+c.Path)
		if (c.From == nil) != slices.Contains([]string{"images.pullSecrets", "storagePools[ssd].properties",
			"volumes.storageClasses[with.a.dot]"}, c.At) || (c.To == nil) != (c.At == "storagePools[old]") {
			t.Errorf("%s: %v → %v", c.At, c.From, c.To)
		}
	}
	want := []string{"images.pullSecrets = images.pullSecrets[]", "storagePools[old] = storagePools[].name",
		"storagePools[ssd].properties = storagePools[].properties", "version = version",
		"volumes.storageClasses[with.a.dot] = volumes.storageClasses[].name"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
