package connection

import "strings"

// Contents are what a look finds in a database, as far as they say whose data it is.
type Contents struct {
	// Nodes are the names of LINSTOR's nodes as the users wrote them, or the database's keys where a name cannot be read:
	// the first ten in alphabetical order.
	Nodes []string
	// LocalID is LINSTOR's identity (linstor.PropLocalID). LINSTOR's program makes one while it makes its tables: an
	// import that ended before the first row has left one that is nobody's. "" in etcd, and where there is none yet.
	LocalID string
	// Epoch is the operator's number of the data (linstor.PropEpoch); "" in etcd, and where there is none.
	Epoch string
}

// String says whose data it is, for a message.
func (c *Contents) String() string {
	var words []string
	if c.LocalID != "" {
		words = append(words, "Cluster/LocalID "+c.LocalID)
	}
	if len(c.Nodes) > 0 {
		words = append(words, "nodes "+strings.Join(c.Nodes, ", "))
	}
	return strings.Join(words, ", ")
}
