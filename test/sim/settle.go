package sim

// obeyed is a node as the database has it that the node's machine obeys; nil if there is none. After a move of
// LINSTOR's data the database that it was moved out of has the node as well, as it was then.
func (v Volumes) obeyed(name string) (*Database, *node) {
	for _, db := range inOrder(v.world.databases) {
		n := db.nodes[key(name)]
		if n == nil {
			continue
		}
		if m := v.world.machines[n.machine]; m != nil && m.obeys == db {
			return db, n
		}
	}
	return nil, nil
}

// settle takes over what no import changes: what the machines do. The export does not tell that, since they have gone
// on after it: it is as the database has it that each of them obeys. In a restore that is the one which is imported
// into, in a move the one that LINSTOR ran on before. No satellite has said anything about the pools yet.
func (c *content) settle(w *World) {
	from := map[string]*Database{}
	for k, n := range c.nodes {
		db, was := w.Volumes().obeyed(n.name)
		if from[k] = db; was != nil {
			n.machine = was.machine
		}
		for _, p := range n.pools {
			p.known = false
		}
	}
	for _, d := range c.rscDfns {
		for at, r := range d.resources {
			r.inUse = false // unless the machine's database says otherwise
			w.Volumes().settle(placed{d, r}, from[at])
		}
	}
}

// settle does so for a copy. What the database does not know that the machine obeys, nil for none, is told by what
// lies on the machine.
func (v Volumes) settle(on placed, obeyed *Database) {
	var was *resource
	if obeyed != nil && obeyed.rscDfns[key(on.dfn.name)] != nil {
		was = obeyed.rscDfns[key(on.dfn.name)].resources[on.rsc.node]
	}
	r, b := on.rsc, v.backing(on.dfn.name, on.rsc.nodeName)
	if was != nil {
		r.inUse = was.inUse
	}
	if r.restored = !r.diskless; r.diskless {
		return
	}
	switch {
	case was != nil && !was.diskless:
		r.diskState, r.syncing, r.syncedAt, r.broken = was.diskState, was.syncing, was.syncedAt, was.broken
	case b != nil && b.complete:
		r.diskState, r.syncing, r.broken = stateUpToDate, false, false
	case b != nil:
		r.diskState, r.syncing, r.syncedAt, r.broken = stateInconsistent, true, v.world.now, false
	}
}

// obey makes the machine, which is a node of that database, obey it. If it obeyed another one, the two may differ in
// what they have of the node: LINSTOR's data was moved, or LINSTOR was started on the database from before a move.
func (m *Machine) obey(db *Database, n *node) {
	if m.obeys != nil && m.obeys != db {
		for _, on := range db.resourcesOn(n) {
			m.world.Volumes().settle(on, m.obeys)
		}
	}
	m.obeys = db
}
