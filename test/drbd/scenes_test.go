package drbd

import (
	"errors"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// slowly is the property that limits how fast DRBD resynchronizes, in KiB/s.
const slowly = "DrbdOptions/PeerDevice/c-max-rate"

// scenes are in the order in which they are gone through. While they last, pvc-1 is in use on n01.
func scenes() []scene {
	return []scene{
		{name: "healthy, in use",
			make: func(l *lab) {
				l.use(volume, "n01")
				l.shows(volume, "n01 in use UpToDate 1010", "n02 UpToDate 1010", "n03 ")
			},
			want: []string{"health: Healthy: pvc-1 has 2 of 2 replicas", "health: Healthy: pvc-2 has 2 of 2 replicas",
				"drain n01: allowed", "drain n02: allowed", "drain n03: allowed",
				"evacuate n01: evacuate: ", "evacuate n02: evacuate: "},
		},
		{name: "resync",
			make: func(l *lab) {
				l.setProperty(volume, slowly, "500")
				l.run("n02", "drbdadm disconnect "+volume)
				l.write(volume, "n01", 48)
				l.run("n02", "drbdadm connect "+volume)
				l.until("n02 is a target", func(v *linstor.View) error { return resyncing(v, volume, "n02") })
			},
			want: []string{"health: Resyncing: pvc-1 has 1 of 2 replicas",
				"drain n01: refused: it has the last healthy replica of 1 volume: pvc-1", "drain n02: allowed",
				"drain n03: refused: n03 holds a replica of volume pvc-1, whose replica on n02 is not UpToDate"},
			end: func(l *lab) { l.setProperty(volume, slowly, "") },
		},
		{name: "link cut, quorum kept",
			make: func(l *lab) {
				l.part()
				l.shows(volume, "n01 in use UpToDate 10101 n02:down n03:up", "n02 Outdated ", "n03 ")
			},
			want: []string{"health: Degraded: pvc-1 has 1 of 2 replicas",
				"drain n01: refused: it has the last healthy replica of 2 volumes: pvc-1, pvc-2",
				"drain n02: refused: it has the last healthy replica of 1 volume: pvc-2"},
			end: func(l *lab) { l.link("n02", true) },
		},
		{name: "quorum lost, I/O suspended",
			make: func(l *lab) {
				l.link("n03", false)
				l.part()
				l.shows(volume, "n01 in use UpToDate 0 n02:down n03:down", "n02 UpToDate 10101 n01:down n03:up", "n03 ")
			},
			want: []string{"health: Unavailable: pvc-1 has 1 of 2 replicas (DRBD blocks its I/O on n01; n01 and n02 are not",
				"drain n01: refused: it has the last healthy replica of 2 volumes: pvc-1, pvc-2; the replica of pvc-1 on n02",
				"drain n02: refused: it has the last healthy replica of 2 volumes: pvc-1, pvc-2; the replica of pvc-1 on n01",
				"evacuate n01: stops (LastReplicaAtRisk)", "evacuate n02: stops (LastReplicaAtRisk)"},
			next: true,
		},
		{name: "another node was promoted",
			make: func(l *lab) {
				l.use(volume, "n02")
				l.write(volume, "n02", 4)
				l.shows(volume, "n01 in use UpToDate 0 n02:down n03:down", "n02 in use UpToDate 10101 n01:down n03:up",
					"n03 ")
			},
			want: []string{"health: Degraded: pvc-1 has 1 of 2 replicas (DRBD blocks its I/O on n01; n01 and n02 are not",
				"drain n01: refused: ", "drain n02: refused: it has the last healthy replica of 2 volumes: pvc-1, pvc-2",
				"evacuate n02: stops (LastReplicaAtRisk)"},
			end: func(l *lab) {
				l.link("n02", true)
				l.link("n03", true)
				l.release(volume, "n01") // until then, DRBD keeps it from the data of n02
				l.release(volume, "n02")
			},
		},
		{name: "both in use while disconnected",
			make: func(l *lab) {
				l.part()
				for _, n := range []string{"n01", "n02"} {
					l.use(plain, n)
					l.write(plain, n, 4)
				}
				l.shows(plain, "n01 in use UpToDate 10101 n02:down", "n02 in use UpToDate 10101 n01:down")
			},
			want: []string{"health: Degraded: pvc-2 has 1 of 2 replicas (n01 and n02 are not connected)",
				"drain n01: refused: ", "drain n02: refused: ", "evacuate n01: stops (LastReplicaAtRisk)",
				"evacuate n02: stops (LastReplicaAtRisk)"},
			next: true,
		},
		{name: "split brain",
			make: func(l *lab) {
				l.link("n02", true)
				l.shows(plain, "n01 in use UpToDate 10101 n02:StandAlone", "n02 in use UpToDate 10101 n01:StandAlone")
			},
			want: []string{"health: Degraded: pvc-2 has 1 of 2 replicas (n01 and n02 refuse to connect (StandAlone): their",
				"drain n01: refused: ", "drain n02: refused: ", "evacuate n01: stops (LastReplicaAtRisk)",
				"evacuate n02: stops (LastReplicaAtRisk)"},
			end: func(l *lab) { // as docs/troubleshooting.md says
				l.release(plain, "n01")
				l.release(plain, "n02")
				l.run("n02", "drbdadm disconnect "+plain+"; drbdadm connect --discard-my-data "+plain)
				l.run("n01", "drbdadm disconnect "+plain+"; drbdadm connect "+plain)
			},
		},
		{name: "failed disk",
			make: func(l *lab) {
				l.use(volume, "n01")
				l.failDisk(volume, "n02")
				l.write(volume, "n01", 4)
				l.until("n02 is Diskless", func(v *linstor.View) error { return failed(v, volume, "n02") })
			},
			want: []string{"health: Degraded: pvc-1 has 1 of 2 replicas (the disk on n02 failed)",
				"drain n01: refused: it has the last healthy replica of 1 volume: pvc-1", "drain n02: allowed",
				"evacuate n02: evacuate: "},
			end: func(l *lab) {
				l.repairDisk(volume, "n02")
				l.run("n02", "drbdadm attach "+volume)
			},
		},
		{name: "disk repaired, SkipDisk stays",
			want: []string{"health: Healthy: pvc-1 has 2 of 2 replicas, SkipDisk on n02", "drain n01: allowed"},
			next: true,
		},
		{name: "SkipDisk stays, node restarted",
			make: func(l *lab) {
				l.guest("n02").PowerOff()
				l.powerOn("n02")
				l.online("n02")
				l.until("n02 is Diskless", func(v *linstor.View) error { return failed(v, volume, "n02") })
			},
			want: []string{"health: Degraded: pvc-1 has 1 of 2 replicas (the disk on n02 failed)",
				"drain n01: refused: it has the last healthy replica of 1 volume: pvc-1"},
			end: func(l *lab) { // as docs/troubleshooting.md says
				l.send("PUT", "/v1/resource-definitions/"+volume+"/resources/n02", change(linstor.PropSkipDisk, ""))
			},
		},
		{name: "dead satellite",
			make: func(l *lab) {
				l.stopSatellite("n02")
				l.until("n02 is OFFLINE", func(v *linstor.View) error { return offline(v, "n02") })
			},
			want: []string{"health: Healthy: pvc-1 has 2 of 2 replicas", "drain n01: refused: node n02 is down",
				"evacuate n02: stuck: "},
			end: func(l *lab) {
				l.startSatellite("n02")
				l.online("n02")
			},
		},
		{name: "power cut",
			make: func(l *lab) {
				l.guest("n02").PowerOff()
				l.shows(volume, "n01 in use UpToDate 10101 n02:down n03:up", "n02 ", "n03 ")
				l.shows(plain, "n01 UpToDate 10101 n02:down", "n02 ")
				l.until("n02 is OFFLINE", func(v *linstor.View) error { return offline(v, "n02") })
			},
			off: []string{"n02"},
			want: []string{"health: Degraded: pvc-1 has 1 of 2 replicas", "health: Degraded: pvc-2 has 1 of 2 replicas",
				"drain n01: refused: node n02 is down", "drain n02: allowed"},
			end: func(l *lab) {
				l.powerOn("n02")
				l.online("n02")
				l.release(volume, "n01")
			},
		},
	}
}

// part cuts the link between the nodes with replicas, and waits until DRBD has noticed it, which takes ten seconds.
func (l *lab) part() {
	l.T.Helper()
	l.link("n02", false)
	l.shows(plain, "n01 UpToDate 10101 n02:down", "n02 UpToDate 10101 n01:down")
}

func offline(v *linstor.View, node string) error {
	if v.Node(node).Online() {
		return errors.New("it is ONLINE")
	}
	return nil
}

func of(v *linstor.View, volume, node string) *linstor.Resource {
	for i := range v.Resources {
		if v.Resources[i].Name == volume && v.Resources[i].Node == node {
			return &v.Resources[i]
		}
	}
	return &linstor.Resource{}
}

func resyncing(v *linstor.View, volume, node string) error {
	r := of(v, volume, node)
	if up, _ := r.ConnectedTo("n01"); !up || r.UpToDate() {
		return errors.New(seenText(v, volume))
	}
	return nil
}

func failed(v *linstor.View, volume, node string) error {
	if r := of(v, volume, node); !r.SkipsDisk || r.UpToDate() {
		return errors.New(seenText(v, volume))
	}
	return nil
}
