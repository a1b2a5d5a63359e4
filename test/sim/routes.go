package sim

import (
	"maps"
	"net/http"
	"strings"
)

const (
	get   = http.MethodGet
	post  = http.MethodPost
	put   = http.MethodPut
	patch = http.MethodPatch
	del   = http.MethodDelete
)

// routes is the table of end points.
func (w *World) routes() *http.ServeMux {
	all := map[string]methods{}
	for _, group := range []map[string]methods{controllerRoutes, nodeRoutes, storageRoutes, resourceRoutes,
		groupRoutes, snapshotRoutes} {
		for path, m := range group {
			all[path] = maps.Clone(m)
		}
	}
	for path, names := range unservedRoutes {
		if all[path] == nil {
			all[path] = methods{}
		}
		for _, method := range strings.Fields(names) {
			if all[path][method] == nil {
				all[path][method] = notSimulated
			}
		}
	}
	mux := http.NewServeMux()
	for path, m := range all {
		mux.Handle(path, m)
	}
	mux.Handle("/", fallback{})
	return mux
}

// fallback answers what fits no end point, whatever the method.
type fallback struct{}

func (fallback) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	c := rw.(*capture)
	c.call.req = r
	c.answer = notFound(c.call)
}

var controllerRoutes = map[string]methods{
	"/{$}":                               {get: getRoot},
	"/health":                            {get: getHealth},
	"/v1/controller/version":             {get: getVersion},
	"/v1/controller/config":              {get: getConfig, put: putConfig},
	"/v1/controller/properties":          {get: getControllerProps, post: postControllerProps},
	"/v1/controller/properties/{key...}": {del: deleteControllerProp},
	"/v1/controller/properties/info":     {get: getControllerPropsInfo},
	"/v1/controller/database/export":     {post: exportDatabase},
	"/v1/sos-report/download":            {get: downloadReport},
	"/v1/encryption/passphrase": {get: getPassphrase, post: createPassphrase, put: modifyPassphrase,
		patch: enterPassphrase},
	"/v1/error-reports":                   {get: listErrorReports, patch: deleteErrorReports},
	"/v1/error-reports/{id}":              {get: getErrorReport},
	"/v1/stats/{what}":                    {get: getStats},
	"/v1/node-connections":                {get: listNodeConns},
	"/v1/node-connections/{a}/{b}":        {put: putNodeConn},
	"/v1/storage-pool-definitions":        {get: listPoolDfns},
	"/v1/storage-pool-definitions/{pool}": {get: getPoolDfn},
}

var nodeRoutes = map[string]methods{
	"/v1/nodes":                           {get: listNodes, post: createNode},
	"/v1/nodes/{node}":                    {get: getNode, put: modifyNode, del: deleteNode},
	"/v1/nodes/{node}/lost":               {del: lostNode},
	"/v1/nodes/{node}/reconnect":          {put: reconnectNode},
	"/v1/nodes/{node}/evict":              {put: evictNode},
	"/v1/nodes/{node}/evacuate":           {put: evacuateNode},
	"/v1/nodes/{node}/restore":            {put: restoreNode},
	"/v1/nodes/{node}/config":             {get: getSatelliteConfig},
	"/v1/nodes/{node}/net-interfaces":     {get: listNetIfs, post: createNetIf},
	"/v1/nodes/{node}/net-interfaces/{i}": {get: getNetIf, put: modifyNetIf, del: deleteNetIf},
}

var storageRoutes = map[string]methods{
	"/v1/view/storage-pools":                {get: viewPools},
	"/v1/nodes/{node}/storage-pools":        {get: listPools, post: createPool},
	"/v1/nodes/{node}/storage-pools/{pool}": {get: getPool, put: modifyPool, del: deletePool},
	"/v1/physical-storage":                  {get: viewPhysical},
	"/v1/physical-storage/{node}":           {get: listPhysical, post: createPhysical},
}

var resourceRoutes = map[string]methods{
	"/v1/view/resources":       {get: viewResources},
	"/v1/view/snapshots":       {get: viewSnapshots},
	"/v1/resource-definitions": {get: listResourceDfns, post: createResourceDfn},
	"/v1/resource-definitions/{rd}": {get: getResourceDfn, put: modifyResourceDfn,
		del: deleteResourceDfn},
	"/v1/resource-definitions/{rd}/volume-definitions": {get: listVolumeDfns, post: createVolumeDfn},
	"/v1/resource-definitions/{rd}/volume-definitions/{nr}": {get: getVolumeDfn, put: modifyVolumeDfn,
		del: deleteVolumeDfn},
	"/v1/resource-definitions/{rd}/resources": {get: listResources, post: createResources},
	"/v1/resource-definitions/{rd}/resources/{node}": {get: getResource, post: createResourceOn,
		del: deleteResource},
	"/v1/resource-definitions/{rd}/autoplace":                       {post: autoplaceResource},
	"/v1/resource-definitions/{rd}/resources/{node}/make-available": {post: makeAvailable},
	"/v1/resource-definitions/{rd}/resources/{node}/volumes":        {get: listVolumes},
	"/v1/resource-definitions/{rd}/resources/{node}/volumes/{nr}":   {get: getVolume, put: modifyVolume},
}

var groupRoutes = map[string]methods{
	"/v1/resource-groups": {get: listResourceGroups, post: createResourceGroup},
	"/v1/resource-groups/{rg}": {get: getResourceGroup, put: modifyResourceGroup,
		del: deleteResourceGroup},
	"/v1/resource-groups/{rg}/spawn":         {post: spawnResource},
	"/v1/resource-groups/{rg}/volume-groups": {get: listVolumeGroups, post: createVolumeGroup},
	"/v1/resource-groups/{rg}/volume-groups/{nr}": {get: getVolumeGroup, put: modifyVolumeGroup,
		del: deleteVolumeGroup},
}

var snapshotRoutes = map[string]methods{
	"/v1/actions/snapshot/multi": {post: createSnapshots},
	"/v1/resource-definitions/{rd}/snapshots": {get: listSnapshots,
		post: createSnapshot},
	"/v1/resource-definitions/{rd}/snapshots/{snapshot}": {get: getSnapshot,
		del: deleteSnapshot},
	"/v1/resource-definitions/{rd}/clone":                                         {post: cloneResourceDfn},
	"/v1/resource-definitions/{rd}/clone/{clone}":                                 {get: getClone},
	"/v1/resource-definitions/{rd}/snapshot-restore-resource/{snapshot}":          {post: restoreResource},
	"/v1/resource-definitions/{rd}/snapshot-restore-volume-definition/{snapshot}": {post: restoreVolumeDfn},
	"/v1/remotes":                    {get: listRemotes},
	"/v1/key-value-store":            {get: listKeyValueStores},
	"/v1/key-value-store/{instance}": {get: getKeyValueStore, put: modifyKeyValueStore, del: deleteKeyValueStore},
}
