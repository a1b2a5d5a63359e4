package sim

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Database is a controller's database. It outlives controllers.
type Database struct {
	world       *World
	url         string
	unreachable bool
	user        string
	password    string
	broken      string // why a migration fails, "" if it does not
	corrupted   bool
	openedBy    []string
	importError string // why an import fails, "" if it does not
	interrupted int    // how many imports are still to be killed

	content
}

// content is what LINSTOR wrote to a database.
type content struct {
	written    bool
	schema     version // the LINSTOR version whose schema it has
	props      map[string]string
	nodes      map[string]*node
	nodeConns  map[string]*nodeConn
	poolDfns   map[string]*poolDfn
	rscDfns    map[string]*rscDfn
	rscGrps    map[string]*rscGrp
	keyValues  map[string]*keyValueStore
	nextMinor  int
	passphrase string // the master passphrase, "" if none is set
	// half is set once an import has been killed, until one runs to its end. What is there then is not simulated: all
	// else stays as it was before, which is what the machines have.
	half bool
}

// clone is a copy that shares nothing with the original, as are those of all that a database holds.
func (c *content) clone() *content {
	out := *c
	out.props = maps.Clone(c.props)
	out.nodes = cloned(c.nodes, (*node).clone)
	out.nodeConns = cloned(c.nodeConns, (*nodeConn).clone)
	out.poolDfns = cloned(c.poolDfns, (*poolDfn).clone)
	out.rscDfns = cloned(c.rscDfns, (*rscDfn).clone)
	out.rscGrps = cloned(c.rscGrps, (*rscGrp).clone)
	out.keyValues = cloned(c.keyValues, (*keyValueStore).clone)
	return &out
}

// cloned is a copy of a map with copies of its values.
func cloned[K comparable, V any](m map[K]V, clone func(V) V) map[K]V {
	if m == nil {
		return nil
	}
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = clone(v)
	}
	return out
}

// inSeconds cuts the times at which resources were made to whole seconds, which is all that MariaDB keeps of them
// (seen with linstor-server 1.34).
func (c *content) inSeconds() {
	for _, d := range c.rscDfns {
		for _, r := range d.resources {
			r.created = r.created.Truncate(time.Second)
		}
		for _, s := range d.snapshots {
			s.created = s.created.Truncate(time.Second)
		}
	}
}

// shallow is a copy of what a pointer points to; nil of nil.
func shallow[T any](p *T) *T {
	if p == nil {
		return nil
	}
	out := *p
	return &out
}

// Database returns the database behind a connection_url, credentials left out, as it is written in linstor.toml; it is
// made when it is first asked for. "k8s" is the database in the Kubernetes API.
func (w *World) Database(url string) *Database {
	w.lock()
	defer w.mu.Unlock()
	return w.database(withoutCredentials(url))
}

// ServeAt lets another connection_url name the database as well, as if its server had two addresses.
func ServeAt(d *Database, url string) {
	d.world.lock()
	defer d.world.mu.Unlock()
	url, _, _ = strings.Cut(withoutCredentials(url), "?")
	d.world.databases[url] = d
}

func (w *World) database(url string) *Database {
	url, _, _ = strings.Cut(url, "?") // parameters are about the connection, not about the data
	db := w.databases[url]
	if db == nil {
		db = &Database{world: w, url: url}
		db.wipe()
		w.databases[url] = db
	}
	return db
}

// Kinds of databases, as an export names them.
const (
	onKubernetes = "k8s"
	onEtcd       = "etcd"
	onMariaDB    = "sql/mariadb"
)

// kind is the database's.
func (d *Database) kind() string {
	switch kind, _, server := strings.Cut(strings.TrimPrefix(d.url, "jdbc:"), ":"); {
	case !server:
		return onKubernetes
	case kind == onEtcd:
		return onEtcd
	default:
		return "sql/" + kind
	}
}

func (d *Database) wipe() {
	d.corrupted = false
	d.content = content{
		props: map[string]string{}, nodes: map[string]*node{}, nodeConns: map[string]*nodeConn{},
		poolDfns: map[string]*poolDfn{},
		rscDfns:  map[string]*rscDfn{}, rscGrps: map[string]*rscGrp{}, nextMinor: 1000,
		keyValues: map[string]*keyValueStore{},
	}
}

// SetUnreachable makes the database unreachable, or reachable again. A controller that runs goes on with what it has
// in memory, but its health fails (SQL) and nothing can be written.
func (d *Database) SetUnreachable(unreachable bool) {
	d.world.lock()
	defer d.world.mu.Unlock()
	d.unreachable = unreachable
}

// SetCredentials sets the user and password without which nobody can open the database. Two empty strings let
// everybody.
func (d *Database) SetCredentials(user, password string) {
	d.world.lock()
	defer d.world.mu.Unlock()
	d.user, d.password = user, password
}

// SetMigrationError makes every migration fail with that message; "" ends it.
func (d *Database) SetMigrationError(message string) {
	d.world.lock()
	defer d.world.mu.Unlock()
	d.broken = message
}

// LocalID is the property Cluster/LocalID, which identifies this LINSTOR; "" if none has been written.
func (d *Database) LocalID() string {
	d.world.lock()
	defer d.world.mu.Unlock()
	return d.props[propLocalID]
}

// EditProperties shows the controller's properties, or changes them without a request, as if they had always been so.
func (d *Database) EditProperties(edit func(map[string]string)) {
	d.world.lock()
	defer d.world.mu.Unlock()
	edit(d.props)
}

// SchemaVersion is the LINSTOR version that last migrated the database, such as "1.35.3"; "" if there was none.
func (d *Database) SchemaVersion() string {
	d.world.lock()
	defer d.world.mu.Unlock()
	if !d.written {
		return ""
	}
	return d.schema.String()
}

// NeedsMigration reports whether a LINSTOR of that version would migrate the data that is there; the entry point of
// its image makes a backup first.
func (d *Database) NeedsMigration(to string) bool {
	v, err := parseVersion(to)
	d.world.lock()
	defer d.world.mu.Unlock()
	return err == nil && d.written && v.newerThan(d.schema)
}

// Empty reports whether no LINSTOR has ever written to the database, or it has been wiped since.
func (d *Database) Empty() bool {
	d.world.lock()
	defer d.world.mu.Unlock()
	return !d.written
}

// Corrupted reports whether two processes had the database open at once.
func (d *Database) Corrupted() bool {
	d.world.lock()
	defer d.world.mu.Unlock()
	return d.corrupted
}

// Nodes returns the names of the nodes in the database, in LINSTOR's order.
func (d *Database) Nodes() []string {
	d.world.lock()
	defer d.world.mu.Unlock()
	var names []string
	for _, n := range d.sortedNodes() {
		names = append(names, n.name)
	}
	return names
}

// Wipe empties the database. Credentials and faults stay.
func (d *Database) Wipe() {
	d.world.lock()
	defer d.world.mu.Unlock()
	d.wipe()
}

// Exchange gives each of two databases the other's content. No process may have one of them open.
func (d *Database) Exchange(with *Database) {
	d.world.lock()
	defer d.world.mu.Unlock()
	if who := append(slices.Clone(d.openedBy), with.openedBy...); len(who) > 0 {
		d.world.violate("exchanged-under-a-process database=%s: %s had it open", d.url, strings.Join(who, " and "))
	}
	d.content, with.content = with.content, d.content
	for _, m := range d.world.machines {
		switch m.obeys { // it obeys what is in the database
		case d:
			m.obeys = with
		case with:
			m.obeys = d
		}
	}
}

// SeedForeign fills the database with the data of another LINSTOR, at version 1.33.3, with these nodes. They have
// addresses in 192.0.2.0/24, where nothing answers.
func (d *Database) SeedForeign(localID string, nodes ...string) {
	d.world.lock()
	defer d.world.mu.Unlock()
	d.wipe()
	d.migrate(version{1, 33, 3})
	d.props[propLocalID] = localID
	for i, name := range nodes {
		n := d.newNode(name, typeSatellite)
		n.addNet(&netIf{name: "default", address: "192.0.2." + itoa(i+1), port: 3366, encryption: encPlain,
			uuid: d.world.newUUID()})
		d.nodes[key(name)] = n
	}
}

// open counts a process that uses the database. Two at once destroy it.
func (d *Database) open(who string) (closeDB func()) {
	if len(d.openedBy) > 0 {
		d.corrupted = true
		d.world.violate("two-controllers database=%s: %s opened it while %s had it open", d.url, who,
			strings.Join(d.openedBy, " and "))
	}
	d.openedBy = append(d.openedBy, who)
	closed := false
	return func() {
		if closed {
			return
		}
		closed = true
		if i := slices.Index(d.openedBy, who); i >= 0 {
			d.openedBy = slices.Delete(d.openedBy, i, i+1)
		}
	}
}

// migrate brings the schema to a version and writes what a new database starts with.
func (d *Database) migrate(to version) {
	if !d.written {
		d.written = true
		maps.Copy(d.props, seedProps)
		d.props[propLocalID] = d.world.newUUID()
		d.poolDfns[key("DfltStorPool")] = &poolDfn{name: "DfltStorPool", props: map[string]string{}, permanent: true}
		d.rscGrps[key(defaultGroup)] = newGroup(defaultGroup, "5a1e0000-0000-4000-8000-ffffffffffff")
	}
	d.schema = to
}

func (d *Database) newNode(name, nodeType string) *node {
	n := &node{
		name:     name,
		uuid:     d.world.newUUID(),
		nodeType: nodeType,
		props:    map[string]string{},
		nets:     map[string]*netIf{},
		pools:    map[string]*pool{},
	}
	if nodeType == typeSatellite || nodeType == typeCombined {
		n.pools[key(disklessPool)] = &pool{name: disklessPool, kind: kindDiskless, uuid: d.world.newUUID(),
			props: map[string]string{}}
	}
	return n
}

func (c *content) sortedNodes() []*node { return inOrder(c.nodes) }

func (c *content) sortedDfns() []*rscDfn { return inOrder(c.rscDfns) }

// resourcesOn returns the resources of a node with their definitions, by name.
func (c *content) resourcesOn(n *node) []placed {
	var list []placed
	for _, dfn := range c.sortedDfns() {
		if r := dfn.resources[key(n.name)]; r != nil {
			list = append(list, placed{dfn, r})
		}
	}
	return list
}

type placed struct {
	dfn *rscDfn
	rsc *resource
}

// withoutCredentials drops user and password from a connection URL.
func withoutCredentials(url string) string {
	plain, _, _ := splitCredentials(url)
	return plain
}

// splitCredentials separates a connection URL from the user and password in it, before the host or as parameters.
func splitCredentials(url string) (plain, user, password string) {
	head, query, hasQuery := strings.Cut(url, "?")
	if scheme, rest, ok := strings.Cut(head, "://"); ok {
		authority, tail, slash := strings.Cut(rest, "/")
		if at := strings.LastIndex(authority, "@"); at >= 0 {
			user, password, _ = strings.Cut(authority[:at], ":")
			authority = authority[at+1:]
		}
		head = scheme + "://" + authority
		if slash {
			head += "/" + tail
		}
	}
	if !hasQuery {
		return head, user, password
	}
	var kept []string
	for _, param := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(param, "=")
		switch name {
		case "user":
			user = value
		case "password":
			password = value
		default:
			kept = append(kept, param)
		}
	}
	if len(kept) > 0 {
		head += "?" + strings.Join(kept, "&")
	}
	return head, user, password
}

// inOrder are a map's values in the order of their keys.
func inOrder[V any](m map[string]V) []V {
	list := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[k])
	}
	return list
}
