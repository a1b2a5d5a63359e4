package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/test/invariants"
)

// checked is a site with an operator and the invariants.
type checked struct {
	*site
	operator   *process
	deletes    *invariants.Deletes
	status     invariants.Status
	checked    string // resourceVersion of the StorageCluster that was checked last
	violations []string
	// did is what the operator wrote.
	did []string
	// quiet counts the fair rounds since the operator wrote something.
	quiet int
}

func newChecked(ctx context.Context) (*checked, error) {
	s, err := newSite(ctx)
	if err != nil {
		return nil, err
	}
	c := &checked{site: s}
	c.deletes = &invariants.Deletes{Reader: s.api, Violate: c.violate,
		Registered: func(node string) bool { return slices.Contains(s.database().Nodes(), node) },
		Online: func(node string) bool {
			status, _ := s.world.NodeStatus(node)
			return status == "ONLINE"
		},
	}
	s.faults.written = func(verb string, o any, fault string) {
		raw, err := json.Marshal(o)
		s.must(err)
		c.noSecret(fmt.Sprintf("%T", o), string(raw))
		var named struct {
			Kind     string
			Metadata struct{ Name string }
			Status   struct{ Phase, Message string }
		}
		s.must(json.Unmarshal(raw, &named))
		if o, ok := o.(client.Object); ok && verb == "delete" {
			c.judgeTakenDown(o)
		}
		c.note("%s %T %s/%s %s %s", verb, o, named.Kind, named.Metadata.Name, named.Status.Phase, named.Status.Message,
			fault)
	}
	s.faults.arrives = func(r *http.Request) {
		c.judgeForeign(r)
		c.judgeSnapshots(r)
	}
	s.faults.sent = func(request, fault string) { c.note("%s", request, fault) }
	return c, c.start()
}

// note keeps a line about what the operator did, for the case that something is wrong.
func (c *checked) note(format string, args ...any) {
	last := len(args) - 1
	line := fmt.Sprintf("%s "+format, append([]any{time.Now().Format(time.TimeOnly)}, args[:last]...)...)
	if fault, _ := args[last].(string); fault != "" {
		line += " → " + fault
	}
	c.did = append(c.did, line)
}

func (c *checked) violate(message string) { c.violations = append(c.violations, message) }

func (c *checked) noSecret(where, text string) {
	if strings.Contains(text, passphrase) {
		c.violate(where + " has the passphrase in it")
	}
}

// reconcile runs one reconcile and judges its error.
func (c *checked) reconcile() {
	before := &v1alpha1.StorageCluster{} // as the operator's cache shows it: it cannot know more
	known := c.operator.seen.get(client.ObjectKey{Name: v1alpha1.ClusterName}, before) == nil
	written, now := c.faults.objects, c.cluster()
	failing := c.faults.kube != ""
	c.operator.looks.whole = false
	began := time.Now()
	err := c.operator.reconcile(c.ctx)
	var illegal *fsm.IllegalEventError
	if errors.As(err, &illegal) {
		c.violate(err.Error())
	}
	if known && err == nil && !failing && now != nil && now.ResourceVersion == before.ResourceVersion {
		c.judgeServing(before, began)
	}
	if known && before.Spec.Suspend && c.faults.objects != written {
		c.violate("objects were written although the cluster is suspended")
	}
}

// check is done after every step.
func (c *checked) check() []string {
	if o := c.cluster(); o != nil && o.ResourceVersion != c.checked {
		c.checked = o.ResourceVersion
		for _, fault := range c.status.Observe(o) {
			c.violate(fault)
		}
		raw, err := json.Marshal(o.Status)
		c.must(err)
		c.noSecret("the status", string(raw))
	}
	c.judgeConsents()
	c.judgeImpostors()
	c.must(c.deletes.Look(c.ctx))
	for key, err := range c.operator.tasks.Errors() {
		if strings.Contains(err.Error(), "panicked") {
			c.violate(key + ": " + err.Error())
		}
		c.noSecret("the error of "+key, err.Error())
	}
	out := append(slices.Clone(c.violations), c.world.Violations()...)
	if c.fault != nil {
		out = append(out, c.fault.Error())
	}
	return out
}
