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
		s.given("Permissions", s.permissions, reviews),
		s.given("This operator", s.installed, definitions),
		s.given("Another LINSTOR", s.otherLinstor, definitions, drivers),
		s.given("Namespaces", s.namespaces, namespaces),
		s.given("Nodes", s.nodes, nodes),
		s.given("Kernel module", s.kernels, nodes),
		s.given("Webhooks", s.webhooks, validating, mutating, namespaces),
		s.given("Optional", s.around, definitions, classes),
	}}
	for _, resource := range slices.Sorted(maps.Keys(s.Unread)) {
		f.Items = append(f.Items, tree.Item{Name: "Not readable", State: tree.Unknown, Text: s.Unread[resource]})
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
	verdict := "nothing blocks the installation"
	switch {
	case !f.Fit:
		verdict = "the installation is blocked"
	case f.State == tree.Warn:
		verdict = "nothing blocks the installation, but check the marked items"
	}
	if f.Partial {
		verdict += "; some data could not be read"
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
		item.State, item.Text = tree.Unknown, fmt.Sprintf("cannot parse the version %q", s.Server)
	case v.LessThan(version.MustParseGeneric(oldest)):
		item.State, item.Text = tree.Bad, s.Server+" is too old: the operator requires 1.30 or newer"
	}
	return item
}

// given is a finding that rests on these resources; unknown if one of them could not be read.
func (s *Seen) given(name string, judge func() tree.Item, resources ...string) tree.Item {
	for _, r := range resources {
		if s.Unread[r] != "" {
			return tree.Item{Name: name, State: tree.Unknown, Text: r + " could not be read; see below"}
		}
	}
	return judge()
}

func (s *Seen) permissions() tree.Item {
	if len(s.Denied) > 0 {
		return tree.Item{Name: "Permissions", State: tree.Bad, Text: "a cluster administrator must install the " +
			"operator: you are not allowed to " + strings.Join(s.Denied, ", ")}
	}
	if !s.Administrator {
		return tree.Item{Name: "Permissions", State: tree.Note, Text: "sufficient to create the objects, but the API " +
			"server rejects roles with permissions that you do not have yourself"}
	}
	return tree.Item{Name: "Permissions", State: tree.Well, Text: "cluster administrator"}
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
		item.State, item.Text = tree.Note, "already installed, or left over from an earlier installation: run \"kubectl "+
			"linstor status\""
	}
	return item
}

// otherLinstor is about what would make two LINSTORs of one. Piraeus' operator evacuates nodes when its objects go.
func (s *Seen) otherLinstor() tree.Item {
	item := tree.Item{Name: "Another LINSTOR", State: tree.Well, Text: "none found"}
	note := func(state tree.State, name, text string) {
		item.Text = ""
		item.Items = append(item.Items, tree.Item{Name: name, State: state, Text: text})
	}
	if s.defined(".piraeus.io") || s.defined(".piraeus.linbit.com") {
		note(tree.Bad, "Piraeus", "the Piraeus CRDs exist: the Piraeus operator runs LINSTOR in this cluster, or has run "+
			"it before. A cluster can have only one LINSTOR. Do not simply delete Piraeus' objects: while the Piraeus "+
			"operator is running, this can evacuate nodes. To plan an adoption, run \"kubectl linstor adopt --plan\"")
	}
	for i := range s.Drivers {
		d := &s.Drivers[i]
		if d.Name == driverName && d.Labels[v1alpha1.LabelCluster] == "" {
			note(tree.Bad, "CSIDriver", driverName+" exists and does not belong to this operator: another installation is "+
				"running the LINSTOR CSI driver. Remove it, or set spec.volumes.driver.mode to None")
		}
	}
	if s.defined(".internal.linstor.linbit.com") && !s.defined(access.DefinitionName) {
		note(tree.Warn, "Database", "a LINSTOR database exists in this cluster (internal.linstor.linbit.com CRDs). If it "+
			"contains nodes, the operator requires your approval (ForeignLinstorFound hold) before it changes anything")
	}
	return item
}

// namespaces is about those that the manifests make.
func (s *Seen) namespaces() tree.Item {
	item := tree.Item{Name: "Namespaces", State: tree.Well, Text: v1alpha1.OperatorNamespace + " and " +
		v1alpha1.WorkloadNamespace + " do not exist yet"}
	for i := range s.Namespaces {
		n := &s.Namespaces[i]
		if n.Name != v1alpha1.OperatorNamespace && n.Name != v1alpha1.WorkloadNamespace {
			continue
		}
		found := tree.Item{Name: n.Name, State: tree.Note, Text: "already exists"}
		if n.Name == v1alpha1.WorkloadNamespace {
			found.Text += ": with Helm, add --take-ownership"
		}
		level := n.Labels["pod-security.kubernetes.io/enforce"]
		switch {
		case n.DeletionTimestamp != nil:
			found.State, found.Text = tree.Bad, "is being deleted: wait until the deletion is complete"
		case n.Name == v1alpha1.WorkloadNamespace && level != "" && level != "privileged":
			found.State = tree.Warn
			found.Text = fmt.Sprintf("enforces the %q Pod Security Standard, but satellites need \"privileged\": the "+
				"manifests set this level; make sure that nothing reverts it", level)
		}
		item.Text, item.Items = "", append(item.Items, found)
	}
	return item
}

// webhooks is about those of others that could keep LINSTOR's pods from being made, just when they are needed.
func (s *Seen) webhooks() tree.Item {
	item := tree.Item{Name: "Webhooks", State: tree.Well, Text: "no webhook affects LINSTOR's pods"}
	var names []string
	for _, w := range s.hooks() {
		if fails(w.FailurePolicy) && ofPods(w.Rules) && s.selects(w.NamespaceSelector) {
			names = append(names, w.called())
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		item.State = tree.Warn
		item.Text = fmt.Sprintf("if one of these webhooks is not responding, the pods that it applies to cannot be "+
			"created in %s. If the webhook's own pods use LINSTOR volumes, neither LINSTOR nor the webhook can recover. "+
			"Exclude the namespace in each webhook's namespaceSelector: %s",
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
		out += ", applies only to some pods"
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
	item := tree.Item{Name: "Optional", State: tree.Note}
	add := func(there bool, name, yes, no string) {
		found := tree.Item{Name: name, State: tree.Note, Text: no}
		if there {
			found.State, found.Text = tree.Well, yes
		}
		item.Items = append(item.Items, found)
	}
	add(s.defined("volumesnapshots.snapshot.storage.k8s.io"), "Snapshots",
		"the VolumeSnapshot CRDs exist",
		"the VolumeSnapshot CRDs are missing: snapshots require them and a snapshot controller")
	add(s.defined("servicemonitors.monitoring.coreos.com"), "Monitoring", "the Prometheus Operator CRDs exist",
		"the Prometheus Operator CRDs are missing: monitors and alerts are not created")
	var defaults []string
	for i := range s.Classes {
		if s.Classes[i].Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			defaults = append(defaults, s.Classes[i].Name)
		}
	}
	add(len(defaults) > 0, "Default class", "claims without a StorageClass use "+strings.Join(defaults, ", "),
		"there is no default StorageClass")
	return item
}

// unseen is what the API server does not know, and how to find it out.
func unseen() tree.Item {
	return tree.Item{Name: "Not checked", State: tree.Note, Text: "check these on the nodes", Items: []tree.Item{
		{Name: "Kernel headers", State: tree.Note, Text: "ls /lib/modules/$(uname -r)/build/scripts/Kbuild.include"},
		{Name: "Secure Boot", State: tree.Note, Text: "mokutil --sb-state; if Secure Boot is enabled, the module must be " +
			"signed"},
		{Name: "Ports", State: tree.Note, Text: "3366, 3367, 9942, and 7000 and above must be free, and reachable " +
			"between the nodes"},
		{Name: "Disks", State: tree.Note, Text: "lsblk -f, vgs, zpool list; multipath and LVM's global_filter must " +
			"exclude DRBD devices (/dev/drbd*)"},
	}}
}
