// Package configfile writes the configuration file of one etcd member.
//
// With a configuration file etcd ignores all other flags and the environment, and what it does not know in the file
// (etcd 3.5 to 3.7, embed.ConfigFromFile). So a mistyped key is a default that nobody chose; the tests start etcd with
// what is written here. Durations in the file would be whole numbers of nanoseconds; none is set here but the
// retention of revisions, which is a text.
package configfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
)

// Peer is a member as others know it when they start.
type Peer struct{ Name, URL string }

// Peers reads an initial cluster such as "name=URL,name=URL".
func Peers(text string) (peers []Peer) {
	for _, p := range strings.Split(text, ",") {
		if name, url, ok := strings.Cut(p, "="); ok {
			peers = append(peers, Peer{name, url})
		}
	}
	return peers
}

// Files are those with which one kind of connection is encrypted; none is used if Certificate is empty. A server's
// certificate must be one for clients, too: etcd dials itself with it.
type Files struct{ Certificate, Key, Authority string }

// Settings are all that a member's file depends on.
type Settings struct {
	Name, DataDir string
	// PeerURL and ClientURL are where the others, and clients, reach the member. It listens there and nowhere else: under
	// hostNetwork any other address would be open, too.
	PeerURL, ClientURL string
	// MetricsURL is where health and metrics are served without TLS, on loopback.
	MetricsURL string
	// Token tells clusters apart; see NewToken.
	Token string
	// Peers are all members, this one included. etcd reads them on an empty data directory only.
	Peers []Peer
	// New is true for the first member of a cluster before it has ever started. With "new" on an empty directory a member
	// may begin a cluster of its own, with the same IDs, beside the one that it was part of (run with etcd 3.7.3).
	New bool
	// Version is that of etcd: 3.5 and later releases name the checks for corruption differently.
	Version string
	// Quota is the largest size of the database in bytes; 0 for etcd's own, 2 GiB.
	Quota        int64
	Client, Peer Files
	// Heartbeat and Election are in milliseconds; 0 for etcd's own, 100 and 1000.
	Heartbeat, Election int
}

// reserved are the ports of Kubernetes' own etcd, which is on the same nodes.
var reserved = []string{"2379", "2380", "2381"}

// NewToken is a random token. Member and cluster IDs are made from URLs and token alone: with a token that was used
// before, a new cluster on the same nodes would have the IDs of the former one, and members would mistake one for the
// other.
func NewToken() string { return "linstor-" + strings.ToLower(rand.Text()) }

// transport is a section of etcd's file about TLS.
type transport struct {
	Certificate string `json:"cert-file,omitempty"`
	Key         string `json:"key-file,omitempty"`
	Authority   string `json:"trusted-ca-file,omitempty"`
	ClientAuth  bool   `json:"client-cert-auth,omitempty"`
}

type file struct {
	Name                string `json:"name"`
	DataDir             string `json:"data-dir"`
	ListenPeer          string `json:"listen-peer-urls"`
	ListenClient        string `json:"listen-client-urls"`
	ListenMetrics       string `json:"listen-metrics-urls"`
	AdvertisePeer       string `json:"initial-advertise-peer-urls"`
	AdvertiseClient     string `json:"advertise-client-urls"`
	InitialCluster      string `json:"initial-cluster"`
	InitialClusterState string `json:"initial-cluster-state"`
	InitialClusterToken string `json:"initial-cluster-token"`
	StrictReconfigCheck bool   `json:"strict-reconfig-check"`
	CompactionMode      string `json:"auto-compaction-mode"`
	CompactionRetention string `json:"auto-compaction-retention"`
	Quota               int64  `json:"quota-backend-bytes,omitempty"`
	// Without these checks the alarm CORRUPT is never armed. etcd 3.5 knows only the latter two, which etcd 3.7 lacks.
	FeatureGates string `json:"feature-gates,omitempty"`
	InitialCheck bool   `json:"experimental-initial-corrupt-check,omitempty"`
	CompactCheck bool   `json:"experimental-compact-hash-check-enabled,omitempty"`

	Heartbeat int        `json:"heartbeat-interval,omitempty"`
	Election  int        `json:"election-timeout,omitempty"`
	Client    *transport `json:"client-transport-security,omitempty"`
	Peer      *transport `json:"peer-transport-security,omitempty"`
}

// Write is the file. The error says which setting cannot be used.
func Write(s Settings) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("configure etcd member %q: %w", s.Name, err)
	}
	state := "existing"
	if s.New {
		state = "new"
	}
	peers := make([]string, 0, len(s.Peers))
	for _, p := range s.Peers {
		peers = append(peers, p.Name+"="+p.URL)
	}
	slices.Sort(peers)
	f := file{
		Name: s.Name, DataDir: s.DataDir, ListenPeer: s.PeerURL, ListenClient: s.ClientURL, ListenMetrics: s.MetricsURL,
		AdvertisePeer: s.PeerURL, AdvertiseClient: s.ClientURL, InitialCluster: strings.Join(peers, ","),
		InitialClusterState: state, InitialClusterToken: s.Token, StrictReconfigCheck: true,
		// LINSTOR never compacts: without this all revisions are kept until the quota is reached.
		CompactionMode: "periodic", CompactionRetention: "1h",
		Quota: s.Quota, Heartbeat: s.Heartbeat, Election: s.Election,
		Client: security(s.Client), Peer: security(s.Peer),
	}
	if v, err := versions.Parse(s.Version); err != nil {
		return nil, fmt.Errorf("configure etcd member %q: %w", s.Name, err)
	} else if v.Minor < 6 {
		f.InitialCheck, f.CompactCheck = true, true
	} else {
		f.FeatureGates = "InitialCorruptCheck=true,CompactHashCheck=true"
	}
	return yaml.Marshal(f)
}

// Forced is a file with which etcd makes a cluster of this member alone from its data, and forgets all other members.
// Only the guard writes it, at one start of etcd.
func Forced(file string) string { return file + "force-new-cluster: true\n" }

func security(f Files) *transport {
	if f.Certificate == "" {
		return nil
	}
	return &transport{Certificate: f.Certificate, Key: f.Key, Authority: f.Authority, ClientAuth: true}
}

func (s Settings) check() error {
	if s.Name == "" || strings.ContainsAny(s.Name, "=, ") || s.DataDir == "" || s.Token == "" {
		return errors.New("a valid name, a data directory and a token are required")
	}
	for _, f := range []Files{s.Client, s.Peer} {
		if f != (Files{}) && (f.Certificate == "" || f.Key == "" || f.Authority == "") {
			return errors.New("certificate, key and authority must be set together")
		}
	}
	if err := s.checkAddresses(); err != nil {
		return err
	}
	if !slices.Contains(s.Peers, Peer{s.Name, s.PeerURL}) {
		return errors.New("the member is missing from its own list of peers")
	}
	if s.New && len(s.Peers) != 1 {
		return errors.New("a new cluster must start with exactly one member")
	}
	return nil
}

func (s Settings) checkAddresses() error {
	err := errors.Join(address(s.PeerURL, scheme(s.Peer)), address(s.ClientURL, scheme(s.Client)),
		address(s.MetricsURL, "http"))
	if err != nil {
		return err
	}
	if u, _ := url.Parse(s.MetricsURL); !net.ParseIP(u.Hostname()).IsLoopback() {
		return fmt.Errorf("the metrics endpoint %s would be exposed to the network", s.MetricsURL)
	}
	return nil
}

func scheme(f Files) string {
	if f.Certificate != "" {
		return "https"
	}
	return "http"
}

func address(text, scheme string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Scheme != scheme || net.ParseIP(u.Hostname()) == nil || u.Port() == "" || u.Path != "":
		return fmt.Errorf("%q must be a URL that consists of %s://, an IP address and a port", text, scheme)
	case slices.Contains(reserved, u.Port()):
		return fmt.Errorf("port %s is reserved for the Kubernetes etcd", u.Port())
	}
	return nil
}
