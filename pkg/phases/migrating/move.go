package migrating

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/move"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	dbphase "github.com/linstor-dev/storagecluster-operator/pkg/phases/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/specchange"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/databasebackup"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/load"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// ReasonMoved is that of the Event about data that is in another database now.
const ReasonMoved = "DatabaseMoved"

// toMove is the change of phase where LINSTOR's data is to be moved.
func toMove(s *cluster.Snapshot) step.Outcome {
	return step.Move(fsm.MovePending, "MigrationRequested", "LINSTOR's data will be moved to "+s.Move.To)
}

// notMoved is the hold of a move that cannot go on. The data is where it was.
func notMoved(s *cluster.Snapshot, why string) *cluster.HoldRequest {
	runs := "LINSTOR is stopped"
	switch {
	case controller.Answers(&s.Kube):
		runs = "LINSTOR is running"
	case !s.Move.Stopped:
		runs = "LINSTOR may still be running"
	}
	h := cluster.Request(v1alpha1.HoldMigrationFailed, "%s. Its data is still in %s and was not moved to %s: %s",
		runs, s.Move.From, s.Move.To, why)
	h.Identities = []string{s.Move.To}
	return h
}

func unreachable(c *situation) {
	why := text.OneLine(c.s.Database.Err.Error())
	if c.s.PhaseAge() > c.s.Timing.Deadlines[fsm.Database] {
		c.hold = notMoved(c.s, why)
		return
	}
	c.waits(string(v1alpha1.HoldDatabaseUnreachable), "%s", why)
}

func begin(c *situation) {
	c.waits("Moving", "the move is about to start")
	c.next = func(ctx context.Context) error {
		if err := errors.Join(c.in.Stands(ctx), noMover(ctx, c)); err != nil { // the spec may have been taken back
			return step.IgnoreOutdated(err)
		}
		claim, _ := c.s.Claim()
		if claim.Moving = move.Mark(c.s.Move.To, c.s.Now); judge(c.s).compares {
			claim.Moving = move.MarkSame(c.s.Move.To, c.s.Now)
		}
		return c.in.ApplyClaim(ctx, claim)
	}
}

// source is how the configuration names the database with the data.
func source(s *cluster.Snapshot) string {
	if db, err := controller.DatabaseAccess(&s.Facts, &s.Target.Spec.Database); err == nil {
		return db.URL
	}
	return s.AcceptedDatabase()
}

// noMover is an error if the API server itself has a pod that moves the data: a cache that lags behind may not show it
// yet, and the rows that it is writing would be taken for ones that were there before.
func noMover(ctx context.Context, c *situation) error {
	if markOf(c.s) == "" {
		return nil
	}
	live, err := livePod(ctx, c.in, mover(c.s).Name)
	if err == nil && live != nil {
		return fmt.Errorf("%w: pod %s is moving the data", step.ErrOutdated, live.Name)
	}
	return err
}

// ranBeside reports whether LINSTOR runs, or may, although data is being moved: it may write what an export of before
// lacks.
func ranBeside(s *cluster.Snapshot) bool { return s.Move != nil && !s.Move.Stopped && markOf(s) != "" }

// SpoilIfRan makes the claim say that nothing that was moved so far counts, if LINSTOR runs beside the move, or may.
func SpoilIfRan(ctx context.Context, in *step.Input) error {
	if !ranBeside(in.Snapshot) {
		return nil
	}
	return spoil(ctx, in)
}

// spoil makes the claim say that nothing that was moved so far counts.
func spoil(ctx context.Context, in *step.Input) error {
	claim, _ := in.Snapshot.Claim()
	claim.Moving = in.Snapshot.Move.Spoil()
	return in.ApplyClaim(ctx, claim)
}

// counts is how long after its end what a pod has moved is used: with an operator that works it takes seconds. Where
// none did, or the cluster was suspended, LINSTOR may have run meanwhile without anybody having seen it.
const counts = 10 * time.Minute

// tooOld reports whether the pod has moved the data long ago.
func tooOld(c *situation) bool {
	m, at := moved(c)
	return m != nil && c.s.Now.Sub(at.Time) > counts
}

// stillStopped is an error if the API server itself has a Deployment of LINSTOR's controller.
func stillStopped(ctx context.Context, in *step.Input) error {
	left, err := in.Live.Labelled(ctx, in.Snapshot.Cluster.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	for i := range left {
		if left[i].Kind == "Deployment" && left[i].Name == resources.ControllerName {
			return fmt.Errorf("%w: the LINSTOR controller was started", step.ErrOutdated)
		}
	}
	return nil
}

// toTarget makes the claim say that the data is in the other database. The accepted spec with that database is kept
// before: it is accepted then, whatever becomes of the spec meanwhile, and LINSTOR started there.
func toTarget(c *situation) {
	c.waits("Moved", "the data has been moved")
	c.next = func(ctx context.Context) error {
		if err := errors.Join(c.in.Stands(ctx), stillEnded(ctx, c.in, c.pod()), stillStopped(ctx, c.in)); err != nil {
			return step.IgnoreOutdated(err)
		}
		kept, err := specchange.KeepMoved(ctx, c.in, &c.s.Cluster.Spec.Database)
		if err != nil {
			return err
		}
		done, _ := moved(c)
		claim, _ := c.s.Claim()
		claim.Backend, claim.MoveTo, claim.Moving, claim.MovedSpec = c.s.Move.To, "", "", kept
		claim.Epoch = epoch.Raise(claim.Epoch, c.s.Now)
		if err := c.in.ApplyClaim(ctx, claim); err != nil {
			return err
		}
		note := "LINSTOR's data is now in %s: all %d rows were moved; %s is unchanged"
		if c.s.Move.Same {
			note = "LINSTOR's data is now in %s: all %d rows already existed there, identical to those in %s"
		}
		c.in.Notify(step.Notice{Reason: ReasonMoved, Action: c.pod().Name,
			Note: fmt.Sprintf(note, c.s.Move.To, done.Rows, c.s.Move.From)})
		return nil
	}
}

func moveFailed(c *situation) {
	why := podFailed(c.s, c.pod())
	if c.s.Move.Same {
		why = "it already contains LINSTOR's data, so nothing was imported, but the operator could not confirm that the " +
			"two databases have the same data: " + why + ". It may be LINSTOR's current database under another name, or " +
			"contain only part of the data from an earlier attempt: determine which before you empty it"
	}
	c.hold = notMoved(c.s, why)
}

// moved is what the pod has moved, and when; nil as long as it does not say so of this move.
func moved(c *situation) (m *load.Moved, at metav1.Time) {
	if c.pod() == nil {
		return nil, at
	}
	m, at = dbphase.Note(c.pod(), load.ParseMoved)
	if m == nil || m.Mark != c.s.Move.Mark {
		return nil, at
	}
	return m, at
}

func hasMoved(c *situation) bool { m, _ := moved(c); return m != nil }

// mover is a pod that moves the data.
func mover(s *cluster.Snapshot) *corev1.Pod {
	claim, _ := s.Claim()
	told, _ := json.Marshal(load.Move{Cluster: claim.LocalID, Mark: s.Move.Mark, //nolint:errchkjson // texts
		Export: databasebackup.Export, Restored: databasebackup.Restored})
	return databasebackup.Mover(s.Params(), s.Cluster, &databasebackup.Move{Image: s.OperatorImage, Mark: s.Move.Mark,
		Config: string(told), From: source(s), To: &s.Cluster.Spec.Database})
}

func (c *situation) makeMover(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return step.IgnoreOutdated(err)
	}
	access, err := controller.DatabaseAccess(&c.s.Facts, &c.s.Cluster.Spec.Database)
	if err != nil {
		return err
	}
	config := databasebackup.TargetConfig(c.s.Params(), &c.s.Cluster.Spec.Database, access)
	if err := c.in.Writer.Apply(ctx, config); err != nil {
		return fmt.Errorf("write the configuration for the new database: %w", err)
	}
	return c.in.Writer.Apply(ctx, mover(c.s))
}

// ConsentToMove keeps the consent to move LINSTOR's data into the database that the hold named.
func ConsentToMove(ctx context.Context, in *step.Input) (stored bool, err error) {
	s := in.Snapshot
	claim, claimed := s.Claim()
	to := in.Answer.Hold.Identities
	if !claimed || len(to) == 0 || claim.MoveTo == to[0] || to[0] != connection.URL(&s.Cluster.Spec.Database) ||
		move.Obstacle(s.Cluster, claim, s.AcceptedDatabase()) != "" {
		return true, nil // where the data is to go elsewhere now, or nowhere, the next look asks anew
	}
	claim.MoveTo = to[0]
	return false, in.ApplyClaim(ctx, claim)
}

// IsThere reports whether a hold about the database of the spec is for nothing, because the data is there: the claim
// was put right, or the cache has shown one of before.
func IsThere(s *cluster.Snapshot, h *v1alpha1.Hold) bool {
	claim, claimed := s.Claim()
	return claimed && len(h.Identities) > 0 && connection.Same(claim.Backend, s.AcceptedDatabase()) &&
		connection.Same(claim.Backend, connection.URL(&s.Cluster.Spec.Database))
}

// MoveEnded reports whether a hold about a move is about none that is wanted.
func MoveEnded(s *cluster.Snapshot, h *v1alpha1.Hold) bool {
	if s.Move == nil {
		_, claimed := s.Claim()
		return claimed && s.Target != nil
	}
	return len(h.Identities) == 0 || h.Identities[0] != s.Move.To
}

// AbandonMove takes the consent back. LINSTOR is started on the database that it has.
func AbandonMove(ctx context.Context, in *step.Input) (stored bool, err error) {
	if MoveEnded(in.Snapshot, in.Answer.Hold) || in.Snapshot.Move == nil {
		return true, nil
	}
	claim, _ := in.Snapshot.Claim()
	claim.MoveTo, claim.Moving = "", ""
	return false, in.ApplyClaim(ctx, claim)
}

// tidyTarget removes the configuration for the database that data is moved into: it may hold a password that nobody
// needs any more.
func tidyTarget(ctx context.Context, in *step.Input) (err error) {
	s := in.Snapshot
	if markOf(s) != "" {
		return nil
	}
	for _, o := range targetConfigs(s) {
		if cluster.Ours(s.Cluster.Name, o) && o.GetDeletionTimestamp() == nil {
			err = errors.Join(err, in.Writer.Delete(ctx, o))
		}
	}
	return err
}

func targetConfigs(s *cluster.Snapshot) (list []client.Object) {
	if o := s.Kube.Secrets[databasebackup.TargetConfigName]; o != nil {
		list = append(list, o)
	}
	if o := s.Kube.ConfigMaps[databasebackup.TargetConfigName]; o != nil {
		list = append(list, o)
	}
	return list
}
