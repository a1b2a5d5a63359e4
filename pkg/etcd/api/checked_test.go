package api_test

import (
	"context"
	"errors"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/api"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// counted counts what is sent.
type counted struct{ sent int }

func (c *counted) Look(context.Context, string) view.Answer              { return view.Answer{Version: "x"} }
func (c *counted) Alarms(context.Context, string) ([]view.Alarm, error)  { return nil, nil }
func (c *counted) AddLearner(context.Context, string, string) error      { return c.send() }
func (c *counted) Promote(context.Context, string, view.ID) error        { return c.send() }
func (c *counted) Remove(context.Context, string, view.ID) error         { return c.send() }
func (c *counted) Update(context.Context, string, view.ID, string) error { return c.send() }
func (c *counted) MoveLeader(context.Context, string, view.ID) error     { return c.send() }
func (c *counted) Compact(context.Context, string, int64) error          { return c.send() }
func (c *counted) Defragment(context.Context, string) error              { return c.send() }
func (c *counted) Disarm(context.Context, string, view.ID) error         { return c.send() }
func (c *counted) send() error                                           { c.sent++; return nil }

// TestChecked: who does not lead any more changes nothing, and may look.
func TestChecked(t *testing.T) {
	var refused error
	below := &counted{}
	a := api.Checked(below, func(context.Context) error { return refused })
	ctx := t.Context()
	changes := func() []error {
		return []error{a.AddLearner(ctx, "", ""), a.Promote(ctx, "", 1), a.Remove(ctx, "", 1), a.Update(ctx, "", 1, ""),
			a.MoveLeader(ctx, "", 1), a.Compact(ctx, "", 1), a.Defragment(ctx, ""), a.Disarm(ctx, "", 1)}
	}
	if err := errors.Join(changes()...); err != nil || below.sent != 8 {
		t.Fatalf("%d were sent: %v", below.sent, err)
	}
	refused = errors.New("no lease")
	for i, err := range changes() {
		if !errors.Is(err, refused) {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if below.sent != 8 || a.Look(ctx, "").Version != "x" {
		t.Errorf("%d were sent", below.sent)
	}
}
