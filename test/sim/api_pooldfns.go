package sim

import (
	"maps"
	"net/http"
	"slices"
)

// dropPoolDfn removes a definition with the last pool of its name.
func (d *Database) dropPoolDfn(name string) {
	if dfn := d.poolDfns[key(name)]; dfn == nil || dfn.permanent {
		return
	}
	for _, n := range d.nodes {
		if n.pools[key(name)] != nil {
			return
		}
	}
	delete(d.poolDfns, key(name))
}

type poolDfnJSON struct {
	StoragePoolName string            `json:"storage_pool_name"`
	Props           map[string]string `json:"props,omitempty"`
}

func listPoolDfns(c *call) reply {
	var list []poolDfnJSON
	for _, k := range slices.Sorted(maps.Keys(c.db.poolDfns)) {
		list = append(list, poolDfnJSON{c.db.poolDfns[k].name, c.db.poolDfns[k].props})
	}
	return c.object(http.StatusOK, page(c, list))
}

func getPoolDfn(c *call) reply {
	name := c.req.PathValue("pool")
	dfn := c.db.poolDfns[key(name)]
	if dfn == nil {
		return c.list(http.StatusOK, rcContext{bare: true},
			rcs{failure(codeNotFoundPoolDfn, "StoragePoolDefinition '%s' not found.", name)})
	}
	return c.object(http.StatusOK, poolDfnJSON{dfn.name, dfn.props})
}
