package statusview

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/holdkind"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Hold is a stop that waits for a human, with the commands that answer it.
type Hold struct {
	ID      string              `json:"id"`
	Reason  v1alpha1.HoldReason `json:"reason"`
	Message string              `json:"message"`
	Since   metav1.Time         `json:"since"`
	// Cluster reports whether it stops the whole cluster.
	Cluster bool `json:"cluster"`
	// Ends says what ends it.
	Ends string `json:"ends"`
	Pool string `json:"pool,omitempty"`
	// Nodes are those that it lists, Count is how many it is about.
	Nodes      []string              `json:"nodes,omitempty"`
	Count      int32                 `json:"count,omitempty"`
	Devices    []v1alpha1.HoldDevice `json:"devices,omitempty"`
	Resources  []string              `json:"resources,omitempty"`
	Identities []string              `json:"identities,omitempty"`
	Options    []Option              `json:"options"`
	Runbook    string                `json:"runbook,omitempty"`
}

// Option is an answer to a hold.
type Option struct {
	Answer string `json:"answer"`
	Does   string `json:"does,omitempty"`
	// Command answers with this plugin, Annotate with nothing but kubectl.
	Command  string `json:"command"`
	Annotate string `json:"annotate"`
}

// ends says what ends a hold of a class.
var ends = map[holdkind.Class]string{
	holdkind.Clearing: "The hold ends when its cause is resolved, when you change the spec, or when you choose one of " +
		"these options",
	holdkind.Answer: "The hold ends when you choose one of these options or revert what caused it",
	holdkind.Revert: "The hold ends when you revert or correct the change, or choose one of these options",
}

func (b *builder) holds() []Hold {
	out := []Hold{}
	if h := b.status.Hold; h != nil {
		out = append(out, HoldOf(h, true))
	}
	for i := range b.status.NodeHolds {
		out = append(out, HoldOf(&b.status.NodeHolds[i], false))
	}
	return out
}

// HoldOf is a hold of the status, as it is shown.
func HoldOf(h *v1alpha1.Hold, cluster bool) Hold {
	out := Hold{ID: h.ID, Reason: h.Reason, Message: h.Message, Since: h.Since, Cluster: cluster,
		Ends: ends[holdkind.Of(h.Reason).Class], Pool: h.Pool, Nodes: h.Nodes, Count: h.Count, Devices: h.Devices,
		Resources: h.Resources, Identities: h.Identities, Runbook: h.Runbook}
	for _, o := range h.Options {
		out.Options = append(out.Options, Option{Answer: o.Answer, Does: o.Does,
			Command: fmt.Sprintf("kubectl linstor resume %s %s", h.ID, o.Answer),
			Annotate: fmt.Sprintf("kubectl annotate storagecluster %s --overwrite %s=%s:%s", v1alpha1.ClusterName,
				v1alpha1.AnnotationResume, h.ID, o.Answer)})
	}
	return out
}

// About says what a hold is about, and whether the whole cluster waits; "" for the cluster as such.
func (h *Hold) About() string {
	var parts []string
	if h.Pool != "" {
		parts = append(parts, "pool "+h.Pool)
	}
	if h.Count > 0 {
		parts = append(parts, fmt.Sprintf("%s (%s)", text.NodesOf(int(h.Count)),
			text.Listed(h.Nodes[:min(len(h.Nodes), 5)], int(h.Count))))
	}
	out := strings.Join(parts, " on ")
	if h.Cluster && out != "" {
		out += "; the hold stops the whole cluster"
	}
	return out
}
