package configfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/configfile"
)

func settings() configfile.Settings {
	return configfile.Settings{Name: "n1-1", DataDir: "/data", PeerURL: "http://10.0.0.1:3380",
		ClientURL: "http://10.0.0.1:3379", MetricsURL: "http://127.0.0.1:3381", Token: "t", Version: "v3.6.14",
		Peers: []configfile.Peer{{Name: "n2-2", URL: "http://10.0.0.2:3380"}, {Name: "n1-1", URL: "http://10.0.0.1:3380"}}}
}

func secure(s *configfile.Settings) {
	s.Client = configfile.Files{Certificate: "/c/crt", Key: "/c/key", Authority: "/c/ca"}
	s.Peer = configfile.Files{Certificate: "/p/crt", Key: "/p/key", Authority: "/p/ca"}
	s.ClientURL, s.PeerURL = "https://10.0.0.1:3379", "https://10.0.0.1:3380"
	s.Peers = []configfile.Peer{{Name: "n1-1", URL: s.PeerURL}}
}

func TestWrite(t *testing.T) {
	text, err := configfile.Write(settings())
	if err != nil {
		t.Fatal(err)
	}
	const want = `advertise-client-urls: http://10.0.0.1:3379
auto-compaction-mode: periodic
auto-compaction-retention: 1h
data-dir: /data
feature-gates: InitialCorruptCheck=true,CompactHashCheck=true
initial-advertise-peer-urls: http://10.0.0.1:3380
initial-cluster: n1-1=http://10.0.0.1:3380,n2-2=http://10.0.0.2:3380
initial-cluster-state: existing
initial-cluster-token: t
listen-client-urls: http://10.0.0.1:3379
listen-metrics-urls: http://127.0.0.1:3381
listen-peer-urls: http://10.0.0.1:3380
name: n1-1
strict-reconfig-check: true
`
	if d := cmp.Diff(want, string(text)); d != "" {
		t.Error(d)
	}
}

func TestWriteSecure(t *testing.T) {
	s := settings()
	secure(&s)
	s.New, s.Quota, s.Heartbeat, s.Election = true, 1<<30, 50, 500
	text, err := configfile.Write(s)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	transport := func(dir string) map[string]any {
		return map[string]any{"cert-file": dir + "/crt", "key-file": dir + "/key", "trusted-ca-file": dir + "/ca",
			"client-cert-auth": true}
	}
	for key, want := range map[string]any{
		"client-transport-security": transport("/c"), "peer-transport-security": transport("/p"),
		"initial-cluster-state": "new", "quota-backend-bytes": float64(1 << 30), "heartbeat-interval": float64(50),
		"election-timeout": float64(500),
	} {
		if d := cmp.Diff(want, got[key]); d != "" {
			t.Errorf("%s: %s", key, d)
		}
	}
}

// TestWriteChecks: the alarm CORRUPT can be armed, whichever release runs.
func TestWriteChecks(t *testing.T) {
	for version, want := range map[string]string{
		"3.5.33": "experimental-compact-hash-check-enabled: true\nexperimental-initial-corrupt-check: true\n",
		"v3.7.1": "feature-gates: InitialCorruptCheck=true,CompactHashCheck=true\n",
	} {
		s := settings()
		s.Version = version
		text, err := configfile.Write(s)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", version, err, text)
		}
		var got map[string]any
		if err := yaml.Unmarshal([]byte(configfile.Forced(string(text))), &got); err != nil ||
			got["force-new-cluster"] != true || strings.Contains(string(text), "force-new-cluster") {
			t.Errorf("%s: %v, %v", version, got["force-new-cluster"], err)
		}
		if version == "3.5.33" && strings.Contains(string(text), "feature-gates") {
			t.Errorf("%s", text)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*configfile.Settings){
		"no name":                 func(s *configfile.Settings) { s.Name = "" },
		"a name that splits":      func(s *configfile.Settings) { s.Name = "a,b" },
		"no token":                func(s *configfile.Settings) { s.Token = "" },
		"no directory":            func(s *configfile.Settings) { s.DataDir = "" },
		"Kubernetes' client port": func(s *configfile.Settings) { s.ClientURL = "http://10.0.0.1:2379" },
		"Kubernetes' peer port": func(s *configfile.Settings) {
			s.PeerURL = "http://10.0.0.1:2380"
			s.Peers[1].URL = s.PeerURL
		},
		"Kubernetes' metrics port": func(s *configfile.Settings) { s.MetricsURL = "http://127.0.0.1:2381" },
		"metrics for everybody":    func(s *configfile.Settings) { s.MetricsURL = "http://10.0.0.1:3381" },
		"a host name":              func(s *configfile.Settings) { s.ClientURL = "http://n1:3379" },
		"a path":                   func(s *configfile.Settings) { s.ClientURL += "/x" },
		"no port":                  func(s *configfile.Settings) { s.ClientURL = "http://10.0.0.1" },
		"https without files":      func(s *configfile.Settings) { s.ClientURL = "https://10.0.0.1:3379" },
		"files without https": func(s *configfile.Settings) {
			s.Client = configfile.Files{Certificate: "a", Key: "b", Authority: "c"}
		},
		"a certificate without its key": func(s *configfile.Settings) {
			secure(s)
			s.Client.Key = ""
		},
		"a key without its certificate": func(s *configfile.Settings) { s.Peer.Key = "/k" },
		"not among its peers":           func(s *configfile.Settings) { s.Peers = s.Peers[:1] },
		"no version":                    func(s *configfile.Settings) { s.Version = "latest" },
		"a new cluster of two":          func(s *configfile.Settings) { s.New = true },
	} {
		s := settings()
		spoil(&s)
		if text, err := configfile.Write(s); err == nil {
			t.Errorf("%s: written:\n%s", name, text)
		}
	}
}

func TestNewToken(t *testing.T) {
	var tokens []string
	for range 100 {
		tokens = append(tokens, configfile.NewToken())
	}
	slices.Sort(tokens)
	if n := len(slices.Compact(tokens)); n != 100 || len(tokens[0]) < 30 || strings.ContainsAny(tokens[0], "=, ") {
		t.Errorf("%d different tokens of 100, such as %q", n, tokens[0])
	}
}

func TestPeers(t *testing.T) {
	want := []configfile.Peer{{Name: "a-1", URL: "http://a:1"}, {Name: "b-2", URL: "http://b:1"}}
	if d := cmp.Diff(want, configfile.Peers("a-1=http://a:1,b-2=http://b:1")); d != "" {
		t.Error(d)
	}
	if got := configfile.Peers(""); len(got) > 0 {
		t.Errorf("peers %v of none", got)
	}
}
