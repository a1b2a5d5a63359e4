package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
)

func TestBecause(t *testing.T) {
	hold := &v1alpha1.Hold{ID: "h-123456", Message: "disks are not empty"}
	pools := metav1.Condition{Type: conditions.StoragePoolsReady, Message: "3 of 3 nodes have all their storage pools"}
	for name, tc := range map[string]struct {
		hold *v1alpha1.Hold
		step v1alpha1.Transition
		want string
	}{
		"of its own": {nil, v1alpha1.Transition{From: v1alpha1.PhaseReady, To: v1alpha1.PhaseAssessing,
			Message: "the spec changed"}, "the spec changed"},
		"a step that is done": {
			nil, v1alpha1.Transition{From: v1alpha1.PhaseStoragePools, To: v1alpha1.PhaseAssessing},
			"3 of 3 nodes have all their storage pools",
		},
		"a hold": {
			hold, v1alpha1.Transition{From: v1alpha1.PhaseStoragePools, To: v1alpha1.PhaseHumanIntervention,
				Message: "hold h-123456: DeviceNotEmpty"},
			"disks are not empty",
		},
		"a hold of before": {
			hold, v1alpha1.Transition{From: v1alpha1.PhaseStoragePools, To: v1alpha1.PhaseHumanIntervention,
				Message: "hold h-000000: DeviceMissing"},
			"hold h-000000: DeviceMissing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.StorageCluster{Status: v1alpha1.StorageClusterStatus{Hold: tc.hold,
				Conditions: []metav1.Condition{pools}}}
			if got := because(c, &tc.step); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
