package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

// The environment of LINSTOR's entry point, which waits in an election before it opens the database.
const (
	electionEnabled   = "K8S_AWAIT_ELECTION_ENABLED"
	electionLock      = "K8S_AWAIT_ELECTION_LOCK_NAME"
	electionNamespace = "K8S_AWAIT_ELECTION_LOCK_NAMESPACE"
	electionIdentity  = "K8S_AWAIT_ELECTION_IDENTITY"
)

// The entry point's durations, which are client-go's usual ones.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var errPowerCut = errors.New("the machine is off")

// elected runs the program, after it holds the Lease when the environment asks for that. The Lease is taken with the
// rights of the pod's ServiceAccount, and released after the program has ended; in a power cut it is not, and the next
// holder has to wait until it expires.
func (d *Driver) elected(ctx context.Context, t *controllerTask, pod *corev1.Pod, env map[string]string,
	program func(context.Context) exit) exit {
	if env[electionEnabled] == "" {
		return program(ctx)
	}
	lock, err := d.newLock(pod, env, t.cut)
	if err != nil {
		return exit{code: 1, message: err.Error()}
	}
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	defer cancel()
	result := make(chan exit, 1)
	lasts := machine.Slow(leaseDuration)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: lasts, RenewDeadline: lasts / 3 * 2, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				result <- program(leading)
				cancel()
			},
			OnStoppedLeading: func() {},
		},
		// Not ReleaseOnCancel: the elector would release before the program has ended.
	})
	if err != nil {
		return exit{code: 1, message: fmt.Sprintf("join the election: %v", err)}
	}
	elector.Run(ctx)
	e := exit{code: 143, message: "terminated while waiting for the election"}
	if lock.acquired.Load() {
		e = <-result
	}
	if err := lock.release(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, errPowerCut) {
		d.logf("pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	return e
}

// lease is the lock of one candidate.
type lease struct {
	resourcelock.Interface
	cut      func() bool
	refused  func(error)
	acquired atomic.Bool
}

func (d *Driver) newLock(pod *corev1.Pod, env map[string]string, cut func() bool) (*lease, error) {
	client, err := d.clientOf(pod)
	if err != nil {
		return nil, fmt.Errorf("make a client for the election: %w", err)
	}
	namespace, name, identity := env[electionNamespace], env[electionLock], env[electionIdentity]
	if namespace == "" || name == "" || identity == "" {
		return nil, fmt.Errorf("%s needs %s, %s and %s", electionEnabled, electionNamespace, electionLock, electionIdentity)
	}
	return &lease{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		cut: cut,
		refused: func(err error) {
			d.logf("pod %s/%s: election for Lease %s/%s: %v", pod.Namespace, pod.Name, namespace, name, err)
		},
	}, nil
}

func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *lease) write(record resourcelock.LeaderElectionRecord, write func() error) error {
	if l.cut() {
		return errPowerCut
	}
	err := write()
	if err == nil && record.HolderIdentity == l.Identity() {
		l.acquired.Store(true)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		l.refused(err)
	}
	return err
}

// release gives the Lease up, if this candidate holds it.
func (l *lease) release(ctx context.Context) error {
	if l.cut() {
		return errPowerCut
	}
	ctx, cancel := machine.WithTimeout(ctx, renewDeadline)
	defer cancel()
	record, _, err := l.Get(ctx)
	if err != nil {
		return fmt.Errorf("release the Lease: %w", err)
	}
	if record.HolderIdentity != l.Identity() {
		return nil
	}
	now := metav1.Now()
	err = l.Interface.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
	if err != nil {
		return fmt.Errorf("release the Lease: %w", err)
	}
	return nil
}

// configOf returns the configuration of a client with the rights of the pod's ServiceAccount.
func configOf(d *Driver, pod *corev1.Pod) *rest.Config {
	config := rest.CopyConfig(d.opts.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: serviceAccountUser(pod), Groups: serviceAccountGroups(pod)}
	return config
}

// clientOf returns a client with the rights of the pod's ServiceAccount.
func (d *Driver) clientOf(pod *corev1.Pod) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(configOf(d, pod))
}

func serviceAccountUser(pod *corev1.Pod) string {
	return "system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName
}

func serviceAccountGroups(pod *corev1.Pod) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + pod.Namespace, "system:authenticated"}
}
