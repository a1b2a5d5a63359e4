package model

import (
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// database is the one that LINSTOR runs on; aside is where somebody puts its content while LINSTOR has another's.
func (s *site) database() *sim.Database { return s.world.Database("k8s") }
func (s *site) aside() *sim.Database    { return s.world.Database("aside") }

// swap gives LINSTOR another database, an empty one or another LINSTOR's, or gives it back the one that the cluster
// claims.
func (s *site) swap(n int) {
	switch claimed := claimedID(s.now); claimed {
	case "":
	case s.aside().LocalID():
		s.exchangeDatabases()
	case s.database().LocalID():
		switch n % 3 {
		case 0:
			s.aside().Wipe()
		case 1:
			s.aside().SeedForeign(fmt.Sprintf("foreign-%d", n), "other-1", "other-2")
		case 2:
			s.aside().SeedForeign(fmt.Sprintf("foreign-%d", n), "n1", "n2", "n3")
		}
		s.exchangeDatabases()
	}
}

// restore gives LINSTOR back the database that the cluster claims, as it was when Kubernetes was.
func (s *site) restore() {
	if claimed := claimedID(s.now); claimed != "" && claimed == s.aside().LocalID() {
		s.exchangeDatabases()
	}
	if s.later(s.now) {
		s.setEpoch(epochOf(s.now))
	}
}

// putBack puts Kubernetes back to a time before LINSTOR's, of which the numbers of both are all that counts here; or
// LINSTOR to the time of Kubernetes, as if it had read what was put back.
func (s *site) putBack(n int) {
	switch claimed := epochOf(s.now); {
	case s.later(s.now):
		s.setEpoch(claimed)
	case claimed > 0 && !foreign(s.now, s.database().LocalID()):
		s.setEpoch(claimed + 1 + n%3)
	}
}

func (s *site) setEpoch(n int) {
	s.database().EditProperties(func(props map[string]string) { props[linstor.PropEpoch] = strconv.Itoa(n) })
}

// later reports whether LINSTOR is of a later time than Kubernetes, as somebody sees that.
func (s *site) later(seen objects) (later bool) {
	s.database().EditProperties(func(props map[string]string) { later = isLater(seen, props[linstor.PropEpoch]) })
	return later
}

func isLater(seen objects, number string) bool {
	has, err := strconv.Atoi(number)
	claimed := epochOf(seen)
	return err == nil && claimed > 0 && has > claimed
}

// epochOf is the number of the cluster's claim, as somebody sees it; 0 if there is none.
func epochOf(seen objects) int { return epoch.Parse(claimOf(seen).Epoch).Number }

// exchangeDatabases exchanges the databases as an administrator does it: LINSTOR is stopped, and its pod, which may
// have a migration to do, is made anew.
func (s *site) exchangeDatabases() {
	if c := s.kubelets.lease.holder; c != nil {
		s.kubelets.stop(c, true)
	}
	for _, p := range s.controllers() {
		s.must(client.IgnoreNotFound(s.api.Delete(s.ctx, &p)))
	}
	s.database().Exchange(s.aside())
}

// claimedID is whose database the cluster's claim names, as somebody sees it; "" before it names one.
func claimedID(seen objects) string { return claimOf(seen).LocalID }

// claimOf is the cluster's claim, as somebody sees it; empty if there is none that can be read.
func claimOf(seen objects) resources.ClaimData {
	claim := &corev1.ConfigMap{}
	if seen.get(client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ClaimName}, claim) != nil {
		return resources.ClaimData{}
	}
	data, err := resources.ClaimFrom(claim)
	if err != nil {
		return resources.ClaimData{}
	}
	return data
}

// foreign reports whether a database is another than the one that the cluster claims, as somebody sees that.
func foreign(seen objects, id string) bool {
	claimed := claimedID(seen)
	return claimed != "" && claimed != id
}

// judgeForeign looks at what is sent to LINSTOR while it runs on another cluster's data, or on later ones.
func (c *checked) judgeForeign(r *http.Request) {
	id := c.database().LocalID()
	if id == "" || !foreign(c.now, id) && !c.later(c.now) {
		return
	}
	switch what := r.Method + " " + r.URL.Path; {
	case invariants.Destructive(r):
		c.violate(fmt.Sprintf("%s was sent to a LINSTOR that runs on other data than the claim's, %s", what, id))
	case c.sawForeign():
		c.violate(fmt.Sprintf("%s was sent to a LINSTOR that the operator had seen on other data, %s", what, id))
	}
}

// judgeTakenDown demands that no satellite is stopped on the word of other data, unless a human let a deletion go on
// all the same.
func (c *checked) judgeTakenDown(o client.Object) {
	if o.GetLabels()[v1alpha1.LabelComponent] == v1alpha1.ComponentSatellite && c.sawForeign() &&
		!claimOf(c.now).RemoveUnverified {
		c.violate(fmt.Sprintf("%T %s was deleted by an operator that had seen LINSTOR on other data", o, o.GetName()))
	}
}

// sawForeign reports whether LINSTOR's last answer was of another cluster's data, or of a later time than Kubernetes.
// The operator looks past its cache before it believes the second.
func (c *checked) sawForeign() bool {
	v, seen := c.operator.looks.view, c.operator.seen
	return v != nil && (foreign(seen, v.LocalID) ||
		isLater(seen, v.Properties[linstor.PropEpoch]) && isLater(c.now, v.Properties[linstor.PropEpoch]))
}

// ours is a view; nil if it is of other data, which say nothing of this cluster.
func (c *checked) ours() *linstor.View {
	if c.sawForeign() {
		return nil
	}
	return c.operator.looks.view
}
