package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Deadlines bound each call.
type Deadlines struct {
	// Answer is for what a member answers by itself. That it also has a quorum behind it may take as long again.
	Answer time.Duration
	// Change is for a change of membership or leader.
	Change time.Duration
	// Long is for compaction and defragmentation, which rewrite a database.
	Long time.Duration
}

// Default are the deadlines on usual disks and networks.
var Default = Deadlines{Answer: 3 * time.Second, Change: 10 * time.Second, Long: 5 * time.Minute}

// Client is the API of real members.
type Client struct {
	tls       *tls.Config
	deadlines Deadlines
}

var _ API = (*Client)(nil)

// New is a client; its connections are encrypted if there is a configuration for that.
func New(tls *tls.Config, deadlines Deadlines) *Client { return &Client{tls, deadlines} }

// dial connects to one endpoint, does something there within a time, and disconnects. The client knows no other
// endpoint that it could turn to when this one is silent.
func (c *Client) dial(ctx context.Context, endpoint string, limit time.Duration,
	do func(context.Context, *clientv3.Client) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, TLS: c.tls, DialTimeout: limit, Context: ctx, Logger: zap.NewNop(),
		MaxUnaryRetries: 1,
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	err = do(ctx, client)
	if closeErr := client.Close(); closeErr != nil && !errors.Is(closeErr, context.Canceled) &&
		!errors.Is(closeErr, context.DeadlineExceeded) {
		err = errors.Join(err, closeErr)
	}
	return err
}

// Look implements API.
func (c *Client) Look(ctx context.Context, endpoint string) view.Answer {
	a := view.Answer{Endpoint: endpoint}
	a.Err = c.dial(ctx, endpoint, 2*c.deadlines.Answer, func(ctx context.Context, client *clientv3.Client) error {
		short, cancel := context.WithTimeout(ctx, c.deadlines.Answer)
		defer cancel()
		if err := c.status(short, client, &a); err != nil {
			return err
		}
		if !a.Learner {
			c.agreed(ctx, client, &a)
		}
		return nil
	})
	if a.Err != nil {
		a = view.Answer{Endpoint: endpoint, Err: a.Err}
	}
	return a
}

// status asks for what a member knows without the others.
func (*Client) status(ctx context.Context, client *clientv3.Client, a *view.Answer) error {
	s, err := client.Status(ctx, a.Endpoint)
	if err != nil {
		return fmt.Errorf("status of %s: %w", a.Endpoint, err)
	}
	a.ClusterID, a.MemberID = view.ID(s.Header.GetClusterId()), view.ID(s.Header.GetMemberId())
	a.Version, a.DBSize, a.InUse, a.Quota = s.Version, s.DbSize, s.DbSizeInUse, s.DbSizeQuota
	a.Storage = s.StorageVersion
	a.Leader, a.Learner, a.Revision = view.ID(s.Leader), s.IsLearner, s.Header.GetRevision()
	a.Term, a.Committed, a.Applied = s.RaftTerm, s.RaftIndex, s.RaftAppliedIndex
	return nil
}

// agreed asks for the member list on which the quorum agrees.
func (*Client) agreed(ctx context.Context, client *clientv3.Client, a *view.Answer) {
	list, err := client.MemberList(ctx)
	if err != nil {
		return
	}
	a.Linearizable = true
	for _, m := range list.Members {
		a.Agreed = append(a.Agreed, view.Member{ID: view.ID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs,
			Learner: m.IsLearner})
	}
}

// Alarms implements API.
func (c *Client) Alarms(ctx context.Context, endpoint string) (alarms []view.Alarm, err error) {
	err = c.call(ctx, endpoint, "list alarms", c.deadlines.Answer,
		func(ctx context.Context, client *clientv3.Client) error {
			found, err := client.AlarmList(ctx)
			if err != nil {
				return err
			}
			for _, m := range found.Alarms {
				switch m.Alarm {
				case pb.AlarmType_NOSPACE:
					alarms = append(alarms, view.Alarm{Member: view.ID(m.MemberID), Type: view.NoSpace})
				case pb.AlarmType_CORRUPT:
					alarms = append(alarms, view.Alarm{Member: view.ID(m.MemberID), Type: view.Corrupt})
				default: // NONE is no alarm
				}
			}
			return nil
		})
	return alarms, err
}

// call is a call with its name for the error.
func (c *Client) call(ctx context.Context, endpoint, what string, limit time.Duration,
	do func(context.Context, *clientv3.Client) error,
) error {
	if err := c.dial(ctx, endpoint, limit, do); err != nil {
		return fmt.Errorf("%s at %s: %w", what, endpoint, err)
	}
	return nil
}

// change is a call about one member of a cluster.
func (c *Client) change(ctx context.Context, endpoint, what string, id view.ID,
	do func(context.Context, *clientv3.Client, uint64) error,
) error {
	return c.call(ctx, endpoint, what+" "+id.String(), c.deadlines.Change,
		func(ctx context.Context, client *clientv3.Client) error { return do(ctx, client, uint64(id)) })
}

// AddLearner implements API.
func (c *Client) AddLearner(ctx context.Context, endpoint, peerURL string) error {
	return c.call(ctx, endpoint, "add the learner "+peerURL, c.deadlines.Change,
		func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.MemberAddAsLearner(ctx, []string{peerURL})
			return err
		})
}

// Promote implements API.
func (c *Client) Promote(ctx context.Context, endpoint string, id view.ID) error {
	return c.change(ctx, endpoint, "promote", id,
		func(ctx context.Context, client *clientv3.Client, id uint64) error {
			_, err := client.MemberPromote(ctx, id)
			return err
		})
}

// Remove implements API.
func (c *Client) Remove(ctx context.Context, endpoint string, id view.ID) error {
	return c.change(ctx, endpoint, "remove", id,
		func(ctx context.Context, client *clientv3.Client, id uint64) error {
			_, err := client.MemberRemove(ctx, id)
			return err
		})
}

// Update implements API.
func (c *Client) Update(ctx context.Context, endpoint string, id view.ID, peerURL string) error {
	return c.change(ctx, endpoint, "set the peer URL "+peerURL+" of", id,
		func(ctx context.Context, client *clientv3.Client, id uint64) error {
			_, err := client.MemberUpdate(ctx, id, []string{peerURL})
			return err
		})
}

// MoveLeader implements API.
func (c *Client) MoveLeader(ctx context.Context, endpoint string, id view.ID) error {
	return c.change(ctx, endpoint, "move leadership to", id,
		func(ctx context.Context, client *clientv3.Client, id uint64) error {
			_, err := client.MoveLeader(ctx, id)
			return err
		})
}

// Disarm implements API. The member and the type are named: the empty request would disarm all alarms, CORRUPT too.
func (c *Client) Disarm(ctx context.Context, endpoint string, id view.ID) error {
	return c.change(ctx, endpoint, "disarm NOSPACE of", id,
		func(ctx context.Context, client *clientv3.Client, id uint64) error {
			_, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: id, Alarm: pb.AlarmType_NOSPACE})
			return err
		})
}

// Compact implements API. A second call with the same revision also waits until the member itself has compacted, and
// then fails because the revision is compacted already (etcd 3.5 to 3.7, EtcdServer.Compact and mvcc's store). So
// each member can be called in turn.
func (c *Client) Compact(ctx context.Context, endpoint string, revision int64) error {
	return c.call(ctx, endpoint, fmt.Sprintf("compact to %d", revision), c.deadlines.Long,
		func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical())
			if errors.Is(err, rpctypes.ErrCompacted) {
				return nil
			}
			return err
		})
}

// Defragment implements API.
func (c *Client) Defragment(ctx context.Context, endpoint string) error {
	return c.call(ctx, endpoint, "defragment", c.deadlines.Long,
		func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Defragment(ctx, endpoint)
			return err
		})
}
