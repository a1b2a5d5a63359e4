package api

import (
	"context"
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Checked is an API whose changes are sent only if a check passes right before. A process that was stopped for a while
// may not lead any more when it goes on.
func Checked(a API, check func(context.Context) error) API { return checked{a, check} }

type checked struct {
	API
	check func(context.Context) error
}

// then sends a change.
func (c checked) then(ctx context.Context, send func() error) error {
	if err := c.check(ctx); err != nil {
		return fmt.Errorf("no change was sent to etcd: %w", err)
	}
	return send()
}

// AddLearner implements API.
func (c checked) AddLearner(ctx context.Context, endpoint, peerURL string) error {
	return c.then(ctx, func() error { return c.API.AddLearner(ctx, endpoint, peerURL) })
}

// Promote implements API.
func (c checked) Promote(ctx context.Context, endpoint string, id view.ID) error {
	return c.then(ctx, func() error { return c.API.Promote(ctx, endpoint, id) })
}

// Remove implements API.
func (c checked) Remove(ctx context.Context, endpoint string, id view.ID) error {
	return c.then(ctx, func() error { return c.API.Remove(ctx, endpoint, id) })
}

// Update implements API.
func (c checked) Update(ctx context.Context, endpoint string, id view.ID, peerURL string) error {
	return c.then(ctx, func() error { return c.API.Update(ctx, endpoint, id, peerURL) })
}

// MoveLeader implements API.
func (c checked) MoveLeader(ctx context.Context, endpoint string, id view.ID) error {
	return c.then(ctx, func() error { return c.API.MoveLeader(ctx, endpoint, id) })
}

// Compact implements API.
func (c checked) Compact(ctx context.Context, endpoint string, revision int64) error {
	return c.then(ctx, func() error { return c.API.Compact(ctx, endpoint, revision) })
}

// Defragment implements API.
func (c checked) Defragment(ctx context.Context, endpoint string) error {
	return c.then(ctx, func() error { return c.API.Defragment(ctx, endpoint) })
}

// Disarm implements API.
func (c checked) Disarm(ctx context.Context, endpoint string, id view.ID) error {
	return c.then(ctx, func() error { return c.API.Disarm(ctx, endpoint, id) })
}
