package drbd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/leaving"
)

// emptyNode lets the operator evacuate n02 while n01 writes, and then remove it from LINSTOR.
func (l *lab) emptyNode() {
	const node = "n02"
	l.record("n01")
	w := world(l.T, l.look())
	w.Leaves(v1alpha1.NodesEvacuate, node)
	before := maps.Clone(w.Node(node).Properties)
	w.LeavingSince(node)
	marks := w.Node(node).Properties
	maps.DeleteFunc(marks, func(key, value string) bool { return before[key] == value })
	l.must(l.api.SetNodeProperties(l.ctx, node, marks, nil))
	for l.leaveFurther(node) {
	}
	safe := l.safe("n01")
	l.until("the replica was rebuilt on n03", func(v *linstor.View) error {
		if r := of(v, volume, "n03"); !r.Diskful || !r.UpToDate() {
			return fmt.Errorf("%s", seenText(v, volume))
		}
		return nil
	})
	l.run("n01",
		"p=$(cat /run/iocheck.pid); kill $p; for i in $(seq 50); do kill -0 $p 2>/dev/null || break; sleep 0.1; done")
	l.checkRecords("n01", safe)
	l.checkRecords("n03", l.safe("n01"))
}

// leaveFurther waits for the next step of a node that leaves, and takes it. It returns false once the node is removed.
func (l *lab) leaveFurther(node string) bool {
	l.T.Helper()
	var take func() error // not while waiting: LINSTOR may take a minute for it
	l.Eventually("a step of "+node+", which leaves", func() error {
		v, err := l.view()
		if err != nil || v.Node(node) == nil {
			return err
		}
		w := world(l.T, v)
		w.Leaves(v1alpha1.NodesEvacuate, node)
		in, r := w.Input()
		in.API = l.api
		what := text(w.LeaveOf(node))
		key := "leave/" + node
		if err := leaving.Leave(l.ctx, in); err != nil || !slices.Contains(r.Keys(), key) {
			return errors.Join(errors.New(what), err)
		}
		take = func() error {
			l.T.Log(what)
			return r.Run(l.T.(*testing.T), key) //nolint:forcetypeassert // it is one
		}
		return nil
	})
	if take == nil {
		return false
	}
	l.must(take())
	return true
}
