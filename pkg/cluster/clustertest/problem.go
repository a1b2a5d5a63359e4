package clustertest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
)

// open is a new world's: a test that is about certificates says so.
var open = tlsspec.TLSSpec{Mode: tlsspec.Disabled}

// mostProblem bounds a problem's message, in characters: what the operator says itself, and one line of what it heard.
const mostProblem = 800

// CheckProblem fails unless a problem has a reason, and a message that is one line of bounded length.
func CheckProblem(t *testing.T, p *cluster.Problem) {
	t.Helper()
	if n := utf8.RuneCountInString(p.Message); n == 0 || n > mostProblem || !utf8.ValidString(p.Message) ||
		strings.ContainsAny(p.Message, "\n\r\t") || p.Reason == "" {
		t.Errorf("problem %s: %q", p.Reason, p.Message)
	}
}
