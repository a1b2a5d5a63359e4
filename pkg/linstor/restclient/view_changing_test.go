package restclient

import (
	"net/http"
	"sync"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// A pool that is made from a disk during the look is in the view with its disk, announced, or there.
func TestViewWhileAPoolIsMade(t *testing.T) {
	const announced, used, made, over = 1, 2, 3, 4 // the last one: it is there, and announced no more
	for begin := range made {
		for pace := range over {
			var mu sync.Mutex
			step := begin
			handler := threeNodes().ServeHTTP
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				var body string
				switch r.URL.Path {
				case "/v1/physical-storage":
					if body = "[]"; step < used {
						body = `[{"size":1,"nodes":{"n1":[{"device":"/dev/sdb"}]}}]`
					}
				case "/v1/nodes":
					if body = `[{"name":"n1","connection_status":"ONLINE"}]`; step >= announced && step < over {
						body = `[{"name":"n1","connection_status":"ONLINE","props":{"Aux/intent":"/dev/sdb"}}]`
					}
				case "/v1/view/storage-pools":
					if body = "[]"; step >= made {
						body = `[{"storage_pool_name":"p","node_name":"n1","provider_kind":"LVM","total_capacity":1}]`
					}
				default:
					handler(w, r)
					return
				}
				step += pace
				answer(http.StatusOK, body)(w, r)
			})
			v, err := client.View(t.Context(), linstor.ViewOptions{Devices: true})
			if err != nil {
				t.Fatal(err)
			}
			if n := v.Node("n1"); len(n.Devices) == 0 && n.Properties["Aux/intent"] == "" && n.Pools["p"] == nil {
				t.Errorf("from step %d on, %d with each answer: the disk is gone, and nothing tells where", begin, pace)
			}
		}
	}
}

// A satellite whose connection is lost after the nodes were listed is not one without storage.
func TestViewWhileASatelliteRestarts(t *testing.T) {
	const (
		nodes = `[{"name":"n1","connection_status":"ONLINE"}]`
		pool  = `[{"storage_pool_name":"ssd","node_name":"n1","provider_kind":"LVM","total_capacity":7}]`
		away  = `[{"storage_pool_name":"ssd","node_name":"n1","provider_kind":"LVM",
			"reports":[{"ret_code":-9223372036854774806,"message":"No active connection to satellite 'n1'"}]}]`
		past = `[{"storage_pool_name":"ssd","node_name":"n1","provider_kind":"LVM","total_capacity":7,
			"reports":[{"ret_code":-9223372036854774806,"message":"No active connection to satellite 'n1'"}]}]`
		lost = `[{"storage_pool_name":"ssd","node_name":"n1","provider_kind":"LVM"}]`
	)
	for name, tc := range map[string]struct {
		cached, fresh string
		online, known bool
	}{
		"it is away":             {cached: away, fresh: away},
		"it is back already":     {cached: away, fresh: pool, online: true, known: true},
		"it goes a little later": {cached: lost, fresh: away},
		"it was away before":     {cached: past, online: true, known: true},
		"its storage is gone":    {cached: lost, fresh: lost, online: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := threeNodes()
			server.answers["/v1/nodes"], server.answers[cachedPools] = nodes, tc.cached
			server.answers["/v1/view/storage-pools?cached=false&nodes=n1"] = tc.fresh
			server.answers["/v1/physical-storage"] = "[]"
			v, err := serve(t, server.ServeHTTP).View(t.Context(), linstor.ViewOptions{Devices: true})
			if err != nil {
				t.Fatal(err)
			}
			if n := v.Node("n1"); n.DevicesKnown != tc.online {
				t.Errorf("its disks are known: %t", n.DevicesKnown)
			}
			if n, known := v.Node("n1"), v.Pool("n1", "ssd").TotalKiB != nil; n.Online() != tc.online || known != tc.known {
				t.Errorf("ONLINE: %t, capacity known: %t", n.Online(), known)
			}
		})
	}
}
