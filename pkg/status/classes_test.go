package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/optional"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/storageclass"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/monitors"
)

func TestClassesReady(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 2)
	want := resources.StorageClass(s.SatelliteParams(), &volumespec.StorageClassSpec{Name: "fast"}, false)
	fine := &cluster.StorageClass{Name: "fast", Want: want, Live: want}
	noted := &cluster.StorageClass{Name: "old", Live: want, Note: "StorageClass old stays"}
	full := &cluster.StorageClass{Name: "wide", Want: want, Reason: storageclass.ReasonUnsatisfiable, Message: "too wide"}
	making := &cluster.StorageClass{Name: "new", Want: want, Reason: storageclass.ReasonMaking,
		Message: "it is being created or updated"}
	for _, tc := range []struct {
		name    string
		classes []*cluster.StorageClass
		status  metav1.ConditionStatus
		reason  string
		words   []string
	}{
		{"none", nil, metav1.ConditionTrue, "NotWanted", []string{"is empty"}},
		{"one", []*cluster.StorageClass{fine}, metav1.ConditionTrue, conditions.ReasonAsExpected,
			[]string{"1 StorageClass exists"}},
		{"one, and one that stays", []*cluster.StorageClass{fine, noted}, metav1.ConditionTrue,
			conditions.ReasonAsExpected, []string{"1 StorageClass exists", "; StorageClass old stays"}},
		{"the worst names the reason", []*cluster.StorageClass{making, full, fine}, metav1.ConditionFalse,
			storageclass.ReasonUnsatisfiable, []string{"new: it is being created or updated; wide: too wide"}},
		{"many", []*cluster.StorageClass{full, full, full, full, full}, metav1.ConditionFalse,
			storageclass.ReasonUnsatisfiable, []string{"and 2 more"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := judged(t, v1alpha1.PhaseReady, 2)
			s.Classes = tc.classes
			v := classesReady(s)
			if v.status != tc.status || v.reason != tc.reason {
				t.Errorf("%+v", v)
			}
			for _, words := range tc.words {
				if !strings.Contains(v.message, words) {
					t.Errorf("%q lacks %q", v.message, words)
				}
			}
		})
	}
	t.Run("LINSTOR is silent", func(t *testing.T) {
		s := judged(t, v1alpha1.PhaseReady, 2)
		s.Classes, s.Linstor.View = []*cluster.StorageClass{fine}, nil
		if v := classesReady(s); v.status != metav1.ConditionUnknown {
			t.Errorf("%+v", v)
		}
		meta.SetStatusCondition(&s.Cluster.Status.Conditions, metav1.Condition{Type: conditions.StorageClassesReady,
			Status: metav1.ConditionFalse, Reason: storageclass.ReasonUnsatisfiable, Message: "as before"})
		if v := classesReady(s); v.status != metav1.ConditionFalse || v.message != "as before" {
			t.Errorf("what was said last is gone: %+v", v)
		}
	})
	t.Run("LINSTOR connects to its satellites", func(t *testing.T) {
		s := judged(t, v1alpha1.PhaseReady, 2)
		s.Classes = []*cluster.StorageClass{fine}
		show(s, 0)
		and(answersFor(time.Second), lose(2))(s)
		if v := classesReady(s); v.status != metav1.ConditionUnknown {
			t.Errorf("%+v", v)
		}
		meta.SetStatusCondition(&s.Cluster.Status.Conditions, metav1.Condition{Type: conditions.StorageClassesReady,
			Status: metav1.ConditionFalse, Reason: storageclass.ReasonUnsatisfiable, Message: "as before"})
		if v := classesReady(s); v.status != metav1.ConditionFalse || v.message != "as before" {
			t.Errorf("what was said last is gone: %+v", v)
		}
	})
}

// TestMonitoringReady: what was seen last stays between two looks, and what Kubernetes refuses is told.
func TestMonitoringReady(t *testing.T) {
	s := judged(t, v1alpha1.PhaseReady, 2)
	if v := monitoringReady(Input{Snapshot: s}); v.status != metav1.ConditionUnknown {
		t.Errorf("before the first look: %+v", v)
	}
	s.Kube.Optional = optional.APIs{optional.Monitoring: monitors.Kinds()}
	s.Kube.Monitors, s.Kube.MonitorsKnown = monitors.Objects(s.Cluster.Name, &s.Cluster.Spec.Monitoring,
		apitls.Access{}), true
	v := monitoringReady(Input{Snapshot: s})
	if v.status != metav1.ConditionTrue || v.reason != conditions.ReasonAsExpected {
		t.Errorf("all is there: %+v", v)
	}
	v.set(&s.Cluster.Status, conditions.MonitoringReady, 1, begin)
	s.Kube.MonitorsKnown = false
	if again := monitoringReady(Input{Snapshot: s}); again != v {
		t.Errorf("between two looks: %+v, want %+v", again, v)
	}
	in := &step.Input{Failures: &step.Failures{}}
	in.FailedAside(conditions.MonitoringReady, errors.New("a webhook refuses it"))
	if v := monitoringReady(Input{Snapshot: s, Failures: in.Failures}); v.status != metav1.ConditionFalse ||
		v.reason != conditions.ReasonRefused || v.message != "a webhook refuses it" {
		t.Errorf("refused: %+v", v)
	}
	s.Target = nil
	if v := monitoringReady(Input{Snapshot: s}); v.reason != conditions.ReasonNotChecked {
		t.Errorf("before the spec is accepted: %+v", v)
	}
}
