package linstor

import "testing"

func TestDiskState(t *testing.T) {
	for reported, want := range map[string]string{
		"UpToDate": "UpToDate", "Inconsistent": "Inconsistent", "SyncTarget(12.00%)": "SyncTarget(12.00%)",
		"DUnknown": "DUnknown", "": "", "Created": "", "Frobnicated": "", "[]": "",
	} {
		if got := DiskState(reported); got != want {
			t.Errorf("DiskState(%q) = %q, want %q", reported, got, want)
		}
	}
}
