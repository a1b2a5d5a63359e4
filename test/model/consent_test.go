package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// consents are what the user's answers were about: the nodes that a hold listed when the user read it, by its id.
type consents struct {
	// read are holds as the user saw them, who may take their time to answer.
	read []v1alpha1.Hold
	// given are the nodes, and the identities, that an answer with that id may be about.
	given map[string][]string
	// seen is how many of LINSTOR's requests were judged.
	seen int
}

// remember has the user read the open holds.
func (c *consents) remember(holds []v1alpha1.Hold) {
	const most = 10
	c.read = append(c.read, holds...)
	c.read = c.read[max(0, len(c.read)-most):]
}

func (c *consents) give(h *v1alpha1.Hold) {
	if c.given == nil {
		c.given = map[string][]string{}
	}
	c.given[h.ID] = slices.Concat(c.given[h.ID], h.Nodes, h.Identities)
}

// lateAnswer answers a hold as it was read a while ago. It may have lost nodes since, other nodes may have got into
// the same trouble, or it has ended.
func (u *user) lateAnswer(n int) {
	c := u.cluster()
	if c == nil || len(u.consents.read) == 0 {
		return
	}
	h := u.consents.read[n%len(u.consents.read)]
	u.consents.give(&h)
	u.resume(c, harness.Token(&h, sensible(&h, h.Options[n/11%len(h.Options)].Answer)))
}

// sensible is the answer, unless it would register a volume group that is not there: on such a pool nobody could ever
// work.
func sensible(h *v1alpha1.Hold, answer string) string {
	if answer == v1alpha1.OptionUseExisting && !strings.Contains(h.Message, "LVM2_member") {
		return v1alpha1.OptionRetry
	}
	return answer
}

// judgeConsents looks at what answers were kept at LINSTOR's nodes.
func (c *checked) judgeConsents() {
	writes := c.world.Requests()
	for i := min(c.user.consents.seen, len(writes)); i < len(writes); i++ {
		if fault := c.user.consents.judge(&writes[i]); fault != "" {
			c.violate(fault)
		}
	}
	c.user.consents.seen = len(writes)
}

// judge says what is wrong with a write: an answer that is kept names its hold, and is for a node that the user has
// seen there.
func (c *consents) judge(r *sim.Record) string {
	node, ok := strings.CutPrefix(r.Path, "/v1/nodes/")
	if !ok || r.Method != http.MethodPut || strings.Contains(node, "/") {
		return ""
	}
	var body struct {
		Set map[string]string `json:"override_props"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return ""
	}
	for key, value := range body.Set {
		id := holdOf(value)
		word, ours := strings.CutPrefix(key, linstor.AuxPrefix)
		word, _, _ = strings.Cut(word, ".")
		if ours && slices.Contains(keptAnswers, word) && strings.HasPrefix(id, "h-") && !slices.Contains(c.given[id], node) {
			return fmt.Sprintf("%s of hold %s was kept for node %s, which the user has not seen there: only %v", word, id, node,
				c.given[id])
		}
	}
	return ""
}

// holdOf is the id of the hold in an answer that is kept: what it is about may follow.
func holdOf(value string) string {
	id, _, _ := strings.Cut(value, " ")
	return strings.TrimSuffix(id, ",")
}

// judgeSnapshots demands that the only copy of a snapshot goes with a node only on an answer to a hold that has named
// it.
func (c *checked) judgeSnapshots(r *http.Request) {
	path, lost := strings.CutSuffix(r.URL.Path, "/lost")
	node, ofNode := strings.CutPrefix(path, "/v1/nodes/")
	if !lost || !ofNode || r.Method != http.MethodDelete {
		return
	}
	kept := c.world.NodeProperties(node, "")
	if fault := c.user.consents.judgeLoss(node, c.world.Volumes().OnlySnapshots(node), kept); fault != "" {
		c.violate(fault)
	}
}

// judgeLoss says what is wrong with giving up a node that has the only copy of these snapshots. kept are its
// properties.
func (c *consents) judgeLoss(node string, only []string, kept map[string]string) string {
	if len(only) == 0 {
		return ""
	}
	for _, word := range []string{remembered.DeclareLost, remembered.MachineReplaced} {
		value := kept[word]
		_, sum, _ := strings.Cut(value, ", ")
		number, _, _ := strings.Cut(sum, " ")
		if n, err := strconv.Atoi(number); err != nil || n < len(only) {
			continue
		}
		if word == remembered.MachineReplaced || slices.Contains(c.given[holdOf(value)], node+"="+sum) {
			return ""
		}
	}
	return fmt.Sprintf("node %s was given up with the only copy of %v, which no answer has named: it has %v", node, only,
		kept)
}

func TestLossesAreJudged(t *testing.T) {
	c := &consents{}
	c.give(&v1alpha1.Hold{ID: "h-1", Identities: []string{"n1=2 snapshots x"}})
	two := []string{"v/a", "v/b"}
	for _, tc := range []struct {
		node  string
		only  []string
		kept  string
		wrong bool
	}{
		{"n1", nil, "", false}, {"n1", two, "", true}, {"n1", two, "h-1", true}, {"n1", two, "h-1, 1 snapshot x", true},
		{"n1", two, "h-1, 2 snapshots x", false}, {"n1", two, "h-1, 2 snapshots y", true},
		{"n2", two, "h-1, 2 snapshots x", true}, {"n1", two, "h-2, 2 snapshots x", true},
	} {
		got := c.judgeLoss(tc.node, tc.only, map[string]string{remembered.DeclareLost: tc.kept})
		if (got != "") != tc.wrong {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

func TestConsentsAreJudged(t *testing.T) {
	c := &consents{}
	c.give(&v1alpha1.Hold{ID: "h-1", Nodes: []string{"n1"}})
	for _, tc := range []struct {
		node, key, value string
		wrong            bool
	}{
		{"n1", "skip.ssd", "h-1 digest disk,disk", false}, {"n2", "skip.ssd", "h-1 digest disk", true},
		{"n1", "declare-lost", "h-1, 2 snapshots x", false}, {"n2", "declare-lost", "h-1, 2 snapshots x", true},
		{"n1", "skip.ssd", "h-1", false}, {"n2", "skip.ssd", "h-1", true}, {"n1", "skip.ssd", "h-2", true},
		{"n2", "leaving-admitted", "few", false},
		{"n2", "declare-lost", "h-1", true}, {"n2", "entry", "h-1", false},
	} {
		r := &sim.Record{Method: http.MethodPut, Path: "/v1/nodes/" + tc.node,
			Body: fmt.Appendf(nil, `{"override_props":{%q:%q}}`, linstor.AuxPrefix+tc.key, tc.value)}
		if got := c.judge(r); (got != "") != tc.wrong {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

// keptAnswers are the words under which answers are kept with the id of their hold.
var keptAnswers = []string{"skip", "use-existing", "declare-lost", "leaving-admitted"}

// dirty puts a file system on a disk that no pool is made of, or takes it away.
func (s *site) dirty(n *node) { s.exchange(n, map[string]string{"": "ext4", "ext4": ""}) }

// wipe takes away what dirty left.
func (s *site) wipe(n *node) { s.exchange(n, map[string]string{"ext4": ""}) }

func (s *site) exchange(n *node, signatures map[string]string) {
	m := s.world.Machine(n.machine)
	for _, d := range m.Disks() {
		if to, known := signatures[d.Signature]; known && strings.HasPrefix(d.Serial, "S4EV") {
			m.SetSignature(d.Serial, to)
		}
	}
}

// refuse asks for a version that nobody knows, or takes that back.
func (u *user) refuse(int) {
	u.edit(func(c *v1alpha1.StorageCluster) {
		switch {
		case c.Spec.Version == unknownVersion:
			c.Spec.Version = c.Status.Version
		case c.Status.Target != "":
			c.Spec.Version = unknownVersion
		}
	})
}

const unknownVersion = "1.99.0"

// loseObject removes an object of the operator's by hand.
func (s *site) loseObject(n int) {
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: v1alpha1.WorkloadNamespace, Name: name}
	}
	o := []client.Object{
		&appsv1.DaemonSet{ObjectMeta: named(resources.SatelliteName)},
		&appsv1.Deployment{ObjectMeta: named(resources.ControllerName)},
		&corev1.Service{ObjectMeta: named(resources.ControllerName)},
		&corev1.ConfigMap{ObjectMeta: named(resources.SatelliteConfigName)},
	}[n%4]
	if s.now.get(client.ObjectKeyFromObject(o), o) == nil {
		s.must(s.api.Delete(s.ctx, o))
	}
}
