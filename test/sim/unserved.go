package sim

import "net/http"

// notSimulated answers for an end point that LINSTOR has and the simulator has not: a client under test must not take
// it for anything that LINSTOR could have said.
func notSimulated(c *call) reply {
	return reply{status: http.StatusNotImplemented, contentType: "text/plain",
		body: []byte("the simulator does not serve " + c.req.Method + " " + c.req.URL.Path + "\n")}
}

// unservedRoutes are the end points of LINSTOR 1.34 (linstor-server, com.linbit.linstor.api.rest.v1) with their
// methods. Those that the simulator serves are left out by routes.
var unservedRoutes = map[string]string{
	"/metrics":               "GET",
	"/metrics/scrape-target": "GET",

	"/v1/controller/auth/initialize-token-auth": "POST",
	"/v1/controller/auth/token":                 "GET POST",
	"/v1/controller/auth/token/{id}":            "PUT DELETE",
	"/v1/controller/backup/db":                  "POST",
	"/v1/controller/properties/info/all":        "GET",
	"/v1/error-reports/{id}":                    "DELETE",
	"/v1/events/drbd/promotion":                 "GET",
	"/v1/events/nodes":                          "GET",
	"/v1/files":                                 "GET",
	"/v1/files/{file}":                          "GET PUT DELETE",
	"/v1/files/{file}/check/{node}":             "GET",
	"/v1/files/{file}/status/{node}":            "GET",
	"/v1/remotes":                               "DELETE",
	"/v1/remotes/{rest...}":                     "GET POST PUT DELETE",
	"/v1/schedules":                             "GET POST",
	"/v1/schedules/{schedule}":                  "PUT DELETE",
	"/v1/sos-report":                            "GET",
	"/v1/space-report":                          "GET",

	"/v1/nodes/ebs": "POST",
	"/v1/nodes/exec/drbd-reactorctl/{command}":       "POST",
	"/v1/nodes/properties/info":                      "GET",
	"/v1/nodes/{node}/config":                        "PUT",
	"/v1/nodes/{node}/storage-pools/properties/info": "GET",
	"/v1/storage-pool-definitions":                   "POST",
	"/v1/storage-pool-definitions/properties/info":   "GET",
	"/v1/storage-pool-definitions/{pool}":            "PUT DELETE",

	"/v1/queries/resource-groups/query-all-size-info":        "POST",
	"/v1/query-max-volume-size":                              "OPTIONS",
	"/v1/resource-groups/adjustall":                          "POST",
	"/v1/resource-groups/properties/info":                    "GET",
	"/v1/resource-groups/{rg}/adjust":                        "POST",
	"/v1/resource-groups/{rg}/query-max-volume-size":         "GET",
	"/v1/resource-groups/{rg}/query-size-info":               "POST",
	"/v1/resource-groups/{rg}/volume-groups/properties/info": "GET",
	"/v1/view/backup/queue":                                  "GET",
	"/v1/view/schedules-by-resource":                         "GET",
	"/v1/view/schedules-by-resource/{rd}":                    "GET",

	"/v1/resource-definitions/properties/info":                   "GET",
	"/v1/resource-definitions/{rd}/drbd-proxy":                   "PUT",
	"/v1/resource-definitions/{rd}/drbd-proxy/properties/info":   "GET",
	"/v1/resource-definitions/{rd}/drbd-proxy/disable/{a}/{b}":   "POST",
	"/v1/resource-definitions/{rd}/drbd-proxy/enable/{a}/{b}":    "POST",
	"/v1/resource-definitions/{rd}/files/{file}":                 "POST DELETE",
	"/v1/resource-definitions/{rd}/resource-connections":         "GET",
	"/v1/resource-definitions/{rd}/resource-connections/{a}/{b}": "GET PUT",
	"/v1/resource-definitions/{rd}/snapshots/{snapshot}":         "PUT",
	"/v1/resource-definitions/{rd}/sync-status":                  "GET",

	"/v1/resource-definitions/{rd}/snapshot-rollback/{snapshot}":                  "POST",
	"/v1/resource-definitions/{rd}/volume-definitions/{nr}/encryption-passphrase": "PUT",

	"/v1/resource-definitions/{rd}/resources/properties/info":                    "GET",
	"/v1/resource-definitions/{rd}/resources/{node}":                             "PUT",
	"/v1/resource-definitions/{rd}/resources/{node}/activate":                    "POST",
	"/v1/resource-definitions/{rd}/resources/{node}/deactivate":                  "POST",
	"/v1/resource-definitions/{rd}/resources/{node}/migrate-disk/{from}":         "PUT",
	"/v1/resource-definitions/{rd}/resources/{node}/migrate-disk/{from}/{pool}":  "PUT",
	"/v1/resource-definitions/{rd}/resources/{node}/toggle-disk":                 "PUT",
	"/v1/resource-definitions/{rd}/resources/{node}/toggle-disk/diskful":         "PUT",
	"/v1/resource-definitions/{rd}/resources/{node}/toggle-disk/diskful/{pool}":  "PUT",
	"/v1/resource-definitions/{rd}/resources/{node}/toggle-disk/diskless":        "PUT",
	"/v1/resource-definitions/{rd}/resources/{node}/toggle-disk/diskless/{pool}": "PUT",
	"/v1/resource-definitions/{rd}/resources/{node}/volumes/properties/info":     "GET",
	"/v1/resource-definitions/{rd}/resource-connections/properties/info":         "GET",
	"/v1/resource-definitions/{rd}/volume-definitions/properties/info":           "GET",
}
