package sim_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// BenchmarkThousandNodes registers 1000 nodes with a pool each and lists them as an operator does.
func BenchmarkThousandNodes(b *testing.B) {
	for b.Loop() {
		w := sim.NewWorld(sim.Options{})
		if _, err := w.StartController(sim.ControllerConfig{Version: testVersion,
			TOML: `db.connection_url = "k8s"`}); err != nil {
			b.Fatal(err)
		}
		for i := range 1000 {
			name, address := fmt.Sprintf("node%d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)
			w.AddMachine(sim.MachineSpec{Name: name, Address: address,
				VolumeGroups: []sim.VolumeGroup{{Name: "vg", SizeKiB: 1 << 20}}}).LoadModule("9.3.3")
			if _, err := w.StartSatellite(name, sim.SatelliteConfig{Version: testVersion}); err != nil {
				b.Fatal(err)
			}
			call(b, w, http.MethodPost, "/v1/nodes", fmt.Sprintf(
				`{"name":%q,"net_interfaces":[{"name":"default","address":%q,"satellite_port":3366,`+
					`"satellite_encryption_type":"Plain"}]}`, name, address))
			call(b, w, http.MethodPost, "/v1/nodes/"+name+"/storage-pools",
				`{"storage_pool_name":"hdd","provider_kind":"LVM","props":{"StorDriver/StorPoolName":"vg"}}`)
		}
		for _, path := range []string{"/v1/nodes", "/v1/view/storage-pools", "/v1/physical-storage", "/v1/view/resources"} {
			call(b, w, http.MethodGet, path, "")
		}
		w.Close()
	}
}

func call(tb testing.TB, w *sim.World, method, path, body string) {
	tb.Helper()
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequestWithContext(tb.Context(), method, path, strings.NewReader(body)))
	if answer.Code >= 300 {
		tb.Fatalf("%s %s: %d %s", method, path, answer.Code, answer.Body)
	}
}
