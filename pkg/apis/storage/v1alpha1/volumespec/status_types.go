package volumespec

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VolumesStatus counts volumes by health as of the last check, which is at most one minute old while LINSTOR responds.
// Each volume with replicas is counted once: total is the sum of healthy, degraded, resyncing and unavailable, plus
// volumes without any replica yet.
type VolumesStatus struct {
	// total is the number of LINSTOR's resource definitions.
	// +optional
	// +default=0
	Total int32 `json:"total"`
	// healthy is the number of volumes with all replicas up to date.
	// +optional
	// +default=0
	Healthy int32 `json:"healthy"`
	// degraded is the number of volumes with an up-to-date replica, but with other replicas missing.
	// +optional
	// +default=0
	Degraded int32 `json:"degraded"`
	// resyncing is the number of volumes with an up-to-date replica whose other replicas are being synchronized.
	// +optional
	// +default=0
	Resyncing int32 `json:"resyncing"`
	// unavailable is the number of volumes without a replica that is known to be up to date.
	// +optional
	// +default=0
	Unavailable int32 `json:"unavailable"`
	// updated is when these numbers were last updated.
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`
}

// UnmarshalJSON also accepts a plain number as the total, as earlier versions of the operator stored it.
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
