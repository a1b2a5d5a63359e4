package database

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
)

const (
	// etcdNodes begins every key of LINSTOR's table of nodes, with LINSTOR's default prefix (linstor-server 1.33,
	// CtrlConfig). The slash at its end keeps NODE_NET_INTERFACES and the like out.
	etcdNodes = "/LINSTOR/NODES/"
	// etcdNameColumn ends the key whose value is a node's name.
	etcdNameColumn = "NODE_DSP_NAME"
)

// etcd looks into an etcd cluster. It speaks plain text whatever the endpoints' scheme, as LINSTOR does without a CA
// certificate (linstor-server 1.33, DbEtcd); a member that insists on TLS is unreachable for both.
func (p *Prober) etcd(ctx context.Context, secret string, access connection.Settings) (*found, error) {
	hosts := strings.Split(strings.TrimPrefix(access.URL, "etcd://"), ",")
	about := subject{
		server: "etcd at " + strings.Join(hosts, ", "), secret: secret, access: access, timeout: p.timeout,
	}
	// The client waits out the whole time for members that refuse connections, and forgets why.
	if err := anyListens(ctx, hosts); err != nil {
		return nil, about.fail(ctx, errUnreachable, err)
	}
	found, err := readEtcd(ctx, hosts, access)
	if err != nil {
		return nil, about.fail(ctx, classifyEtcd(err), err)
	}
	return found, nil
}

// anyListens returns nil as soon as one of the hosts accepts a connection, else the reasons of all.
func anyListens(ctx context.Context, hosts []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(hosts))
	for _, host := range hosts {
		go func() {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
			if err == nil {
				err = conn.Close()
			}
			results <- err
		}()
	}
	var failures []string
	for range hosts {
		err := <-results
		if err == nil {
			return nil
		}
		failures = append(failures, err.Error())
	}
	slices.Sort(failures) // the same text each time, whoever answered first
	return errors.New(strings.Join(failures, "; "))
}

func readEtcd(ctx context.Context, hosts []string, access connection.Settings) (_ *found, err error) {
	c, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: hosts, Username: access.User, Password: access.Password, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := c.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close the connection: %w", closeErr)
		}
	}()
	// Linearizable, the default: an answer proves that the cluster has a quorum.
	answer, err := c.Get(ctx, etcdNodes, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	return &found{nodes: etcdNames(answer.Kvs)}, nil
}

// classifyEtcd goes by etcd's own errors first: a wrong password is an InvalidArgument to gRPC.
func classifyEtcd(err error) error {
	err = rpctypes.Error(err) // the client leaves some in gRPC's form
	if errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrUserEmpty) ||
		errors.Is(err, rpctypes.ErrPermissionDenied) {
		return errCredentials
	}
	code := status.Code(err)
	if own, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = own.Code()
	}
	switch code {
	case codes.PermissionDenied, codes.Unauthenticated:
		return errCredentials
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return errUnreachable
	}
	return nil
}

// etcdNames reads rows that are spread over one key a column. A row without a name counts with its key: it
// is damaged, and still somebody's.
func etcdNames(keys []*mvccpb.KeyValue) []string {
	rows := map[string]string{}
	for _, kv := range keys {
		key, column, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), etcdNodes), "/")
		if column == etcdNameColumn && len(kv.Value) > 0 {
			rows[key] = string(kv.Value)
		} else if rows[key] == "" {
			rows[key] = key
		}
	}
	return slices.Collect(maps.Values(rows))
}
