package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// registry is where kube-apiserver keeps all objects in etcd.
	registry = "/registry/"
	// namespaces is where the namespaces are.
	namespaces = registry + "namespaces/"
	// stillFor is how long nothing may change before the state is noted, lookEvery how often that is looked at.
	stillFor  = time.Second
	lookEvery = 100 * time.Millisecond
	// calmLooks in a row must find nothing to put back: controllers finish what they were about, and that comes late.
	calmLooks = 3
	calmEvery = 30 * time.Millisecond
	// dialTimeout bounds the connection to etcd, which is local and runs.
	dialTimeout = 10 * time.Second
)

// State is everything that a control plane had stored at one time.
type State struct {
	values map[string][]byte
	// revisions are those at which etcd is known to hold the values.
	revisions map[string]int64
}

// Note remembers what the control plane has stored, once its controllers have made what they make of themselves, and
// nothing has changed for a second. There must be no pods yet: Restore cannot put them back.
func (c *ControlPlane) Note(ctx context.Context) (*State, error) {
	etcd, err := c.etcd()
	if err != nil {
		return nil, err
	}
	defer func() { _ = etcd.Close() }()
	s := &State{}
	for since := time.Now(); time.Since(since) < stillFor; {
		now, err := stored(ctx, etcd)
		if err != nil {
			return nil, err
		}
		missing := stillToCome(now)
		if len(missing) > 0 || !maps.Equal(s.revisions, now.revisions) {
			s.revisions, since = now.revisions, time.Now()
		}
		if err := pause(ctx, lookEvery); err != nil {
			return nil, fmt.Errorf("wait until the new control plane rests; still to come are [%s]: %w",
				strings.Join(missing, ", "), err)
		}
	}
	// Events tell of what happened, not of what there is: no test shall see those of another.
	maps.DeleteFunc(s.revisions, func(key string, _ int64) bool { return strings.HasPrefix(key, registry+"events/") })
	s.values = make(map[string][]byte, len(s.revisions))
	for key, revision := range s.revisions {
		if strings.HasPrefix(key, registry+"pods/") {
			return nil, fmt.Errorf("note the state of the control plane: there is a pod, %s, which cannot be put back", key)
		}
		answer, err := etcd.Get(ctx, key, clientv3.WithRev(revision))
		if err != nil || len(answer.Kvs) != 1 {
			return nil, fmt.Errorf("read %s from etcd: %w", key, errors.Join(err, ctx.Err()))
		}
		s.values[key] = answer.Kvs[0].Value
	}
	return s, nil
}

// Restore puts the noted state back behind the API server's back: what has been added since is deleted, finalizers or
// not, what was changed or deleted gets its noted value. API server and controllers follow through their watches.
// It returns once a few looks in a row find nothing to do, with the keys that it touched, sorted. Nobody else may use
// the control plane meanwhile.
func (c *ControlPlane) Restore(ctx context.Context, s *State) ([]string, error) {
	etcd, err := c.etcd()
	if err != nil {
		return nil, err
	}
	defer func() { _ = etcd.Close() }()
	touched := map[string]bool{}
	for calm := 0; calm < calmLooks; calm++ {
		ops, keys, err := s.repairs(ctx, etcd)
		if err != nil {
			return nil, err
		}
		// Never two objects in one transaction: they would have one revision. A watch that the API server ends between
		// the two, as it does with watchers that are slow, goes on after that revision, and its client never learns of
		// the second: a scheduler counted on pods that were gone, and placed none where they had been.
		for _, op := range ops {
			if _, err := etcd.Do(ctx, op); err != nil {
				return nil, fmt.Errorf("put the state of the control plane back: %w", err)
			}
		}
		gone := false
		for _, key := range keys {
			touched[key], calm = true, -1
			gone = gone || strings.HasPrefix(key, namespaces)
		}
		if gone {
			if err := fence(ctx, etcd); err != nil {
				return nil, err
			}
		}
		if err := pause(ctx, calmEvery); err != nil {
			return nil, fmt.Errorf("the control plane does not come to rest; changed last were %s: %w",
				strings.Join(keys, ", "), err)
		}
	}
	return slices.Sorted(maps.Keys(touched)), nil
}

// fence returns once kube-controller-manager has reacted to a change that comes after those of namespaces. As long as
// it believes that there is a namespace it makes a service account and a ConfigMap with certificates there, and the
// API server, which may believe so too, takes them: on a busy machine that came after all had been calm. One worker
// each makes either object, and what it is told comes through one connection: when it has made both anew in another
// namespace, from which they were taken a moment after the others were gone, it has learnt of the others as well.
func fence(ctx context.Context, etcd *clientv3.Client) error {
	if err := pause(ctx, calmEvery); err != nil {
		return err
	}
	made := madeIn("kube-public")
	for _, k := range made {
		if _, err := etcd.Delete(ctx, k); err != nil {
			return fmt.Errorf("delete %s: %w", k, err)
		}
	}
	for _, k := range made {
		if err := madeAnew(ctx, etcd, k); err != nil {
			return err
		}
	}
	return nil
}

// madeAnew returns once the key is there.
func madeAnew(ctx context.Context, etcd *clientv3.Client, key string) error {
	for {
		answer, err := etcd.Get(ctx, key, clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("read %s from etcd: %w", key, err)
		}
		if answer.Count > 0 {
			return nil
		}
		if err := pause(ctx, calmEvery); err != nil {
			return fmt.Errorf("wait until kube-controller-manager makes %s anew: %w", key, err)
		}
	}
}

// madeIn are the keys of what kube-controller-manager makes in each namespace.
func madeIn(namespace string) []string {
	return []string{registry + "serviceaccounts/" + namespace + "/default",
		registry + "configmaps/" + namespace + "/kube-root-ca.crt"}
}

// repairs are what must be written now, and to which keys.
func (s *State) repairs(ctx context.Context, etcd *clientv3.Client) ([]clientv3.Op, []string, error) {
	all, err := stored(ctx, etcd)
	if err != nil {
		return nil, nil, err
	}
	var (
		now  = all.revisions
		ops  []clientv3.Op
		keys []string
	)
	for key, revision := range now {
		want, noted := s.values[key]
		if noted && s.revisions[key] == revision {
			continue
		}
		if !noted {
			ops, keys = append(ops, clientv3.OpDelete(key)), append(keys, key)
			continue
		}
		answer, err := etcd.Get(ctx, key)
		if err != nil {
			return nil, nil, fmt.Errorf("read %s from etcd: %w", key, err)
		}
		if len(answer.Kvs) == 1 && bytes.Equal(answer.Kvs[0].Value, want) {
			s.revisions[key] = answer.Kvs[0].ModRevision
			continue
		}
		ops, keys = append(ops, clientv3.OpPut(key, string(want))), append(keys, key)
	}
	for key, want := range s.values {
		if _, there := now[key]; !there {
			ops, keys = append(ops, clientv3.OpPut(key, string(want))), append(keys, key)
		}
	}
	return ops, keys, nil
}

// stock are the keys of all objects, with the revision and the number of the last write to each.
type stock struct{ revisions, versions map[string]int64 }

// stored leaves out the components' own Leases, which are renewed all the time.
func stored(ctx context.Context, etcd *clientv3.Client) (stock, error) {
	answer, err := etcd.Get(ctx, registry, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return stock{}, fmt.Errorf("list what etcd has: %w", err)
	}
	s := stock{map[string]int64{}, map[string]int64{}}
	for _, kv := range answer.Kvs {
		if key := string(kv.Key); !strings.HasPrefix(key, registry+"leases/kube-system/") {
			s.revisions[key], s.versions[key] = kv.ModRevision, kv.Version
		}
	}
	return s, nil
}

// Keys lists the keys of all stored objects, sorted, without those that come and go while nothing changes, or whose
// names are made up: Events, Leases, endpoints, pods and what revisions of them there were.
func (c *ControlPlane) Keys(ctx context.Context) ([]string, error) {
	etcd, err := c.etcd()
	if err != nil {
		return nil, err
	}
	defer func() { _ = etcd.Close() }()
	now, err := stored(ctx, etcd)
	if err != nil {
		return nil, err
	}
	var keys []string
	for key := range now.revisions {
		kind, _, _ := strings.Cut(strings.TrimPrefix(key, registry), "/")
		switch kind {
		case "events", "leases", "endpointslices", "pods", "replicasets", "controllerrevisions":
		default:
			if !strings.HasPrefix(key, registry+"services/endpoints/") {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// stillToCome are the keys that kube-controller-manager has yet to make or to change in a new control plane: of each
// namespace the first service account and the certificates, and the rules of the roles that are put together from
// others. It starts after the API server, and on a busy machine its work comes when everything has been still for a
// second already. What was noted without it could never be put back: Restore and the controllers undid each other's
// work.
func stillToCome(now stock) []string {
	var missing []string
	for key := range now.revisions {
		if name, ok := strings.CutPrefix(key, namespaces); ok {
			for _, made := range madeIn(name) {
				if now.revisions[made] == 0 {
					missing = append(missing, made)
				}
			}
		}
	}
	for _, role := range []string{"admin", "edit", "view"} {
		if key := registry + "clusterroles/" + role; now.versions[key] < 2 {
			missing = append(missing, key)
		}
	}
	slices.Sort(missing)
	return missing
}

func (c *ControlPlane) etcd() (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.socket}, DialTimeout: dialTimeout,
		Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connect to the control plane's etcd: %w", err)
	}
	return client, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
