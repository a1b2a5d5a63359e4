package leaving

import (
	"fmt"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// etcdMember is the member of the operator's etcd on the node; "" if there is none. Somebody who sees that a node is
// no longer listed switches it off. Two such nodes at once would take the quorum of three members away. A node whose
// Node object is gone has lost its member's pod already.
func (c *situation) etcdMember() string {
	if c.Member == nil {
		return ""
	}
	return c.s.Etcd.On(c.Name, c.Member.Node.Labels[pods.Label])
}

func (c *situation) hasEtcd() bool { return c.etcdMember() != "" }

// etcdMessage says that a member of etcd is moved away first, and what that waits for: where no other node can have
// it, that is a hold.
func etcdMessage(c *situation) string {
	k := c.s.Etcd
	message := fmt.Sprintf("keep it running until etcd member %s has been moved to another node", c.etcdMember())
	if k.Err == nil && k.Decision.Hold != nil {
		message += fmt.Sprintf(" (see hold %s)", k.Decision.Hold.Reason)
	}
	return text.Sentence(message + ": " + k.Message())
}
