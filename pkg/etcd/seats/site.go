package seats

import (
	"net"
	"net/url"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
)

// Node is one that may have a member.
type Node struct {
	Name, Zone string
	// PeerURL and ClientURL are where a member on it is reached.
	PeerURL, ClientURL string
	// Ready is false for a node that gets no new member for now. One that has a member keeps it.
	Ready bool
}

// Reached reports whether both URLs have a scheme, an IP address and a port. Others must not be told an address at
// which a member cannot listen.
func (n Node) Reached() bool {
	for _, text := range []string{n.PeerURL, n.ClientURL} {
		u, err := url.Parse(text)
		if err != nil || u.Scheme == "" || net.ParseIP(u.Hostname()) == nil || u.Port() == "" {
			return false
		}
	}
	return true
}

// Configuration is all that a member is to run with. Place has a node run it. It is comparable: a member runs with
// what is wanted if the guard reports the same.
type Configuration struct {
	datadir.Expectation
	PeerURL   string `json:"peerURL"`
	ClientURL string `json:"clientURL"`
	// Version is that of etcd.
	Version string `json:"version"`
	// Peers is the initial cluster, as "name=URL,name=URL". It is empty for a member that has data, for which etcd does
	// not read it.
	Peers string `json:"peers,omitempty"`
	// Others are the peer URLs of all other members, as "URL,URL", for a member that is forced. The guard does not force
	// it if one of them accepts a connection.
	Others string `json:"others,omitempty"`
	// Revision is a fingerprint of all other settings, those of the pod included, such as its resources.
	Revision string `json:"revision,omitempty"`
}

// Template is what the annotations of a DaemonSet's template say. A pod has those of the template of which it was
// made.
type Template struct{ Member, Version, Revision string }

// Template is the one of the member's DaemonSet.
func (c Configuration) Template() Template { return Template{c.Name, c.Version, c.Revision} }

// known reports whether the annotations can be read.
func (t Template) known() bool { return versions.Equal(t.Version, t.Version) }

func (t Template) equal(o Template) bool {
	return versions.Equal(t.Version, o.Version) && t.Member == o.Member && t.Revision == o.Revision
}

// Refusal is why the guard has not started etcd.
type Refusal string

// The refusals. Lost, Found and Older are those of package datadir. Alive is for a member that is to be forced while
// another one runs, Failed for all other errors.
const (
	Lost   Refusal = "Lost"
	Found  Refusal = "Found"
	Older  Refusal = "Older"
	Alive  Refusal = "Alive"
	Failed Refusal = "Failed"
)

// Pod is one that runs a member, or tries to.
type Pod struct {
	UID string
	// Template is what the pod's annotations say. It is the zero value if they cannot be read, and then nothing is
	// concluded from it.
	Template
	// Configuration is what the guard's init container has reported; nil before that. Each start of etcd in this pod uses
	// it, whatever the ConfigMap has by then.
	Configuration *Configuration
	// Ready is the kubelet's word: /readyz of etcd has passed, so that the member votes and has a quorum.
	Ready bool
	// Terminating is true once the pod is deleted.
	Terminating bool
	// Refusal is why the guard did not start etcd when it was asked last. It is "" while etcd's container runs, and after
	// an end of etcd itself: what an earlier container was refused for says nothing about a later one.
	Refusal Refusal
	// Message is what the guard has said about that.
	Message string
	// Log is where the member's log ended when the guard looked last; nil if it has not. The log may have grown since.
	Log *datadir.Log
	// Disk is what the guard has found in the data directory when it looked last; nil if it has not.
	Disk *datadir.Found
}

// Site is what Kubernetes has on one node.
type Site struct {
	// UID is that of the Node object.
	UID string
	// Configuration is what the node's key of the ConfigMap says; nil if there is none. Template is that of the DaemonSet
	// for the node; nil if there is none. Label is the value of the node's label; "" for none.
	Configuration *Configuration
	Template      *Template
	Label         string
	// Edited is true if the DaemonSet is not as it would be written now, although its template's annotations are:
	// somebody has changed it, or the operator has another image. Its pods are made of it all the same.
	Edited bool
	// Used is the member that was placed on the node last; "" if none ever was. Place labels the Node object with it, and
	// Unplace leaves that.
	Used string
	// Down is true if the kubelet does not report: what is known of Pod is old then, and a deleted pod stays. Gone is
	// true if there is no Node object.
	Down, Gone bool
	// Maintained is true while somebody has announced that the node may be down.
	Maintained bool
	Pod        *Pod
	// Data is what the node's data directory has, by datadir.Look; nil if nobody has looked. A seed needs it of each
	// node. While there is no member, it is looked at again every few minutes.
	Data *datadir.Found
	// Taken is what a pod on the node has reported of a snapshot last; nil if none has.
	Taken *Taken
}

// Spot is where a member is placed, with the preconditions of that.
type Spot struct {
	// Node is the node's name, UID that of the Node object; "" if there is none.
	Node, UID string
	// ConfigVersion is the resource version of the ConfigMap.
	ConfigVersion string
}

// Empty reports whether nothing is written for the node.
func (s Site) Empty() bool { return s.Configuration == nil && s.Template == nil && s.Label == "" }

// Has reports whether all is written that has the node run a configuration.
func (s Site) Has(c Configuration) bool {
	return s.Configuration != nil && *s.Configuration == c && s.Template != nil && *s.Template == c.Template() &&
		s.Label == c.Name
}

// Silent reports whether no kubelet reports on the node.
func (s Site) Silent() bool { return s.Down || s.Gone }

// Live is the pod if the kubelet reports on it and it is to stay; nil otherwise.
func (s Site) Live() *Pod {
	if s.Pod == nil || s.Silent() || s.Pod.Terminating {
		return nil
	}
	return s.Pod
}

// Reported is what the guard has reported of the pod, if that is about this member; nil otherwise.
func (s Site) Reported(name string) *Configuration {
	if p := s.Live(); p != nil && p.Configuration != nil && p.Configuration.Name == name {
		return p.Configuration
	}
	return nil
}

// Refused is why the guard has not started this member; "" if it has, or if that is not known.
func (s Site) Refused(name string) Refusal {
	if s.Reported(name) == nil {
		return ""
	}
	return s.Pod.Refusal
}

// Disk is what the node's data directory had when somebody looked last; nil if nobody has.
func (s Site) Disk() *datadir.Found {
	if p := s.Live(); p != nil && p.Disk != nil {
		return p.Disk
	}
	return s.Data
}

// Current reports whether the pod is known to run with what the node has for it.
func (s Site) Current() bool {
	p, c := s.Live(), s.Configuration
	return p != nil && c != nil && p.Configuration != nil && *p.Configuration == *c && p.Template.equal(c.Template())
}

// Stale reports whether the pod is known to run, or to be about to run, with something else.
func (s Site) Stale() bool {
	p, c := s.Live(), s.Configuration
	return p != nil && c != nil && (p.Template.known() && !p.Template.equal(c.Template()) ||
		p.Configuration != nil && *p.Configuration != *c)
}

// Recovery is a human's choice after the quorum is lost for good.
type Recovery struct {
	// ID is that of the answer. Each is carried out once, and never once there is a quorum.
	ID string
	// Force names the member from whose data a new cluster is made. All others are forgotten, and their data is set aside
	// when they join again. One that names no member with data is ignored.
	Force string
}
