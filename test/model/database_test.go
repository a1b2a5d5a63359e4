package model

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
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

// restore gives LINSTOR back the database that the cluster claims.
func (s *site) restore() {
	if claimed := claimedID(s.now); claimed != "" && claimed == s.aside().LocalID() {
		s.exchangeDatabases()
	}
}

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
func claimedID(seen objects) string {
	claim := &corev1.ConfigMap{}
	if seen.get(client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace, Name: resources.ClaimName}, claim) != nil {
		return ""
	}
	data, err := resources.ClaimFrom(claim)
	if err != nil {
		return ""
	}
	return data.LocalID
}

// foreign reports whether a database is another than the one that the cluster claims, as somebody sees that.
func foreign(seen objects, id string) bool {
	claimed := claimedID(seen)
	return claimed != "" && claimed != id
}

// judgeForeign looks at what is sent to LINSTOR while it runs on another cluster's data.
func (c *checked) judgeForeign(r *http.Request) {
	id := c.database().LocalID()
	if id == "" || !foreign(c.now, id) {
		return
	}
	switch what := r.Method + " " + r.URL.Path; {
	case invariants.Destructive(r):
		c.violate(fmt.Sprintf("%s was sent to a LINSTOR that runs on another cluster's data, %s", what, id))
	case c.sawForeign():
		c.violate(fmt.Sprintf("%s was sent to a LINSTOR that the operator had seen on another cluster's data, %s", what, id))
	}
}

// judgeTakenDown demands that no satellite is stopped on another cluster's word, unless a human let a deletion go on
// all the same.
func (c *checked) judgeTakenDown(o client.Object) {
	var claim resources.ClaimData
	if cm := (&corev1.ConfigMap{}); c.now.get(client.ObjectKey{Namespace: v1alpha1.WorkloadNamespace,
		Name: resources.ClaimName}, cm) == nil {
		var err error
		claim, err = resources.ClaimFrom(cm)
		c.must(err)
	}
	if o.GetLabels()[v1alpha1.LabelComponent] == v1alpha1.ComponentSatellite && c.sawForeign() &&
		!claim.RemoveUnverified {
		c.violate(fmt.Sprintf("%T %s was deleted by an operator that had seen LINSTOR on another cluster's data", o,
			o.GetName()))
	}
}

// sawForeign reports whether LINSTOR's last answer was of another cluster's data.
func (c *checked) sawForeign() bool {
	v := c.operator.looks.view
	return v != nil && foreign(c.operator.seen, v.LocalID)
}

// ours is a view; nil if it is of another cluster's data, which says nothing of this one.
func (c *checked) ours() *linstor.View {
	if c.sawForeign() {
		return nil
	}
	return c.operator.looks.view
}
