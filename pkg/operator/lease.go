package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// leaseName is the Lease that the leader holds.
const leaseName = "storagecluster-operator"

// errNotLeader is returned for a write that comes after the lease may have gone to another operator.
var errNotLeader = errors.New("this operator's lease has run out")

// leaseWatch notes when the lease was last renewed. A process that was stopped for a while (a paused node, a frozen
// virtual machine) goes on in the middle of what it did before it learns that another one leads; the check before each
// write stops it there.
type leaseWatch struct {
	resourcelock.Interface
	duration time.Duration

	mu      sync.Mutex
	renewed time.Time
}

func newLeaseWatch(cfg *rest.Config, duration time.Duration) (*leaseWatch, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this host: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, v1alpha1.OperatorNamespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()}, cfg, duration*2/3)
	if err != nil {
		return nil, fmt.Errorf("build the lease: %w", err)
	}
	return &leaseWatch{Interface: lock, duration: duration}, nil
}

// Create takes the lease for the first time.
func (l *leaseWatch) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, func() error { return l.Interface.Create(ctx, r) })
}

// Update takes, renews or releases the lease.
func (l *leaseWatch) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.note(r, func() error { return l.Interface.Update(ctx, r) })
}

// note counts a renewal from the moment before it was sent, which is the earliest at which others can count it.
func (l *leaseWatch) note(r resourcelock.LeaderElectionRecord, write func() error) error {
	at := time.Now()
	if err := write(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = at
	if r.HolderIdentity != l.Identity() {
		l.renewed = time.Time{} // released
	}
	return nil
}

// check refuses when the lease may have run out. Without leader election there is no lease, and nothing is refused.
func (l *leaseWatch) check(context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Wall-clock time counts as well: the monotonic clock stands still while a machine sleeps.
	if time.Since(l.renewed) > l.duration || time.Since(l.renewed.Round(0)) > l.duration {
		return errNotLeader
	}
	return nil
}
