// Package advice is what a human is told about an etcd cluster: what is wrong and where, and what can be done. A plan
// names each answer that a human may give, and each act that the operator waits for.
package advice

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/view"
)

// Advice says what is wrong, and what a human can do.
type Advice struct{ Message, Plan string }

// answer is an option of the hold: a human answers with one of them.
func answer(option string) string { return "`" + option + "`" }

func list(of []string) string { return cmp.Or(strings.Join(of, "; "), "none") }

// Label names a member.
func Label(seat seats.Seat) string {
	return cmp.Or(seat.Name, "a member") + " on node " + seat.Node
}

// OtherCluster is about members of different clusters, or of another one than is noted; 0 if none is.
func OtherCluster(noted view.ID, found []string) Advice {
	message := "members of different etcd clusters are responding: " + list(found)
	if noted != 0 {
		message = fmt.Sprintf("members of an etcd cluster other than the recorded one (%s) are responding: "+
			"%s", noted, list(found))
	}
	return Advice{message,
		"Determine which cluster contains LINSTOR's data, and stop the members of the other one. Until then, the " +
			"operator changes nothing, and clients keep their endpoints. If only one cluster responds, and the operator's " +
			"records were lost or restored from an older copy, resume with " + answer("adopt")}
}

// TwoClusters is about two clusters that were one.
func TwoClusters(found []string) Advice {
	return Advice{"two etcd clusters are serving: " + list(found),
		"Determine which cluster contains LINSTOR's latest data, and stop the members of the other one. Until then, the " +
			"operator changes nothing"}
}

// Corrupt is about members whose contents differ.
func Corrupt(names []string) Advice {
	return Advice{"the CORRUPT alarm is active for " + list(names) + ": the members' contents differ",
		"Copy each member's data directory. Compare the members' contents with `etcdctl endpoint hashkv`. Remove the " +
			"member that differs with `etcdctl member remove`, resume with " + answer("forsake@<member>") +
			", then run `etcdctl alarm disarm`. The operator never disarms this alarm"}
}

// Unreachable is no reason to touch a member: the kubelets say that they serve.
func Unreachable(ready []string) Advice {
	return Advice{"the operator cannot reach etcd, but the kubelets report these members as ready: " + list(ready),
		"Check the network between the operator's node and the members' client ports, the network policies, and the " +
			"operator's certificates. If a node's address has changed, delete the member's pod. The operator does not " +
			"restart any member until it can reach one"}
}

// RestartFailed is about a member whose new pods have old things.
func RestartFailed(seat seats.Seat) Advice {
	return Advice{fmt.Sprintf("%d pods of member %s were deleted, but their replacements are still not running the "+
		"required etcd version %s and revision %q", seat.Restarts.Tries, Label(seat), seat.Version, seat.Revision),
		fmt.Sprintf("Check whether the kubelet updates the ConfigMap mounted in the pod, and whether the DaemonSet "+
			"`linstor-etcd-%s` uses the required image. Then resume with %s", seat.Name, answer("retry"))}
}

// TLSChanged is about a cluster that has begun otherwise.
func TLSChanged() Advice {
	return Advice{"TLS was enabled or disabled for etcd, but this etcd cluster was created with the opposite setting",
		"Revert this change. Until then, the operator changes nothing"}
}

// NotRisen is about an upgrade that waits for the one before it.
func NotRisen(minor string) Advice {
	return Advice{"the etcd upgrade to " + minor + " has not started: the storage version of some databases does not " +
		"match the minor release that their members are running",
		"Check the leader's log to see how it determines the cluster version. The upgrade continues automatically once " +
			"the storage versions match"}
}

// Refused is about a version that cannot run.
func Refused(version string, err error) Advice {
	return Advice{fmt.Sprintf("etcd %s cannot be used: %v", version, err),
		"Set a different version in spec.database.managedEtcd.version"}
}

// WrongVersion is about an image that is another one than it is said to be.
func WrongVersion(seat seats.Seat, wanted, runs string) Advice {
	return Advice{fmt.Sprintf("the image of member %s should contain etcd %s, but the member is running etcd %s",
		Label(seat), wanted, runs),
		"Correct the image that is configured for that version, then delete the member's pod: the DaemonSet recreates it"}
}

// NotWritten is about a DaemonSet that something changes back, or that the API server does not take.
func NotWritten(seat seats.Seat) Advice {
	return Advice{fmt.Sprintf("the DaemonSet of member %s still differs from what the operator writes, and the member's "+
		"pods are created from it", Label(seat)),
		"Determine what changes the DaemonSet or rejects the operator's changes, for example a webhook or a policy. Then " +
			"resume with " +
			answer("retry")}
}

// NoNode is about a member for which there is no node; why says of each that is wanted why it is not used.
func NoNode(size int, why []string) Advice {
	return Advice{fmt.Sprintf("%d etcd members are required, but no node is available for another member. Nodes without "+
		"a member: %s", size, list(why)),
		"Add a node, or make an existing one ready. Alternatively, remove whatever prevents a node from hosting a member, " +
			"for example foreign data in its data directory, and resume with " + answer("retry")}
}

// NotesLost is about traces of a cluster that is not noted.
func NotesLost(remains []string) Advice {
	return Advice{"the operator has no records of etcd members, and does not create a new etcd cluster while traces of " +
		"a previous one exist: " + list(remains),
		"If the records were lost and a majority of the members are running, resume with " + answer("adopt") +
			": the operator rebuilds its records from the nodes. Otherwise, restore the records (ConfigMaps " +
			"linstor-etcd-notes and linstor-etcd). If you have no backup of them, copy the data directories first: one " +
			"member's data is enough to start a cluster by hand (docs/how-to/managed-etcd.md). If you do not need the data, " +
			"delete the DaemonSets `linstor-etcd-*` and the nodes' keys in ConfigMap linstor-etcd, remove the " +
			"`storage.linstor.dev/etcd` label from these nodes, and move the data directories away. If a node cannot be " +
			"surveyed, power it on, or remove its `storage.linstor.dev/etcd-used` label if it has no data"}
}

// Changed is about members that others have changed.
func Changed(found []string) Advice {
	return Advice{"etcd members were changed, but not by the operator: " + list(found),
		"If the operator's records were restored from an older copy, resume with " + answer("adopt") + " while a majority " +
			"of the members are running: the operator rebuilds its records from the nodes and the quorum. Otherwise, if a " +
			"member was added, remove it with `etcdctl member remove`, and delete its DaemonSet `linstor-etcd-<member>` if " +
			"it exists. If a member was removed on purpose, resume with " + answer("forsake@<member>") +
			": the operator removes its DaemonSet and its configuration, and adds another member"}
}

// NoSpace is about a full database.
func NoSpace(sizes []string) Advice {
	return Advice{"the etcd database is full, and LINSTOR cannot write to it: " + list(sizes),
		"Recover any member that does not respond. If LINSTOR's data does not fit, move it to another database. The " +
			"operator compacts and defragments the database once a day; to do this now, resume with " + answer("retry")}
}

// Unfinished is about a member of which it is not known what it runs with.
func Unfinished(seat seats.Seat) Advice {
	return Advice{fmt.Sprintf("it is unknown whether member %s is running with the required configuration, and the "+
		"member cannot be restarted now", Label(seat)),
		"Check the annotations of its pod, and the kubelet on its node. If the kubelet is running, delete the pod: the " +
			"DaemonSet recreates it"}
}
