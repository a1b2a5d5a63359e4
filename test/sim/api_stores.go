package sim

import (
	"maps"
	"net/http"
	"slices"
)

type linstorRemoteJSON struct {
	Name string `json:"remote_name"`
	URL  string `json:"url"`
}

// listRemotes answers the one remote that a LINSTOR makes for itself. None can be added here.
func listRemotes(c *call) reply {
	return c.object(http.StatusOK, map[string][]linstorRemoteJSON{"linstor_remotes": {
		{Name: "local-remote-generated-by-linstor", URL: "http://localhost:3370"}}})
}

// keyValueStore is a set of properties that clients keep in LINSTOR.
type keyValueStore struct {
	name, uuid string
	props      map[string]string
}

func (s *keyValueStore) clone() *keyValueStore {
	out := shallow(s)
	out.props = maps.Clone(s.props)
	return out
}

type keyValueStoreJSON struct {
	Name  string            `json:"name"`
	Props map[string]string `json:"props"`
}

func (s *keyValueStore) json() keyValueStoreJSON {
	return keyValueStoreJSON{Name: s.name, Props: s.props}
}

func listKeyValueStores(c *call) reply {
	list := []keyValueStoreJSON{}
	for _, k := range slices.Sorted(maps.Keys(c.db.keyValues)) {
		list = append(list, c.db.keyValues[k].json())
	}
	return c.object(http.StatusOK, list)
}

// getKeyValueStore answers a list of one.
func getKeyValueStore(c *call) reply {
	name := c.req.PathValue("instance")
	if s := c.db.keyValues[key(name)]; s != nil {
		return c.object(http.StatusOK, []keyValueStoreJSON{s.json()})
	}
	return c.list(http.StatusOK, rcContext{bare: true}, rcs{failure(codeNotFoundKVS,
		"Could not find key value store instance '%s'.", name)})
}

// modifyKeyValueStore makes the store if it is not there. It takes any key.
func modifyKeyValueStore(c *call) reply {
	var body propChange
	if r, ok := c.decode(&body, parsedInScope); !ok {
		return r
	}
	name := c.req.PathValue("instance")
	s := c.db.keyValues[key(name)]
	if s == nil {
		s = &keyValueStore{name: name, uuid: c.world.newUUID(), props: map[string]string{}}
		c.db.keyValues[key(name)] = s
	}
	maps.Copy(s.props, body.OverrideProps)
	body.deleteFrom(s.props)
	return c.list(http.StatusOK, rcContext{bare: true},
		rcs{success(opModify|objCtrl|codeModified, "Successfully updated properties")})
}

func deleteKeyValueStore(c *call) reply {
	name := c.req.PathValue("instance")
	s := c.db.keyValues[key(name)]
	if s == nil {
		return c.list(http.StatusOK, rcContext{bare: true}, rcs{warning(codeNotFoundWarning, "Kvs '%s' not found.", name)})
	}
	delete(c.db.keyValues, key(name))
	return c.list(http.StatusOK, rcContext{bare: true}, rcs{success(codeDeleted, "Kvs '%s' deleted.", s.name).
		details("Kvs '%s' UUID was: %s", s.name, s.uuid)})
}
