package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

const (
	// mostRounds bounds how many fair rounds a world may need to come to rest.
	mostRounds = 400
	// quietRounds and quietTime are how long nothing may be written then.
	quietRounds = 6
	quietTime   = 6 * time.Minute
)

// fairRound gives everybody a turn, and lets as much time pass as the operator asked for. It returns whether the
// operator wrote something.
func (c *checked) fairRound() bool {
	before := c.faults.writes
	c.operator.seen.follow(c.now, -1)
	c.reconcile()
	for range c.operator.tasks.count() {
		c.operator.tasks.run(0)
	}
	c.workloads.daemonSets()
	c.workloads.deployments()
	for _, n := range c.nodes {
		c.kubelets.run(n)
	}
	wrote := c.faults.writes != before
	switch again := c.operator.again; {
	case wrote:
		c.quiet = 0
		c.pass(time.Second)
	case again == 0: // only a watch would wake it
		c.pass(time.Minute)
	default: // it looks again and again at the same world: the longer, the less often here
		c.quiet++
		c.pass(min(max(again, time.Second)<<min(c.quiet/8, 5), time.Minute))
	}
	return wrote
}

// rest runs fair rounds until nothing is written any more, whatever state that is.
func (c *checked) rest() {
	for quiet, round := 0, 0; quiet < quietRounds && round < mostRounds; round++ {
		quiet++
		if c.fairRound() {
			quiet = 0
		}
		if len(c.check()) > 0 {
			return
		}
	}
}

// converge ends all faults and runs fair rounds, with an administrator who answers what the operator asks, until the
// cluster is Ready or gone and nothing is written any more. It returns what is wrong.
func (c *checked) converge() []string {
	c.faults.kube, c.faults.get, c.faults.put = "", "", ""
	clear(c.kubelets.broken)
	c.restore()
	for _, n := range c.nodes {
		c.join(n)
		c.revive(n)
		c.wipe(n)
	}
	if o := c.cluster(); o != nil && o.Spec.Suspend {
		c.user.toggleSuspend(0)
	}
	if len(c.nodes) == 0 {
		c.addNode()
	}
	stays := func(n corev1.Node) bool { return c.stays(n.Name) }
	labelled := func(n corev1.Node) bool { return stays(n) && n.Labels[storageLabel] != "" }
	if list := c.nodeObjects(); !slices.ContainsFunc(list, labelled) { // a cluster without any node is never done
		c.user.toggleLabel(slices.IndexFunc(list, stays))
	}
	var since time.Time // when the quiet began
	for round := range mostRounds {
		wrote := c.fairRound()
		if faults := c.check(); len(faults) > 0 {
			return faults
		}
		switch {
		case !c.done():
			since = time.Time{}
			c.administrate(round)
		case wrote || since.IsZero():
			since = time.Now()
		case time.Since(since) > quietTime:
			return nil
		}
	}
	return []string{fmt.Sprintf("the world does not come to rest (%s): %s", c.phase(), c.describe())}
}

// done reports whether the cluster is as its user wants it, or gone.
func (c *checked) done() bool {
	o := c.cluster()
	return o == nil || o.DeletionTimestamp == nil && o.Status.Phase == v1alpha1.PhaseReady &&
		o.Status.ObservedGeneration == o.Generation && len(o.Status.NodeHolds) == 0
}

// answers are what an administrator says who wants the cluster to go on, in the order of preference.
var answers = []string{
	v1alpha1.OptionApprove, v1alpha1.OptionUseExisting, v1alpha1.OptionAdopt, v1alpha1.OptionBackupConfirmed,
	v1alpha1.OptionContinue, v1alpha1.OptionRetry,
}

// administrate answers the holds, and takes away what cannot go on.
func (c *checked) administrate(round int) {
	o := c.cluster()
	if o == nil {
		return
	}
	if round%10 == 9 {
		if c.waysOut(o) {
			return
		}
		for _, h := range harness.OpenHolds(&o.Status) {
			if holdkind.Of(h.Reason).Class == holdkind.Revert && c.revert() {
				return
			}
			// an earlier cluster left encrypted data
			if h.Reason == v1alpha1.HoldPassphraseUnusable && o.Spec.Controller.PassphraseSecret == "" {
				c.user.edit(func(o *v1alpha1.StorageCluster) { o.Spec.Controller.PassphraseSecret = passphraseSecret })
				return
			}
			if c.loses(&h) {
				c.user.consents.give(&h)
				c.user.resume(o, harness.Token(&h, v1alpha1.OptionDeclareLost))
				return
			}
			if answer := harness.Answer(&h, answers...); answer != "" {
				c.user.consents.give(&h)
				c.user.resume(o, harness.Token(&h, sensible(&h, answer)))
				return
			}
		}
	}
	if round == mostRounds/2 { // volumes may keep what is to be removed
		for n := range c.user.volumes {
			c.user.removeVolume(n)
		}
	}
}

// revert takes the spec back to the accepted one, as far as it is another; if none was accepted yet, to the version of
// the data that an earlier cluster left.
func (c *checked) revert() bool {
	o := c.cluster()
	if o.Status.Target == "" {
		return c.takeClaimed(o)
	}
	rev := &appsv1.ControllerRevision{}
	if c.now.get(client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: o.Status.Target}, rev) != nil {
		return false
	}
	spec, err := revision.Spec(rev)
	c.must(err)
	if err != nil || equality.Semantic.DeepEqual(*spec, o.Spec) {
		return false
	}
	c.user.edit(func(o *v1alpha1.StorageCluster) { o.Spec = *spec })
	return true
}

// takeClaimed sets the version that the claim names, which an earlier cluster left; false if there is none or it is
// set already.
func (c *checked) takeClaimed(o *v1alpha1.StorageCluster) bool {
	claim := &corev1.ConfigMap{}
	if c.now.get(client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ClaimName}, claim) != nil {
		return false
	}
	data, err := resources.ClaimFrom(claim)
	c.must(err)
	if err != nil || data.Version == "" || data.Version == o.Spec.Version {
		return false
	}
	c.user.edit(func(o *v1alpha1.StorageCluster) { o.Spec.Version = data.Version })
	return true
}

// phase is the phase, and what holds the cluster.
func (c *checked) phase() string {
	o := c.cluster()
	switch {
	case o == nil:
		return "gone"
	case o.Status.Hold != nil:
		return fmt.Sprintf("%s, %s", o.Status.Phase, o.Status.Hold.Reason)
	default:
		return string(o.Status.Phase)
	}
}

// describe is what an administrator would look at.
func (c *checked) describe() string {
	o := c.cluster()
	if o == nil {
		return "there is no StorageCluster"
	}
	raw, err := json.Marshal(map[string]any{
		"phase": o.Status.Phase, "message": o.Status.Message, "generation": o.Generation,
		"observed": o.Status.ObservedGeneration, "deleted": o.DeletionTimestamp,
		"hold": o.Status.Hold, "nodeHolds": o.Status.NodeHolds, "nodes": o.Status.Nodes, "pools": o.Status.Pools,
		"spec": o.Spec,
	})
	c.must(err)
	return string(raw)
}
