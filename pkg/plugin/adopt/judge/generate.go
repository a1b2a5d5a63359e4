package judge

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/nodespec"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/convert"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/adopt/seen"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// generated is the spec of a StorageCluster that describes what was seen, and what was found out on the way.
type generated struct {
	*facts
	spec map[string]any
	// entries are the names of entries of spec.storagePools, by node and pool in lower case.
	entries  map[[2]string]string
	blockers []Blocker
	settings []Setting
}

func (g *generated) block(reason, message, do string) {
	g.blockers = append(g.blockers, Blocker{reason, message, do})
}

// without notes a setting that the spec does not have.
func (g *generated) without(where, message string) {
	g.settings = append(g.settings, Setting{where, message})
}

// generate makes the spec. The volume driver is left out of it: Piraeus' goes on until the last step, and two
// registrars at the kubelet's socket would take volumes from under pods that are being started.
func (s *facts) generate() *generated {
	g := &generated{facts: s, spec: map[string]any{}, entries: map[[2]string]string{}}
	if v := s.linstorVersion(); v != "" {
		g.spec["version"] = v
	}
	if registry := s.cluster().Spec.Repository; registryPattern.MatchString(registry) {
		g.spec["images"] = map[string]any{"registry": registry}
	} else if registry != "" {
		g.without("LinstorCluster spec.repository", fmt.Sprintf("spec.images.registry does not accept %q", registry))
	}
	g.database()
	g.controllerSpec()
	g.nodesSpec()
	g.pools()
	mode := "Disabled"
	if spec := &s.cluster().Spec; spec.APITLS != nil || spec.InternalTLS != nil {
		mode = "Managed"
	}
	g.spec["tls"] = map[string]any{"mode": mode}
	g.volumesSpec()
	return g
}

var registryPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?` +
	`(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// object is the whole StorageCluster.
func (g *generated) object() map[string]any {
	return map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "StorageCluster",
		"metadata": map[string]any{"name": v1alpha1.ClusterName}, "spec": g.spec}
}

func (g *generated) database() {
	switch d := &g.DB; d.Kind {
	case v1alpha1.DatabaseKubernetes:
		g.spec["database"] = map[string]any{"kubernetes": map[string]any{}}
	case v1alpha1.DatabasePostgreSQL, v1alpha1.DatabaseMariaDB:
		sql := map[string]any{"host": d.Host, "credentialsSecret": "linstor-db"}
		if port, err := strconv.ParseInt(d.Port, 10, 32); err == nil {
			sql["port"] = port
		}
		if d.Name != "" {
			sql["database"] = d.Name
		}
		g.spec["database"] = map[string]any{string(d.Kind): sql}
	default: // what is in the way of these is a blocker
	}
}

// Keys of properties that this operator, or LINSTOR, keeps for itself.
var (
	ownControllerKeys = regexp.MustCompile(`^(Aux/storage\.linstor\.dev/|NetCom/|encrypted/|Auth/|REST/|Rest/|` +
		`(Cluster/LocalID|defaultDebugSslConnector|defaultPlainConSvc|defaultSslConSvc)$)`)
	ownNodeKeys = regexp.MustCompile(`^(Aux/storage\.linstor\.dev/|NetCom/|Satellite/|` +
		`(PrefNic|CurStltConnName|NodeUname)$)`)
)

func (g *generated) controllerSpec() {
	c, out := &g.cluster().Spec, map[string]any{}
	const where = "LinstorCluster spec.properties"
	if props := g.properties(where, g.ignoredQuorum(where, c.Properties), ownControllerKeys); len(props) > 0 {
		out["properties"] = props
	}
	if c.PassphraseSecret != "" {
		out["passphraseSecret"] = c.PassphraseSecret
	}
	if c.Controller != nil {
		if r := convert.Resources(c.Controller.PodTemplate, "linstor-controller"); r != nil {
			out["resources"] = r
		}
	}
	if len(out) > 0 {
		g.spec["controller"] = out
	}
}

// properties are those with a value of their own. Their values are handed on, and never shown elsewhere.
func (g *generated) properties(where string, all []seen.Property, own *regexp.Regexp) map[string]any {
	out := map[string]any{}
	var left []string
	for i := range all {
		p := &all[i]
		if !p.Fixed() || own.MatchString(p.Name) || len(p.Name) > 256 || len(p.Value) > 4096 || len(out) == 64 {
			left = append(left, p.Name)
			continue
		}
		out[p.Name] = p.Value
	}
	if len(left) > 0 {
		g.without(where, "these properties are omitted, and remain unchanged in LINSTOR: "+text.ListSome(left))
	}
	return out
}

// nodesSpec says which nodes take part: those that LINSTOR has, no more and no fewer.
func (g *generated) nodesSpec() {
	c := &g.cluster().Spec
	out := map[string]any{"network": map[string]any{"mode": "Host"}}
	selector, affinity := c.NodeSelector, g.nodeAffinity()
	if len(selector) > 0 {
		out["nodeSelector"] = convert.StringMap(selector)
	}
	if affinity != nil {
		out["nodeAffinity"] = convert.Plain(affinity)
	}
	tolerations := g.tolerations()
	if len(tolerations) > 0 {
		out["tolerations"] = convert.Plain(tolerations)
	}
	props := map[string]any{}
	for i := range g.Configurations {
		if k := &g.Configurations[i]; k.Everywhere() {
			where := "LinstorSatelliteConfiguration/" + k.Name + " spec.properties"
			maps.Copy(props, g.properties(where, g.ignoredQuorum(where, k.Spec.Properties), ownNodeKeys))
			if r := convert.Resources(k.Spec.PodTemplate, "linstor-satellite"); r != nil {
				out["satellite"] = map[string]any{"resources": r}
			}
		} else if len(k.Spec.Properties) > 0 {
			g.without("LinstorSatelliteConfiguration/"+k.Name+" spec.properties", "spec.nodes.properties applies to all "+
				"nodes; these properties apply only to some nodes, and remain unchanged in LINSTOR")
		}
	}
	if len(props) > 0 {
		out["properties"] = props
	}
	if n := c.MaxConcurrentEvacuations; n != nil && *n >= 1 && *n <= 64 {
		out["maxConcurrentEvacuations"] = *n
	} else if n != nil {
		g.without("LinstorCluster spec.maxConcurrentEvacuations",
			"spec.nodes.maxConcurrentEvacuations must be between 1 and 64")
	}
	g.spec["nodes"] = out
	g.checkMembers(func(n *corev1.Node) bool { return nodespec.Picks(selector, affinity, n.Labels) }, tolerations)
}

// tolerations are Piraeus', and one for each taint of a node that LINSTOR has: Piraeus before 2.9 tolerated those of
// control planes by itself, and a node that is not tolerated here would count as one that leaves.
func (g *generated) tolerations() []corev1.Toleration {
	all := slices.Clone(g.cluster().Spec.Tolerations)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if g.Linstor.Nodes[strings.ToLower(n.Name)] == nil {
			continue
		}
		for _, t := range n.Spec.Taints {
			if lasting(&t) && !tolerates(all, &t) {
				all = append(all, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: t.Effect})
			}
		}
	}
	return all
}

// lasting reports whether a taint keeps pods away and was put there to stay, and not by Kubernetes or Piraeus' own
// controller for as long as something is broken.
func lasting(t *corev1.Taint) bool {
	return t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/") &&
		!strings.HasPrefix(t.Key, "drbd.linbit.com/")
}

func tolerates(all []corev1.Toleration, t *corev1.Taint) bool {
	return slices.ContainsFunc(all, func(o corev1.Toleration) bool {
		return o.ToleratesTaint(logr.Discard(), t, false)
	})
}

// checkMembers compares the nodes that the spec would take with those that LINSTOR has. One too many would get a
// satellite that nobody asked for, and one too few would count as leaving.
func (g *generated) checkMembers(picks func(*corev1.Node) bool, tolerations []corev1.Toleration) {
	if g.Linstor.From == "" || g.Unread["nodes"] != "" {
		return // that is a blocker of its own
	}
	var more, fewer []string
	for i := range g.Nodes {
		n := &g.Nodes[i]
		member := g.Linstor.Nodes[strings.ToLower(n.Name)] != nil
		fits := picks(n) && cmp.Or(n.Labels[corev1.LabelOSStable], "linux") == "linux"
		tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return lasting(&t) && !tolerates(tolerations, &t)
		})
		switch {
		case member && !fits:
			fewer = append(fewer, n.Name)
		case !member && fits && !tainted:
			more = append(more, n.Name)
		}
	}
	const do = "label exactly the nodes that are in LINSTOR, and use that label in the StorageCluster's " +
		"spec.nodes.nodeSelector"
	if len(more) > 0 {
		g.block("NodesWouldJoin",
			"the StorageCluster would also include nodes that are not in LINSTOR: "+text.ListSome(more), do)
	}
	if len(fewer) > 0 {
		g.block("NodesWouldLeave",
			"the StorageCluster would exclude nodes that are in LINSTOR: "+text.ListSome(fewer), do)
	}
}

func (g *generated) volumesSpec() {
	c := &g.cluster().Spec
	out := map[string]any{"driver": map[string]any{"mode": "None"}}
	if c.HighAvailabilityController.Off() {
		out["highAvailability"] = "None"
	}
	if a := c.AffinityController; a != nil && !a.Off() {
		out["affinityController"] = "Auto"
	}
	g.spec["volumes"] = out
}
