// Package restored stops a LINSTOR whose state in Kubernetes was put back while it ran. Such a LINSTOR works on with
// what it has in memory, takes requests, and damages the resources that were put back with each write, so that it does
// not come up again (linstor-server 1.34). What only that LINSTOR knows, which volumes are where, is kept first.
package restored

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/epoch"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/controller"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/remembered"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

// Keys of the ConfigMap: which LINSTOR it was, when it was looked at, its nodes, and the copies of its volumes.
const (
	epochKey   = "epoch"
	takenAtKey = "takenAt"
	nodesKey   = "nodes"
	copiesKey  = "copies"
)

// mostText is how long the lists may be as text, in bytes: a ConfigMap has room for 1 MiB. Longer ones are compressed,
// to about a tenth: those of a hundred thousand copies fit.
const mostText = 700 << 10

// Stop stops LINSTOR's controller while the hold KubernetesRestored is open and LINSTOR keeps its state in Kubernetes,
// once its lists are kept. An answer `retry` starts it again.
func Stop(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	h := s.Cluster.Status.Hold
	if s.Target == nil || s.Cluster.Spec.Suspend || h == nil || h.Reason != v1alpha1.HoldKubernetesRestored ||
		in.Answer != nil && in.Answer.Cluster || connection.Kind(&s.Target.Spec.Database) != v1alpha1.DatabaseKubernetes ||
		!controller.Runs(&s.Facts) {
		return nil
	}
	if !keptSince(s.Kube.ConfigMaps[resources.ListsName], h.Since.Time) {
		return keep(ctx, in)
	}
	_, err := controller.Stop(ctx, in)
	return err
}

// keptSince reports whether lists are those of the LINSTOR that the hold is about, and not of an earlier restore.
func keptSince(lists *corev1.ConfigMap, since time.Time) bool {
	if lists == nil {
		return false
	}
	at, err := time.Parse(time.RFC3339, lists.Data[takenAtKey])
	return err == nil && !at.Before(since.Truncate(time.Second))
}

// keep writes LINSTOR's lists down. Without an answer nothing is stopped: then nothing could be written either.
func keep(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	v := s.Linstor.Foreign
	if v == nil || s.Linstor.Why != v1alpha1.HoldKubernetesRestored {
		return nil
	}
	copies, err := in.API.Resources(ctx, linstor.ResourceQuery{})
	if err != nil {
		return fmt.Errorf("read LINSTOR's lists before stopping it: %w", err)
	}
	cm, err := lists(s, v, copies)
	if err != nil {
		return err
	}
	if err := in.Writer.Apply(ctx, cm); err != nil {
		return fmt.Errorf("save the lists of LINSTOR's nodes and volumes before stopping it: %w", err)
	}
	return nil
}

// lists is the ConfigMap. Its lines are for people who look for data on disks.
func lists(s *cluster.Snapshot, v *linstor.View, copies []linstor.Resource) (*corev1.ConfigMap, error) {
	var nodes, volumes []string
	for _, n := range v.Nodes {
		line := n.Name
		for _, i := range n.Interfaces {
			line += " " + i.Name + "=" + i.Address
		}
		for _, p := range n.Pools {
			line += fmt.Sprintf(" pool:%s=%s:%s", p.Name, p.Provider, p.Backing)
		}
		nodes = append(nodes, line)
	}
	for i := range copies {
		c := &copies[i]
		kind := "diskless"
		if c.Diskful {
			kind = "diskful"
		}
		volumes = append(volumes, fmt.Sprintf("%s %s %s pools=%s states=%s", c.Name, c.Node, kind,
			strings.Join(c.Pools, ","), strings.Join(c.States, ",")))
	}
	slices.Sort(nodes)
	slices.Sort(volumes)
	meta := resources.ObjectMeta(s.Params(), resources.ListsName, v1alpha1.ComponentController)
	cm := &corev1.ConfigMap{ObjectMeta: meta}
	cm.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	cm.Data = map[string]string{epochKey: strconv.Itoa(epoch.In(v)), takenAtKey: remembered.Stamp(s.Now)}
	texts := map[string]string{nodesKey: strings.Join(nodes, "\n"), copiesKey: strings.Join(volumes, "\n")}
	if len(texts[nodesKey])+len(texts[copiesKey]) <= mostText {
		for key, text := range texts {
			cm.Data[key] = text
		}
		return cm, nil
	}
	cm.BinaryData = map[string][]byte{}
	for key, text := range texts {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			return nil, fmt.Errorf("compress LINSTOR's lists: %w", err)
		}
		if err := z.Close(); err != nil {
			return nil, fmt.Errorf("compress LINSTOR's lists: %w", err)
		}
		cm.BinaryData[key+".gz"] = b.Bytes()
	}
	return cm, nil
}
