package seen

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
)

// Database is where LINSTOR keeps its state.
type Database struct {
	// Kind is "" if it is not known, or one that this operator does not have.
	Kind v1alpha1.DatabaseKind
	// Said is the address without user and password, as the controller's configuration has it.
	Said string
	// Host, Port and Name are those of an SQL database.
	Host, Port, Name string
	// Objects and Tables are how many there are, of the database in Kubernetes.
	Objects, Tables int
	// versions are those in which the tables are stored, by their definitions' names.
	versions map[string]schema.GroupVersionKind
}

// connectionURL finds the address in linstor.toml, the section [db] of which Piraeus writes.
var connectionURL = regexp.MustCompile(`(?m)^\s*connection_url\s*=\s*["']([^"'\n]*)["']`)

// sqlURL takes the address of an SQL server apart.
var sqlURL = regexp.MustCompile(`^jdbc:(postgresql|mariadb|mysql)://([^/:?,]+|\[[0-9A-Fa-f:.]+\])(?::(\d+))?/([^?;]*)`)

// scheme is what may be shown of any other address: what follows may hold a password, in more ways than one.
var scheme = regexp.MustCompile(`^(jdbc:)?[a-z0-9]+`)

// lookAtDatabase finds out of which kind the database is, and how large.
func (s *Seen) lookAtDatabase(ctx context.Context, c *access.Cluster) error {
	config := &corev1.ConfigMap{}
	const name = "linstor-controller-config"
	if err := c.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, config); err != nil {
		if err := s.unreadable(ctx, c, err, "configmaps", name+" in "+s.Namespace); err != nil {
			return err
		}
	}
	if m := connectionURL.FindStringSubmatch(config.Data["linstor.toml"]); m != nil {
		s.DB.judge(m[1])
	}
	if s.DB.Kind != v1alpha1.DatabaseKubernetes {
		return nil
	}
	s.DB.versions = map[string]schema.GroupVersionKind{}
	for i := range s.definitions {
		if d := s.definitions[i].Name; strings.HasSuffix(d, "."+access.LinstorTables) {
			if err := s.measure(ctx, c, d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Database) judge(url string) {
	d.Said = scheme.FindString(url)
	switch m := sqlURL.FindStringSubmatch(url); {
	case url == "k8s":
		d.Kind = v1alpha1.DatabaseKubernetes
	case strings.HasPrefix(url, "etcd"):
		d.Kind = v1alpha1.DatabaseEtcd
	case m != nil:
		d.Kind, d.Host, d.Port, d.Name = v1alpha1.DatabaseMariaDB, strings.Trim(m[2], "[]"), m[3], m[4]
		if m[1] == "postgresql" {
			d.Kind = v1alpha1.DatabasePostgreSQL
		}
		d.Said = "jdbc:" + m[1] + "://" + m[2] + "/" + m[4]
	}
}

// measure counts the objects of a table without reading them: some hold keys.
func (s *Seen) measure(ctx context.Context, c *access.Cluster, name string) error {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(access.CRD)
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return s.unreadable(ctx, c, err, definitions, name)
	}
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["storage"] == true {
			s.DB.versions[name] = schema.GroupVersionKind{Group: access.LinstorTables,
				Version: fmt.Sprint(m["name"]), Kind: kind}
		}
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(listOf(s.DB.versions[name]))
	if err := c.List(ctx, list, client.Limit(1)); err != nil {
		return s.unreadable(ctx, c, err, name, "")
	}
	s.DB.Tables++
	s.DB.Objects += len(list.Items)
	if list.RemainingItemCount != nil {
		s.DB.Objects += int(*list.RemainingItemCount)
	}
	return nil
}

func listOf(kind schema.GroupVersionKind) schema.GroupVersionKind {
	return kind.GroupVersion().WithKind(kind.Kind + "List")
}

// row is what is looked at of LINSTOR's tables (linstor-server 1.34, GeneratedDatabaseTables).
type row struct {
	values map[string]any
}

func (r row) text(column string) string {
	value, _ := r.values[column].(string)
	return value
}

func (r row) number(column string) int64 {
	switch value := r.values[column].(type) {
	case int64:
		return value
	case float64:
		return int64(value)
	}
	return 0
}

// table reads a table of LINSTOR's, page by page.
func (s *Seen) table(ctx context.Context, c *access.Cluster, name string, each func(row)) error {
	name += "." + access.LinstorTables
	kind, ok := s.DB.versions[name]
	if !ok {
		return fmt.Errorf("table %s does not exist", name)
	}
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(listOf(kind))
	for {
		if err := c.List(ctx, page, client.Limit(500), client.Continue(page.GetContinue())); err != nil {
			return c.Explain(err, "list", name, "")
		}
		for i := range page.Items {
			values, _, _ := unstructured.NestedMap(page.Items[i].Object, "spec")
			each(row{values})
		}
		if page.GetContinue() == "" {
			return nil
		}
	}
}

// typeController is a controller that is registered as a node of its own (linstor-server 1.34: Node.Type).
const typeController = 1

// Flags in LINSTOR's tables (linstor-server 1.34: Node.Flags, Resource.Flags).
var (
	nodeFlags     = []flag{{1 << 0, "DELETE"}, {1 << 1, "EVICTED"}, {1 << 2, "EVACUATE"}}
	resourceFlags = []flag{{1 << 1, "DELETE"}, {1 << 2, "DISKLESS"}, {1 << 7, "TIE_BREAKER"}, {1 << 10, "INACTIVE"},
		{1 << 14, "EVICTED"}, {1 << 17, "EVACUATE"}, {1 << 18, "DRBD_DELETE"}}
)

type flag struct {
	bit  int64
	name string
}

func flagNames(all []flag, bits int64) []string {
	var out []string
	for _, f := range all {
		if bits&f.bit != 0 {
			out = append(out, f.name)
		}
	}
	return out
}

// fromTables reads LINSTOR's state from its tables in Kubernetes: what it has, and not how that is doing.
func (s *Seen) fromTables(ctx context.Context, c *access.Cluster) (*State, error) {
	st := &State{From: "LINSTOR's tables in Kubernetes", Nodes: map[string]*LinstorNode{}}
	shown, pools := map[string]string{}, map[string]string{}
	type placed struct{ node, pool, kind string }
	var places []placed
	for _, t := range []struct {
		name string
		each func(row)
	}{
		{"nodes", func(r row) {
			if r.number("node_type") == typeController {
				return // it has no satellite
			}
			n := st.node(cmp.Or(r.text("node_dsp_name"), r.text("node_name")))
			n.Flags = flagNames(nodeFlags, r.number("node_flags"))
		}},
		{"nodenetinterfaces", func(r row) {
			if n := st.Nodes[strings.ToLower(r.text("node_name"))]; n != nil {
				n.Interfaces = append(n.Interfaces, NetInterface{cmp.Or(r.text("node_net_dsp_name"), r.text("node_net_name")),
					r.text("inet_address"), r.number("stlt_conn_port"), r.text("stlt_conn_encr_type")})
			}
		}},
		{"storpooldefinitions", func(r row) { pools[r.text("pool_name")] = r.text("pool_dsp_name") }},
		{"nodestorpool", func(r row) {
			places = append(places, placed{r.text("node_name"), r.text("pool_name"), r.text("driver_name")})
		}},
		{"resourcedefinitions", func(r row) {
			if r.text("snapshot_name") == "" {
				shown[r.text("resource_name")] = r.text("resource_dsp_name")
			}
		}},
		{"resources", func(r row) {
			if r.text("snapshot_name") != "" {
				return
			}
			name, flags := r.text("resource_name"), flagNames(resourceFlags, r.number("resource_flags"))
			st.Copies = append(st.Copies, Copy{Resource: cmp.Or(shown[name], name),
				Node: strings.ToLower(r.text("node_name")), Flags: flags, Diskless: slices.Contains(flags, "DISKLESS")})
		}},
	} {
		if err := s.table(ctx, c, t.name, t.each); err != nil {
			return nil, err
		}
	}
	for _, p := range places {
		n := st.Nodes[strings.ToLower(p.node)]
		if n == nil || p.kind == KindDiskless {
			continue
		}
		place, err := s.placeOf(ctx, c, p.node, p.pool)
		if err != nil {
			return nil, err
		}
		n.Pools = append(n.Pools, Pool{cmp.Or(pools[p.pool], p.pool), p.kind, place})
	}
	return st, nil
}
