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
	message := "Members of different clusters answer: " + list(found) + "."
	if noted != 0 {
		message = fmt.Sprintf("Members of another cluster than %s, which is noted, answer: %s.", noted, list(found))
	}
	return Advice{message,
		"Find out which cluster has LINSTOR's data, and stop the etcd of the other one. The operator changes nothing " +
			"before that, and clients keep their endpoints. If only one cluster answers, and the operator's notes were lost " +
			"or restored from an old copy, answer " + answer("adopt") + "."}
}

// TwoClusters is about two clusters that were one.
func TwoClusters(found []string) Advice {
	return Advice{"Two clusters serve: " + list(found) + ".",
		"Find out which cluster has LINSTOR's latest data, and stop the etcd of the other one. The operator changes " +
			"nothing before that."}
}

// Corrupt is about members whose contents differ.
func Corrupt(names []string) Advice {
	return Advice{"The alarm CORRUPT is armed for " + list(names) + ": the contents of members differ.",
		"Copy the data directory of each member. Compare their contents with `etcdctl endpoint hashkv`. Remove the " +
			"member that differs with `etcdctl member remove`, answer " + answer("forsake@<member>") +
			", and then `etcdctl alarm disarm`. The operator never disarms this alarm."}
}

// Unreachable is no reason to touch a member: the kubelets say that they serve.
func Unreachable(ready []string) Advice {
	return Advice{"The operator does not reach etcd, but the kubelet reports these members ready: " + list(ready) + ".",
		"Look at the network between the operator's node and the members' client ports, at network policies, and at the " +
			"certificates of the operator. If a node has got another address, delete the member's pod. The operator restarts " +
			"no member before it reaches one."}
}

// RestartFailed is about a member whose new pods have old things.
func RestartFailed(seat seats.Seat) Advice {
	return Advice{fmt.Sprintf("%d pods of member %s were deleted, and the new ones still do not run with what is "+
		"wanted: etcd %s, revision %q.", seat.Restarts.Tries, Label(seat), seat.Version, seat.Revision),
		fmt.Sprintf("Look whether the kubelet updates the pod's ConfigMap and whether the DaemonSet `linstor-etcd-%s` has "+
			"the wanted image. Then answer %s.", seat.Name, answer("retry"))}
}

// TLSChanged is about a cluster that has begun otherwise.
func TLSChanged() Advice {
	return Advice{"TLS was switched on or off for etcd, but this etcd cluster has begun otherwise.",
		"Change that back. The operator changes nothing before that."}
}

// NotRisen is about an upgrade that waits for the one before it.
func NotRisen(minor string) Advice {
	return Advice{"Databases of etcd members have not risen to the minor release that the members run, so that the " +
		"upgrade to " + minor + " does not begin.",
		"Look at the log of the leader, at how it decides on the cluster's version. The upgrade goes on by itself when " +
			"the databases have risen."}
}

// Refused is about a version that cannot run.
func Refused(version string, err error) Advice {
	return Advice{fmt.Sprintf("etcd %s cannot run: %v.", version, err),
		"Set another version in spec.database.managedEtcd.version."}
}

// WrongVersion is about an image that is another one than it is said to be.
func WrongVersion(seat seats.Seat, wanted, runs string) Advice {
	return Advice{fmt.Sprintf("The image of member %s is said to have etcd %s, but the member runs etcd %s.", Label(seat),
		wanted, runs), "Correct the image of that version, and then delete the member's pod: the DaemonSet makes " +
		"another one."}
}

// NotWritten is about a DaemonSet that something changes back, or that the API server does not take.
func NotWritten(seat seats.Seat) Advice {
	return Advice{fmt.Sprintf("The DaemonSet of member %s is not as the operator writes it, and its pods are made of it.",
		Label(seat)), "Find out who changes it, or why it is refused, such as a webhook or a policy. Then answer " +
		answer("retry") + "."}
}

// NoNode is about a member for which there is no node; why says of each that is wanted why it is not used.
func NoNode(size int, why []string) Advice {
	return Advice{fmt.Sprintf("%d members of etcd are wanted, and there is no node for another one. Nodes that have "+
		"none: %s.", size, list(why)),
		"Add a node or make one ready. Or remove what keeps a member from a node, such as foreign data in its data " +
			"directory, and answer " + answer("retry") + "."}
}

// NotesLost is about traces of a cluster that is not noted.
func NotesLost(remains []string) Advice {
	return Advice{"The operator has no notes about etcd, and does not begin a cluster beside a former one: " +
		list(remains) + ".",
		"If the notes are lost and a majority of the members runs, answer " + answer("adopt") + ": the notes are made " +
			"anew of what the nodes have. If they do not run, put the notes back (ConfigMaps linstor-etcd-notes and " +
			"linstor-etcd). If there is no copy of them, copy the data directories before anything else: one member's data " +
			"is enough to begin with by hand (docs/how-to/managed-etcd.md). If the data is not needed, delete the " +
			"DaemonSets `linstor-etcd-*` and the nodes' keys in the ConfigMap, remove the label `storage.linstor.dev/etcd` " +
			"from these nodes and move the data directories away. Switch a node on that cannot be looked into, or remove " +
			"its label `storage.linstor.dev/etcd-used` if it has no data."}
}

// Changed is about members that others have changed.
func Changed(found []string) Advice {
	return Advice{"Members of etcd were changed, and not by the operator: " + list(found) + ".",
		"Were the operator's notes restored from an old copy? Then answer " + answer("adopt") + " while a majority of the " +
			"members runs: the notes are made anew of what the nodes and the quorum have. If not, remove a member that was " +
			"added with `etcdctl member remove`, and delete its DaemonSet `linstor-etcd-<member>` if there is " +
			"one. If one was removed on purpose, answer " + answer("forsake@<member>") +
			": its node is cleared, and another member is added."}
}

// NoSpace is about a full database.
func NoSpace(sizes []string) Advice {
	return Advice{"etcd's database is full, and LINSTOR cannot write: " + list(sizes) + ".",
		"Bring back a member that does not answer. Move LINSTOR's data into another database if it does not fit. The " +
			"operator compacts and defragments once a day; to have it do so now, answer " + answer("retry") + "."}
}

// Unfinished is about a member of which it is not known what it runs with.
func Unfinished(seat seats.Seat) Advice {
	return Advice{fmt.Sprintf("It is not known whether member %s runs with what is wanted, and it cannot be restarted "+
		"now.", Label(seat)),
		"Look at the annotations of its pod, and at the kubelet of its node. If the kubelet reports, delete the pod: the " +
			"DaemonSet makes another one."}
}
