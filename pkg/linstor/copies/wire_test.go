package copies

import (
	"encoding/json"
	"testing"
)

func TestResourcesWithoutDRBD(t *testing.T) {
	for body, local := range map[string]bool{
		`{"name":"a","node_name":"n1","layer_object":{"type":"STORAGE","storage":{}}}`:                             true,
		`{"name":"a","node_name":"n1","layer_object":{"type":"LUKS","children":[{"type":"STORAGE"}]}}`:             true,
		`{"name":"a","node_name":"n1","layer_object":{"type":"DRBD","children":[{"type":"STORAGE"}]}}`:             false,
		`{"name":"a","node_name":"n1","layer_object":{"type":"CACHE","children":[{"type":"DRBD","children":[]}]}}`: false,
		`{"name":"a","node_name":"n1"}`: false,
	} {
		var w Wire
		if err := json.Unmarshal([]byte(body), &w); err != nil {
			t.Fatal(err)
		}
		if got := w.Resource().Local; got != local {
			t.Errorf("%s: local %t", body, got)
		}
	}
}

func TestDiskless(t *testing.T) {
	for flag, want := range map[string]bool{"DISKLESS": true, "DRBD_DISKLESS": true, "TIE_BREAKER": true,
		"NVME_INITIATOR": true, "EBS_INITIATOR": true, "DELETE": false, "RESIZE": false} {
		if got := Diskless([]string{"OTHER", flag}); got != want {
			t.Errorf("%s: %t", flag, got)
		}
	}
	if Diskless(nil) {
		t.Error("a copy without flags has data")
	}
}
