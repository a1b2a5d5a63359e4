package volumespec

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VolumesStatus counts volumes by how well they are at the last look, which is a minute old at most while LINSTOR answers. Each volume
// with a copy counts once; healthy, degraded, resyncing and unavailable add up to total, but for volumes without any copy yet.
type VolumesStatus struct {
	// total is the number of LINSTOR's resource definitions.
	// +optional
	// +default=0
	Total int32 `json:"total"`
	// healthy is the number of volumes whose copies are all up to date.
	// +optional
	// +default=0
	Healthy int32 `json:"healthy"`
	// degraded is the number of volumes that have an up-to-date copy, and lack another.
	// +optional
	// +default=0
	Degraded int32 `json:"degraded"`
	// resyncing is the number of volumes that have an up-to-date copy, and whose others are being brought up to date.
	// +optional
	// +default=0
	Resyncing int32 `json:"resyncing"`
	// unavailable is the number of volumes without any copy that is known to be up to date.
	// +optional
	// +default=0
	Unavailable int32 `json:"unavailable"`
	// updated is when these numbers were last written.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`
}

// UnmarshalJSON takes a number for the total too: that is what operators of before have stored.
func (v *VolumesStatus) UnmarshalJSON(data []byte) error {
	var total int32
	if json.Unmarshal(data, &total) == nil {
		*v = VolumesStatus{Total: total}
		return nil
	}
	type plain VolumesStatus
	if err := json.Unmarshal(data, (*plain)(v)); err != nil {
		return fmt.Errorf("volumes: %w", err)
	}
	return nil
}
