// Package convert makes parts of a StorageCluster from what Piraeus' objects say.
package convert

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
)

// What the StorageCluster's definition takes of node affinity.
const (
	MostTerms       = 8
	MostExpressions = 8
	MostValues      = 32
)

// Affinity is Kubernetes' node affinity as the StorageCluster has it; false if it has no such one.
func Affinity(from *corev1.NodeSelector) (*nodespec.NodeAffinity, bool) {
	if from == nil {
		return nil, true
	}
	out := &nodespec.NodeAffinity{}
	for _, t := range from.NodeSelectorTerms {
		if len(t.MatchFields) > 0 || len(t.MatchExpressions) > MostExpressions {
			return nil, false
		}
		term := nodespec.NodeSelectorTerm{}
		for _, e := range t.MatchExpressions {
			if len(e.Values) > MostValues {
				return nil, false
			}
			term.MatchExpressions = append(term.MatchExpressions, nodespec.NodeSelectorRequirement(e))
		}
		if len(term.MatchExpressions) > 0 { // a term without any is true of no node
			out.NodeSelectorTerms = append(out.NodeSelectorTerms, term)
		}
	}
	return out, len(out.NodeSelectorTerms) >= 1 && len(out.NodeSelectorTerms) <= MostTerms
}

// Plain is a part of the spec as a manifest has it.
func Plain(part any) any {
	var out any
	data, _ := json.Marshal(part) // parts of the spec always have a JSON
	_ = json.Unmarshal(data, &out)
	return out
}

// Resources are what a pod template asks for one of its containers; nil for nothing.
func Resources(template json.RawMessage, container string) map[string]any {
	var pod struct {
		Spec struct {
			Containers []struct {
				Name      string         `json:"name"`
				Resources map[string]any `json:"resources"`
			} `json:"containers"`
		} `json:"spec"`
	}
	if json.Unmarshal(template, &pod) != nil {
		return nil
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			return onlyAmounts(c.Resources)
		}
	}
	return nil
}

// onlyAmounts are the requests and limits of what the StorageCluster's definition takes.
func onlyAmounts(resources map[string]any) map[string]any {
	out := map[string]any{}
	for _, kind := range []string{"requests", "limits"} {
		amounts, _ := resources[kind].(map[string]any)
		kept := map[string]any{}
		for _, name := range []string{"cpu", "memory", "ephemeral-storage"} {
			if amount, ok := amounts[name]; ok {
				kept[name] = amount
			}
		}
		if len(kept) > 0 {
			out[kind] = kept
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// partOfDisk is a path of what LINSTOR never lists as a disk: a partition, or a device on top of others.
var partOfDisk = regexp.MustCompile(`^/dev/([svh]d[a-z]+[0-9]+|(nvme[0-9]+n|mmcblk|nbd|loop)[0-9]+p[0-9]+|mapper/.*|` +
	`dm-[0-9]+|md[0-9/].*)$`)

// Source says what becomes of the disks that a pool is made from.
func Source(devices []string) string {
	if i := slices.IndexFunc(devices, partOfDisk.MatchString); i >= 0 {
		return fmt.Sprintf("the existing pool is used. The operator creates pools only from whole disks, but %s is not a "+
			"whole disk: on each new node, create the volume group or zpool before the node joins", devices[i])
	}
	return "the existing pool is used. For new nodes, select the disks in the devices.match field of the pool's entry " +
		"by serial number or model, because names such as /dev/sdb can change"
}

// StringMap is a map as a manifest has it.
func StringMap(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}
