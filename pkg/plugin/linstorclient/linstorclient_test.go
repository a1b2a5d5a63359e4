package linstorclient

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestList(t *testing.T) {
	for printed, want := range map[string][]string{
		`[["a","b"]]`:     {"a", "b"},
		`[["a"],["b"]]`:   {"a", "b"},
		`["a","b"]`:       {"a", "b"},
		`[[]]`:            nil,
		`{"message":"x"}`: nil,
		"Error: no":       nil,
	} {
		got, err := List[string]([]byte(printed))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", printed, d)
		}
		if fails := printed[0] != '['; (err != nil) != fails {
			t.Errorf("%s: %v", printed, err)
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
