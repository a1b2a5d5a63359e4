package managedetcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/act"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/etcdmember"
)

// hands do in Kubernetes what a step needs.
type hands struct {
	in *step.Input
	// noted is true if the step comes with other notes than there are.
	noted bool
}

var _ act.Hands = hands{}

// read is a ConfigMap past the cache, if it still has that version; "" for one that is not there.
func (h hands) read(ctx context.Context, name, version string) (data map[string]string, err error) {
	live, err := h.in.Live.ConfigMap(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", step.ErrUnconfirmed, err)
	}
	has := ""
	if live != nil {
		data, has = maps.Clone(live.Data), live.ResourceVersion
	}
	if has != version {
		return nil, fmt.Errorf("%w: ConfigMap %s has changed", step.ErrOutdated, name)
	}
	if data == nil {
		data = map[string]string{}
	}
	return data, nil
}

// write changes a ConfigMap that has that version, and no other one.
func (h hands) write(ctx context.Context, name, version string, change func(data map[string]string)) error {
	data, err := h.read(ctx, name, version)
	if err != nil {
		return err
	}
	before := maps.Clone(data)
	if change(data); maps.Equal(before, data) && version != "" {
		return nil
	}
	return h.in.Writer.Apply(ctx, etcdmember.ConfigMap(h.in.Snapshot.Params(), name, version, data))
}

// keep writes these beside what else is noted, each as the text of a key.
func (h hands) keep(ctx context.Context, version string, values map[string]any) error {
	texts := make(map[string]string, len(values))
	for key, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		texts[key] = string(text)
	}
	return h.write(ctx, etcdmember.Notes, version, func(data map[string]string) { maps.Copy(data, texts) })
}

// Note implements act.Hands. Notes that are as they were are looked at, and not written. From the first member on they
// say where the data is: another directory would look as if all members had lost theirs.
func (h hands) Note(ctx context.Context, notes seats.Notes, version string) error {
	if !h.noted {
		_, err := h.read(ctx, etcdmember.Notes, version)
		return err
	}
	text, err := json.Marshal(notes)
	if err != nil {
		return err
	}
	return h.write(ctx, etcdmember.Notes, version, func(data map[string]string) {
		data[etcdmember.KeyNotes] = string(text)
		switch {
		case len(notes.Seats) == 0:
			delete(data, etcdmember.KeyPath)
		case data[etcdmember.KeyPath] == "":
			data[etcdmember.KeyPath] = Site(&h.in.Snapshot.Facts, "").Directory
		}
	})
}

// Place implements act.Hands.
func (h hands) Place(ctx context.Context, at seats.Spot, c seats.Configuration) error {
	s := h.in.Snapshot
	if s.OperatorImage == "" {
		return errors.New("the operator's own image, which is used to start etcd members, is unknown: set its --image flag")
	}
	node, err := h.node(at)
	if err != nil {
		return err
	}
	order, err := etcdmember.Order(c)
	if err != nil {
		return err
	}
	err = h.write(ctx, etcdmember.Orders, at.ConfigVersion, func(data map[string]string) { data[at.Node] = order })
	if err != nil {
		return err
	}
	ds := etcdmember.DaemonSet(s.Params(), Site(&s.Facts, c.Version), at.Node, c)
	if err := h.in.ApplyDaemonSet(ctx, ds); err != nil {
		return err
	}
	return h.in.Writer.LabelNode(ctx, node, map[string]*string{pods.Label: &c.Name, pods.Used: &c.Name})
}

// node is the Node of a spot, if it still is the same one.
func (h hands) node(at seats.Spot) (*corev1.Node, error) {
	all := h.in.Snapshot.Kube.Nodes
	i := slices.IndexFunc(all, func(n *corev1.Node) bool { return n.Name == at.Node && string(n.UID) == at.UID })
	if i < 0 {
		return nil, fmt.Errorf("%w: node %s was replaced or deleted", step.ErrOutdated, at.Node)
	}
	return all[i], nil
}

// Unplace implements act.Hands.
func (h hands) Unplace(ctx context.Context, at seats.Spot) error {
	if at.UID != "" {
		node, err := h.node(at)
		if err != nil {
			return err
		}
		if err := h.in.Writer.LabelNode(ctx, node, map[string]*string{pods.Label: nil}); err != nil {
			return err
		}
	}
	for _, ds := range Sets(&h.in.Snapshot.Facts) {
		if etcdmember.NodeOf(ds) == at.Node {
			if err := h.in.Writer.Delete(ctx, ds); err != nil {
				return err
			}
		}
	}
	return h.write(ctx, etcdmember.Orders, at.ConfigVersion, func(data map[string]string) { delete(data, at.Node) })
}

// Survey implements act.Hands. Whichever node is asked about, pods look into the directories of all nodes.
func (h hands) Survey(ctx context.Context, _ seats.Spot) error {
	s := h.in.Snapshot
	if s.OperatorImage == "" {
		return errors.New("the operator's own image, which is used to inspect data directories, is unknown: set its " +
			"--image flag")
	}
	return h.in.ApplyDaemonSet(ctx, etcdmember.SurveyOf(s.Params(), Site(&s.Facts, "")))
}

// Restart implements act.Hands.
func (h hands) Restart(ctx context.Context, node, uid string) error {
	p := h.in.Snapshot.Kube.Pods[etcdmember.Component][node]
	if p == nil || string(p.UID) != uid {
		return fmt.Errorf("%w: the pod on node %s was replaced", step.ErrOutdated, node)
	}
	return h.in.Writer.DeletePod(ctx, p)
}
