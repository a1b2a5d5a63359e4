package controller

import (
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/volumespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/canary"
)

// Reasons of Events about volumes that are tried.
const (
	reasonCanaryPassed = "CanaryPassed"
	reasonCanaryFailed = string(v1alpha1.HoldCanaryFailed)
)

// announceCanary makes an Event of each try that has passed, or failed, and of each snapshot that could not be taken.
func (r *Reconciler) announceCanary(before, after *v1alpha1.StorageCluster) {
	was := map[string]*volumespec.CanaryClass{}
	for _, c := range canaryClasses(before) {
		was[c.Name] = c
	}
	for _, c := range canaryClasses(after) {
		last := was[c.Name]
		if why := canary.SnapshotFailure(c); why != "" && (last == nil || canary.SnapshotFailure(last) == "") {
			r.event(after, warning, canary.ReasonSnapshotFailed, c.Name, why)
		}
		if last != nil && last.Result == c.Result && last.Passed.Equal(c.Passed) {
			continue
		}
		switch c.Result {
		case volumespec.CanaryPassed:
			r.event(after, normal, reasonCanaryPassed, c.Name,
				"a pod wrote data to a test volume of StorageClass "+c.Name+" and read it back; the volume has been deleted")
		case volumespec.CanaryFailed:
			r.event(after, warning, reasonCanaryFailed, c.Name+" "+string(c.Step),
				"StorageClass "+c.Name+": "+string(c.Step)+": "+c.Message)
		case volumespec.CanaryRunning, volumespec.CanarySkipped:
		}
	}
}

func canaryClasses(c *v1alpha1.StorageCluster) (out []*volumespec.CanaryClass) {
	if st := c.Status.Canary; st != nil {
		for i := range st.Classes {
			out = append(out, &st.Classes[i])
		}
	}
	return out
}

// measureCanary sets the metrics about tries. One that goes on leaves what the last one said.
func (r *Reconciler) measureCanary(c *v1alpha1.StorageCluster) {
	success, passed := map[string]float64{}, map[string]float64{}
	for _, class := range canaryClasses(c) {
		if class.Passed != nil {
			passed[class.Name] = float64(class.Passed.Unix())
		}
		switch {
		case class.Result == volumespec.CanaryFailed:
			success[class.Name] = 0
		case class.Passed != nil:
			success[class.Name] = 1
		}
	}
	r.Metrics.CanarySuccess.Replace(success)
	r.Metrics.CanaryTime.Replace(passed)
}
