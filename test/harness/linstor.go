package harness

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/restclient"
	"github.com/linstor-dev/storagecluster-operator/test/sim"
)

// Linstor is a client of LINSTOR for the test's own use. All share their connections: each client with its own would
// keep some open, and a campaign that looks at LINSTOR for an hour would run out of file descriptors.
func (a *Administrator) Linstor() linstor.API {
	a.T.Helper()
	api, err := restclient.New(restclient.Options{Endpoint: a.Sim.LinstorURL(), Transport: http.DefaultTransport})
	if err != nil {
		a.T.Fatal(err)
	}
	return api
}

// View is what LINSTOR answers now.
func (a *Administrator) View() *linstor.View {
	a.T.Helper()
	var v *linstor.View
	a.Eventually("look at LINSTOR", func() (err error) {
		v, err = a.Linstor().View(a.Ctx, linstor.ViewOptions{})
		return err
	})
	return v
}

// LinstorNode is a node as LINSTOR has it.
func (a *Administrator) LinstorNode(name string) (*linstor.Node, error) {
	v, err := a.Linstor().View(a.Ctx, linstor.ViewOptions{})
	if err != nil {
		return nil, err
	}
	if n := v.Node(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("LINSTOR has no node %s", name)
}

// LinstorRequest sends a request as LINSTOR's client does, and returns the status of the answer.
func (a *Administrator) LinstorRequest(method, path, body string) int {
	a.T.Helper()
	req, err := http.NewRequestWithContext(a.Ctx, method, a.Sim.LinstorURL()+path, strings.NewReader(body))
	if err != nil {
		a.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.T.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// LinstorWrite sends a request that LINSTOR must carry out.
func (a *Administrator) LinstorWrite(method, path, body string) {
	a.T.Helper()
	if status := a.LinstorRequest(method, path, body); status/100 != 2 {
		a.T.Fatalf("%s %s: HTTP %d", method, path, status)
	}
}

// Signature is what is on the disk of a serial number.
func (a *Administrator) Signature(node, serial string) string {
	a.T.Helper()
	for _, d := range a.Sim.World().Machine(node).Disks() {
		if d.Serial == serial {
			return d.Signature
		}
	}
	a.T.Fatalf("node %s has no disk %s", node, serial)
	return ""
}

// Fault sets what goes wrong with LINSTOR's answers; nil for nothing.
func (a *Administrator) Fault(f func(r *http.Request) *sim.Fault) { a.Sim.World().SetFault(f) }
