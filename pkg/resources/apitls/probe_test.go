package apitls_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/tlssecret"
)

// locked is the container of a controller whose API is locked.
func locked() *corev1.Container {
	c := &corev1.Container{StartupProbe: &corev1.Probe{}, ReadinessProbe: &corev1.Probe{}, LivenessProbe: &corev1.Probe{}}
	apitls.Access{Ref: tlssecret.Ref{Secret: "s", Leaf: "leaf", Trust: "trust"}}.Lock(&corev1.PodSpec{}, c)
	return c
}

// TestLiveness runs the probe's script against a server: a LINSTOR that hangs is killed, and one that is not asked is
// not.
func TestLiveness(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash here")
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			rw.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusInternalServerError)
	}))
	defer broken.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	command := locked().LivenessProbe.Exec.Command
	for name, tc := range map[string]struct {
		url   string
		path  string
		alive bool
	}{
		"it answers":       {server.URL, "", true},
		"an error":         {broken.URL, "", false},
		"nobody":           {closed.URL, "", false},
		"there is no bash": {closed.URL, t.TempDir(), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, port, _ := strings.Cut(strings.TrimPrefix(tc.url, "http://"), ":")
			script := strings.ReplaceAll(command[2], "/127.0.0.1/3370", "/127.0.0.1/"+port)
			cmd := exec.CommandContext(t.Context(), command[0], command[1], script)
			if tc.path != "" {
				cmd.Env = []string{"PATH=" + tc.path}
			}
			out, err := cmd.CombinedOutput()
			if (err == nil) != tc.alive {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestTheOtherProbes find out whether somebody listens: they cannot show a certificate.
func TestTheOtherProbes(t *testing.T) {
	c := locked()
	for name, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe} {
		if p.TCPSocket == nil || p.HTTPGet != nil || p.TCPSocket.Port.StrVal != apitls.PortName {
			t.Errorf("%s: %+v", name, p.ProbeHandler)
		}
	}
}
