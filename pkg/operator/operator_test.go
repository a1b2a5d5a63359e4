package operator

import (
	"testing"
	"time"
)

func TestOptionsDefaults(t *testing.T) {
	o := Options{}.withDefaults()
	if o.LinstorEndpoint != "http://linstor-controller.linstor-storage.svc:3370" || o.LeaseDuration != 15*time.Second || o.Catalogue == nil || o.Registry == nil {
		t.Errorf("%+v", o)
	}
	given := Options{LinstorEndpoint: "http://x", LeaseDuration: time.Minute}.withDefaults()
	if given.LinstorEndpoint != "http://x" || given.LeaseDuration != time.Minute {
		t.Errorf("what was given is replaced: %+v", given)
	}
}

func TestTheLeaseIsRenewedWellBeforeItEnds(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 15 * time.Second, time.Minute} {
		o := managerOptions(nil, Options{LeaseDuration: d})
		if *o.RenewDeadline >= *o.LeaseDuration || *o.RetryPeriod*3 >= *o.RenewDeadline || *o.RetryPeriod <= 0 {
			t.Errorf("lease %s: renewed until %s, every %s", *o.LeaseDuration, *o.RenewDeadline, *o.RetryPeriod)
		}
	}
}
