package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/test/harness"
)

// worldState is the world, without what may differ between two ways to the same end.
func worldState(e *harness.Env) []string {
	e.T.Helper()
	out := append(e.Owned(), e.MemberLabels()...)
	c := &v1alpha1.StorageCluster{}
	err := e.Client().Get(e.Ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, c)
	if err == nil {
		out = append(out, linstorState(e)...)
		for _, c := range c.Status.Conditions {
			out = append(out, fmt.Sprintf("condition %s %s %s", c.Type, c.Status, c.Reason))
		}
	} else if !apierrors.IsNotFound(err) {
		e.T.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func linstorState(e *harness.Env) []string {
	v, err := e.Linstor().View(e.Ctx, linstor.ViewOptions{Resources: true})
	if err != nil {
		return []string{errors.Unwrap(err).Error()}
	}
	var out []string
	for _, n := range v.Nodes {
		out = append(out, fmt.Sprintf("LINSTOR node %s %s %v %v", n.Name, n.Status, n.Flags,
			slices.Sorted(maps.Keys(n.Properties))))
		for _, p := range n.Pools {
			out = append(out, fmt.Sprintf("LINSTOR pool %s %s %s %v", n.Name, p.Name, p.Backing, p.Properties))
		}
	}
	for _, r := range v.Resources {
		out = append(out, "LINSTOR resource "+r.Node+" "+r.Name)
	}
	return out
}

// madeSince counts what operators made since a mark in the audit log and the last reset of LINSTOR's requests.
func madeSince(e *harness.Env, mark int) map[string]int {
	e.T.Helper()
	out := map[string]int{}
	for _, ev := range e.Writes(mark) {
		if ev.Code == http.StatusCreated && ev.Resource != "events" {
			out[ev.Resource+" "+ev.Name]++
		}
	}
	for _, r := range e.Sim.World().Writes() {
		var body struct {
			Name string `json:"name"`
			Pool string `json:"storage_pool_name"`
		}
		if r.Method == http.MethodPost && r.Status == http.StatusCreated && json.Unmarshal(r.Body, &body) == nil {
			switch {
			case r.Path == "/v1/nodes":
				out["LINSTOR node "+body.Name]++
			case strings.HasSuffix(r.Path, "/storage-pools"):
				out["LINSTOR pool "+r.Path+" "+body.Pool]++
			}
		}
	}
	return out
}

// roundBegins marks where a round begins.
func roundBegins(e *harness.Env) int {
	e.Sim.World().ResetRequests()
	return e.AuditMark()
}
