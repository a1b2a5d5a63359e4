package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A hold may be open while the operator is exchanged for one that writes options otherwise.
func TestOptionsOfEarlierOperatorsAreRead(t *testing.T) {
	var h Hold
	if err := json.Unmarshal([]byte(`{"options":["retry",{"answer":"skip","does":"skips"}]}`), &h); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]HoldOption{{Answer: "retry"}, {Answer: "skip", Does: "skips"}}, h.Options); d != "" {
		t.Error(d)
	}
	if err := json.Unmarshal([]byte(`{"options":[7]}`), &h); err == nil {
		t.Error("a number was read")
	}
}
