package result_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
)

// TestNamesAreBounded: a thousand nodes are counted and not listed.
func TestNamesAreBounded(t *testing.T) {
	n := result.Of(strings.Split(strings.Repeat("n ", 1000)+"n", " "))
	if n.Count != 1001 || len(n.Names) != result.MostNames {
		t.Errorf("%d, %d names", n.Count, len(n.Names))
	}
	data, err := json.Marshal(result.Plan{Outcome: result.Changes, Restarts: []result.Restart{{What: "x", Names: n}}})
	if err != nil || !strings.Contains(string(data), `"count":1001,"names":["n",`) {
		t.Errorf("%v: %s", err, data)
	}
}
