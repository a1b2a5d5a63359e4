package operator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestOptionsDefaults(t *testing.T) {
	o := Options{}.withDefaults()
	if o.LinstorEndpoint != "http://linstor-controller.linstor-storage.svc:3370" || o.LeaseDuration != 15*time.Second ||
		o.Catalogue == nil || o.Registry == nil {
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

// slowLock takes a while for each write.
type slowLock struct {
	resourcelock.Interface
	takes time.Duration
	err   error
}

func (l *slowLock) Identity() string { return "me" }

func (l *slowLock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }
func (l *slowLock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.write() }

func (l *slowLock) write() error {
	<-time.After(l.takes)
	return l.err
}

func mine() resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
}

func TestLeaseWatch(t *testing.T) {
	const duration = 15 * time.Second
	for _, tc := range []struct {
		name string
		do   func(ctx context.Context, w *leaseWatch, lock *slowLock) error
		want error
	}{
		{"never held", func(context.Context, *leaseWatch, *slowLock) error { return nil }, errNotLeader},
		{"just taken", func(ctx context.Context, w *leaseWatch, _ *slowLock) error { return w.Create(ctx, mine()) }, nil},
		{"at its end", func(ctx context.Context, w *leaseWatch, _ *slowLock) error {
			err := w.Create(ctx, mine())
			<-time.After(duration)
			return err
		}, nil},
		{"after its end", func(ctx context.Context, w *leaseWatch, _ *slowLock) error {
			err := w.Create(ctx, mine())
			<-time.After(duration + 1)
			return err
		}, errNotLeader},
		{"renewed in time", func(ctx context.Context, w *leaseWatch, _ *slowLock) error {
			err := w.Create(ctx, mine())
			<-time.After(10 * time.Second)
			err = errors.Join(err, w.Update(ctx, mine()))
			<-time.After(10 * time.Second)
			return err
		}, nil},
		{"a renewal counts from before it was sent", func(ctx context.Context, w *leaseWatch, lock *slowLock) error {
			lock.takes = 10 * time.Second
			err := w.Create(ctx, mine())
			<-time.After(6 * time.Second)
			return err
		}, errNotLeader},
		{"a failed renewal is none", func(ctx context.Context, w *leaseWatch, lock *slowLock) error {
			err := w.Create(ctx, mine())
			<-time.After(10 * time.Second)
			lock.err = errors.New("conflict")
			if w.Update(ctx, mine()) == nil {
				return errors.New("the error is lost")
			}
			<-time.After(6 * time.Second)
			return err
		}, errNotLeader},
		{"released", func(ctx context.Context, w *leaseWatch, _ *slowLock) error {
			err := w.Create(ctx, mine())
			return errors.Join(err, w.Update(ctx, resourcelock.LeaderElectionRecord{}))
		}, errNotLeader},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lock := &slowLock{}
				w := &leaseWatch{Interface: lock, duration: duration}
				if err := tc.do(t.Context(), w, lock); err != nil {
					t.Fatal(err)
				}
				if err := w.check(t.Context()); !errors.Is(err, tc.want) {
					t.Errorf("check = %v, want %v", err, tc.want)
				}
			})
		})
	}
}

func TestWithoutLeaderElectionNothingIsRefused(t *testing.T) {
	var w *leaseWatch
	if err := w.check(t.Context()); err != nil {
		t.Error(err)
	}
}
