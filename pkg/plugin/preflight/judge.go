package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
)

// Findings are what was found out about a cluster.
type Findings struct {
	// Host is the API server's address.
	Host string `json:"host"`
	// Fit reports whether nothing was found that is in the way.
	Fit bool `json:"fit"`
	// Partial is true if something could not be read.
	Partial bool `json:"partial"`
	// State is the worst of all.
	State tree.State `json:"state"`
	// Items are the findings. One that is Bad is in the way.
	Items []tree.Item `json:"items"`
}

// oldest is the oldest Kubernetes that the operator runs on.
const oldest = "1.30.0"

// driverName is the name of LINSTOR's CSI driver; there can be one in a cluster.
const driverName = "linstor.csi.linbit.com"

// Judge says what was found.
func Judge(s *Seen) *Findings {
	f := &Findings{Host: s.Host, Partial: len(s.Unread) > 0, Items: []tree.Item{
		s.kubernetes(),
		s.given("Your rights", s.permissions, reviews),
		s.given("This operator", s.installed, definitions),
		s.given("Another LINSTOR", s.otherLinstor, definitions, drivers),
		s.given("Namespaces", s.namespaces, namespaces),
		s.given("Nodes", s.nodes, nodes),
		s.given("Kernel module", s.kernels, nodes),
		s.given("Webhooks", s.webhooks, validating, mutating, namespaces),
		s.given("Around it", s.around, definitions, classes),
	}}
	for _, resource := range slices.Sorted(maps.Keys(s.Unread)) {
		f.Items = append(f.Items, tree.Item{Name: "Not read", State: tree.Unknown, Text: s.Unread[resource]})
	}
	f.Items = append(f.Items, unseen())
	states := make([]tree.State, 0, len(f.Items))
	for i := range f.Items {
		for j := range f.Items[i].Items {
			f.Items[i].State = tree.Worst(f.Items[i].State, f.Items[i].Items[j].State)
		}
		states = append(states, f.Items[i].State)
	}
	f.State = tree.Worst(states...)
	f.Fit = f.State != tree.Bad
	return f
}

// Lines are what is shown.
func (f *Findings) Lines(style tree.Style) []string {
	verdict := "nothing is in the way of an installation"
	switch {
	case !f.Fit:
		verdict = "something is in the way of an installation"
	case f.State == tree.Warn:
		verdict = "nothing is in the way of an installation, but look at what is marked"
	}
	if f.Partial {
		verdict += ", as far as it could be read"
	}
	var out []string
	for _, line := range style.Wrap("The cluster at "+f.Host+": "+verdict, "") {
		out = append(out, style.Paint(f.State, line))
	}
	return append(out, style.Lines(f.Items)...)
}

func (s *Seen) kubernetes() tree.Item {
	item := tree.Item{Name: "Kubernetes", State: tree.Well, Text: s.Server}
	v, err := version.ParseGeneric(s.Server)
	switch {
	case err != nil:
		item.State, item.Text = tree.Unknown, fmt.Sprintf("the version %q cannot be read", s.Server)
	case v.LessThan(version.MustParseGeneric(oldest)):
		item.State, item.Text = tree.Bad, s.Server+" is too old: the operator needs 1.30 or newer"
	}
	return item
}

// given is a finding that rests on these resources; unknown if one of them could not be read.
func (s *Seen) given(name string, judge func() tree.Item, resources ...string) tree.Item {
	for _, r := range resources {
		if s.Unread[r] != "" {
			return tree.Item{Name: name, State: tree.Unknown, Text: r + " could not be read: see below"}
		}
	}
	return judge()
}

func (s *Seen) permissions() tree.Item {
	if len(s.Denied) > 0 {
		return tree.Item{Name: "Your rights", State: tree.Bad, Text: "an administrator of the cluster must install the " +
			"operator: you may not " + strings.Join(s.Denied, ", ")}
	}
	if !s.Administrator {
		return tree.Item{Name: "Your rights", State: tree.Note, Text: "enough to write the objects; the API server " +
			"refuses roles with rights that you do not have yourself"}
	}
	return tree.Item{Name: "Your rights", State: tree.Well, Text: "those of an administrator"}
}

// defined reports whether there is a definition of that name, or, with a leading dot, one of that group.
func (s *Seen) defined(name string) bool {
	return slices.ContainsFunc(s.Definitions, func(d metav1.PartialObjectMetadata) bool {
		return d.Name == name || strings.HasPrefix(name, ".") && strings.HasSuffix(d.Name, name)
	})
}

func (s *Seen) installed() tree.Item {
	item := tree.Item{Name: "This operator", State: tree.Well, Text: "not installed yet"}
	if s.defined(access.DefinitionName) {
		item.State, item.Text = tree.Note, "installed already, or left from before: \"kubectl linstor status\" shows more"
	}
	return item
}

// otherLinstor is about what would make two LINSTORs of one. Piraeus' operator evacuates nodes when its objects go.
func (s *Seen) otherLinstor() tree.Item {
	item := tree.Item{Name: "Another LINSTOR", State: tree.Well, Text: "none is seen"}
	note := func(state tree.State, name, text string) {
		item.Text = ""
		item.Items = append(item.Items, tree.Item{Name: name, State: state, Text: text})
	}
	if s.defined(".piraeus.io") || s.defined(".piraeus.linbit.com") {
		note(tree.Bad, "Piraeus", "the definitions of Piraeus are there: its operator runs LINSTOR in this cluster, or "+
			"has done so. There can be only one. Do not delete its objects to make room: while its operator runs, that "+
			"can evacuate nodes. \"kubectl linstor adopt --plan\" says what taking it over would mean")
	}
	for i := range s.Drivers {
		d := &s.Drivers[i]
		if d.Name == driverName && d.Labels[v1alpha1.LabelCluster] == "" {
			note(tree.Bad, "CSIDriver", driverName+" is there and not this operator's: something else runs LINSTOR's CSI "+
				"driver. Remove it, or set spec.volumes.driver.mode to None")
		}
	}
	if s.defined(".internal.linstor.linbit.com") && !s.defined(access.DefinitionName) {
		note(tree.Warn, "Database", "LINSTOR's database is in this cluster (definitions of internal.linstor.linbit.com). "+
			"If it holds nodes, the operator asks whose they are (ForeignLinstorFound) before it touches them")
	}
	return item
}

// namespaces is about those that the manifests make.
func (s *Seen) namespaces() tree.Item {
	item := tree.Item{Name: "Namespaces", State: tree.Well, Text: v1alpha1.OperatorNamespace + " and " +
		v1alpha1.WorkloadNamespace + " are free"}
	for i := range s.Namespaces {
		n := &s.Namespaces[i]
		if n.Name != v1alpha1.OperatorNamespace && n.Name != v1alpha1.WorkloadNamespace {
			continue
		}
		found := tree.Item{Name: n.Name, State: tree.Note, Text: "is there already"}
		if n.Name == v1alpha1.WorkloadNamespace {
			found.Text += ": with Helm, add --take-ownership"
		}
		level := n.Labels["pod-security.kubernetes.io/enforce"]
		switch {
		case n.DeletionTimestamp != nil:
			found.State, found.Text = tree.Bad, "is being deleted: wait until it is gone"
		case n.Name == v1alpha1.WorkloadNamespace && level != "" && level != "privileged":
			found.State = tree.Warn
			found.Text = fmt.Sprintf("enforces the Pod Security Standard %q, and satellites need \"privileged\": the "+
				"manifests set that; see that nothing sets it back", level)
		}
		item.Text, item.Items = "", append(item.Items, found)
	}
	return item
}

// webhooks is about those of others that could keep LINSTOR's pods from being made, just when they are needed.
func (s *Seen) webhooks() tree.Item {
	item := tree.Item{Name: "Webhooks", State: tree.Well, Text: "none decides about LINSTOR's pods"}
	var names []string
	for _, w := range s.hooks() {
		if fails(w.FailurePolicy) && ofPods(w.Rules) && s.selects(w.NamespaceSelector) {
			names = append(names, w.called())
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		item.State = tree.Warn
		item.Text = fmt.Sprintf("while one of these does not answer, no pod that it is asked about is made in %s; if its "+
			"own pods use LINSTOR's volumes, neither comes back. Leave the namespace out of its namespaceSelector: %s",
			v1alpha1.WorkloadNamespace, strings.Join(names, ", "))
	}
	return item
}

// hook is a webhook of either kind, as far as it is judged: with the fields of a ValidatingWebhook.
type hook struct {
	configuration string
	admissionv1.ValidatingWebhook
}

// hooks are all webhooks.
func (s *Seen) hooks() (out []hook) {
	for _, c := range s.Validating {
		for _, w := range c.Webhooks {
			out = append(out, hook{c.Name, w})
		}
	}
	for _, c := range s.Mutating {
		for _, w := range c.Webhooks {
			out = append(out, hook{c.Name, admissionv1.ValidatingWebhook{Name: w.Name, FailurePolicy: w.FailurePolicy,
				Rules: w.Rules, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
				MatchConditions: w.MatchConditions}})
		}
	}
	return out
}

// called is the webhook's name, and whether it is asked about some pods only, which is not looked into.
func (h *hook) called() string {
	out, objects := h.configuration+" ("+h.Name, h.ObjectSelector
	if objects != nil && len(objects.MatchLabels)+len(objects.MatchExpressions) > 0 || len(h.MatchConditions) > 0 {
		out += ", about some pods only"
	}
	return out + ")"
}

// fails reports whether a webhook that does not answer refuses. That is Kubernetes' default.
func fails(p *admissionv1.FailurePolicyType) bool { return p == nil || *p == admissionv1.Fail }

func ofPods(rules []admissionv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		has := func(list []string, names ...string) bool {
			return slices.ContainsFunc(list, func(e string) bool { return slices.Contains(names, e) })
		}
		creates := slices.ContainsFunc(r.Operations, func(o admissionv1.OperationType) bool {
			return o == admissionv1.Create || o == admissionv1.OperationAll
		})
		return creates && (r.Scope == nil || *r.Scope != admissionv1.ClusterScope) && has(r.APIGroups, "", "*") &&
			has(r.Resources, "pods", "pods/*", "*", "*/*")
	})
}

// selects reports whether a selector takes LINSTOR's namespace: with the labels that it has, and those that the
// manifests give it.
func (s *Seen) selects(selector *metav1.LabelSelector) bool {
	if selector == nil {
		return true
	}
	has := labels.Set{}
	for i := range s.Namespaces {
		if s.Namespaces[i].Name == v1alpha1.WorkloadNamespace {
			maps.Copy(has, s.Namespaces[i].Labels)
		}
	}
	maps.Copy(has, labels.Set{corev1.LabelMetadataName: v1alpha1.WorkloadNamespace, "app.kubernetes.io/name": "linstor",
		"pod-security.kubernetes.io/enforce": "privileged"})
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(has)
}

// around is about what the operator uses where it is there.
func (s *Seen) around() tree.Item {
	item := tree.Item{Name: "Around it", State: tree.Note}
	add := func(there bool, name, yes, no string) {
		found := tree.Item{Name: name, State: tree.Note, Text: no}
		if there {
			found.State, found.Text = tree.Well, yes
		}
		item.Items = append(item.Items, found)
	}
	add(s.defined("volumesnapshots.snapshot.storage.k8s.io"), "Snapshots",
		"the definitions of VolumeSnapshots are there",
		"there are no definitions of VolumeSnapshots: without them, and a snapshot controller, no snapshots can be taken")
	add(s.defined("servicemonitors.monitoring.coreos.com"), "Monitoring", "Prometheus Operator's definitions are there",
		"there are no definitions of Prometheus Operator: monitors and alerts are left out")
	var defaults []string
	for i := range s.Classes {
		if s.Classes[i].Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			defaults = append(defaults, s.Classes[i].Name)
		}
	}
	add(len(defaults) > 0, "Default class", "claims without a StorageClass get "+strings.Join(defaults, ", "),
		"no StorageClass is the default one")
	return item
}

// unseen is what the API server does not know, and how to find it out.
func unseen() tree.Item {
	return tree.Item{Name: "Not looked at", State: tree.Note, Text: "what only the nodes know", Items: []tree.Item{
		{Name: "Kernel headers", State: tree.Note, Text: "ls /lib/modules/$(uname -r)/build/scripts/Kbuild.include"},
		{Name: "Secure Boot", State: tree.Note, Text: "mokutil --sb-state; where it is on, the module must be signed"},
		{Name: "Ports", State: tree.Note, Text: "3366, 3367, 9942 and from 7000 on must be free and open between the nodes"},
		{Name: "Disks", State: tree.Note, Text: "lsblk -f, vgs, zpool list; multipath and LVM's global_filter must leave " +
			"DRBD's devices (/dev/drbd*) out"},
	}}
}
