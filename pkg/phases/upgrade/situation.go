package upgrade

import (
	"context"
	"sync"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/decisiontable"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/satellites"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
)

// situation is what the phase Upgrading decides on, and what it has decided.
type situation struct {
	in      *step.Input
	s       *cluster.Snapshot
	u       *cluster.Upgrade
	outcome step.Outcome
	// passed is true if the step is through; reason and message say so, or what it waits for.
	passed          bool
	reason, message string
	// What rows are decided on and what they then say is found out once.
	blockers      func() []objection // those that nobody has waived
	awaited       func() string
	backup, stuck func() *cluster.HoldRequest
	unverified    func() []*cluster.Member
	// hold is what a human is asked before the next step, next writes down that the step is through.
	hold *cluster.HoldRequest
	next func(context.Context, *step.Input) error
}

func situationOf(in *step.Input) *situation {
	s := in.Snapshot
	return &situation{in: in, s: s, u: s.Upgrade,
		blockers:   sync.OnceValue(func() []objection { return unwaived(s, blockers(s)) }),
		awaited:    sync.OnceValue(func() string { return awaitedBackup(s) }),
		backup:     sync.OnceValue(func() *cluster.HoldRequest { return backupNeeded(s) }),
		stuck:      sync.OnceValue(func() *cluster.HoldRequest { return satellites.RollStuck(s) }),
		unverified: sync.OnceValue(func() []*cluster.Member { return notVerified(s) })}
}

func (c *situation) at(s v1alpha1.UpgradeStep) bool { return c.u != nil && c.u.Step == s }

func (c *situation) controller() cluster.Evidence { return c.s.Evidence[fsm.Controller] }

// undated says why it is not known when the upgrade began; nil if it is.
func (c *situation) undated() error {
	_, err := began(c.u)
	return err
}

type row = decisiontable.Row[*situation]
