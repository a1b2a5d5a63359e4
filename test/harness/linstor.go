package harness

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/sim"
)

// Linstor is a client of LINSTOR for the test's own use. All share their connections: each client with its own would keep some
// open, and a campaign that looks at LINSTOR for an hour would run out of file descriptors.
func (e *Env) Linstor() *linstor.Client {
	e.T.Helper()
	api, err := linstor.New(linstor.Options{Endpoint: e.Sim.LinstorURL(), Transport: http.DefaultTransport})
	if err != nil {
		e.T.Fatal(err)
	}
	return api
}

// View is what LINSTOR answers now.
func (e *Env) View() *linstor.View {
	e.T.Helper()
	var v *linstor.View
	e.Eventually("look at LINSTOR", func() (err error) {
		v, err = e.Linstor().View(e.Ctx, linstor.ViewOptions{})
		return err
	})
	return v
}

// LinstorNode is a node as LINSTOR has it.
func (e *Env) LinstorNode(name string) (*linstor.Node, error) {
	v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{})
	if err != nil {
		return nil, err
	}
	if n := v.Node(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("LINSTOR has no node %s", name)
}

// LinstorPost is what an administrator does with LINSTOR's client.
func (e *Env) LinstorPost(path, body string) {
	e.T.Helper()
	req, err := http.NewRequestWithContext(e.Ctx, http.MethodPost, e.Sim.LinstorURL()+path, strings.NewReader(body))
	if err != nil {
		e.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.T.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		e.T.Fatalf("POST %s: %s", path, resp.Status)
	}
}

// Fault sets what goes wrong with LINSTOR's answers; nil for nothing.
func (e *Env) Fault(f func(r *http.Request) *sim.Fault) { e.Sim.World().SetFault(f) }
