package drbd

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// volume has a quorum, with a tie-breaker on n03; plain has none.
const volume, plain = "pvc-1", "pvc-2"

// createVolume creates a volume with a replica on each of the nodes, and waits until all are up to date. With the
// property quorum at majority, LINSTOR adds a tie-breaker on the third node.
func (l *lab) createVolume(name string, props map[string]string, nodes ...string) {
	l.T.Helper()
	l.send(http.MethodPost, "/v1/resource-definitions", map[string]any{
		"resource_definition": map[string]any{"name": name, "props": props}})
	l.send(http.MethodPost, "/v1/resource-definitions/"+name+"/volume-definitions", map[string]any{
		"volume_definition": map[string]any{"size_kib": volumeMiB << 10}})
	var resources []any
	for _, n := range nodes {
		resources = append(resources, map[string]any{"resource": map[string]any{"name": name, "node_name": n,
			"props": map[string]string{"StorPoolName": pool}}})
	}
	l.send(http.MethodPost, "/v1/resource-definitions/"+name+"/resources", resources)
	l.until(name+" is up to date and connected", func(v *linstor.View) error { return settled(v, name) })
}

// volumeMiB is the size of each volume.
const volumeMiB = 64

// settled checks that all of a volume is well.
func settled(v *linstor.View, volume string) error {
	var errs []error
	n := 0
	for i := range v.Resources {
		r := &v.Resources[i]
		if r.Name != volume {
			continue
		}
		n++
		if r.Diskful && !r.UpToDate() || r.Unusable() || len(r.Connected) == 0 {
			errs = append(errs, fmt.Errorf("%s: %v", r.Node, r.States))
		}
		for peer, up := range r.Connected {
			if !up {
				errs = append(errs, fmt.Errorf("%s is not connected to %s", r.Node, peer))
			}
		}
	}
	if n < 2 {
		errs = append(errs, fmt.Errorf("%d resources", n))
	}
	return errors.Join(errs...)
}

// until waits until LINSTOR shows something.
func (l *lab) until(what string, check func(*linstor.View) error) {
	l.T.Helper()
	l.Eventually(what, func() error {
		v, err := l.view()
		if err != nil {
			return err
		}
		return check(v)
	})
}

// shows waits until LINSTOR's view of a volume is the text that seen gives.
func (l *lab) shows(volume string, want ...string) {
	l.T.Helper()
	l.until("LINSTOR shows "+strings.Join(want, ", "), func(v *linstor.View) error {
		if got := seen(v, volume); !matches(got, want) {
			return errors.New(seenText(v, volume))
		}
		return nil
	})
}

func matches(got, want []string) bool {
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w) {
			return false
		}
	}
	return len(got) == len(want)
}

// use opens a volume's device on a node, as a mounted file system has it open, and release closes it.
func (l *lab) use(volume, node string) {
	l.T.Helper()
	l.run(node, `dev=$(drbdadm sh-dev `+volume+`) || exit
setsid sh -c "exec 9<>$dev && echo open >/run/`+volume+`.open && exec sleep 100000" >/dev/null 2>&1 </dev/null &
echo $! >/run/`+volume+`.pid
for i in $(seq 50); do [ -e /run/`+volume+`.open ] && exit 0; sleep 0.1; done
echo "$dev does not open"; exit 1`)
}

func (l *lab) release(volume, node string) {
	l.T.Helper()
	l.run(node, `kill $(cat /run/`+volume+`.pid); rm -f /run/`+volume+`.open /run/`+volume+`.pid`)
}

// write writes random data to the first MiB of a volume, past every cache.
func (l *lab) write(volume, node string, mib int) {
	l.T.Helper()
	l.run(node, fmt.Sprintf(`dd if=/dev/urandom of=$(drbdadm sh-dev %s) bs=1M count=%d oflag=direct conv=notrunc`,
		volume, mib))
}

// link cuts the link between n01 and another node, or repairs it.
func (l *lab) link(to string, up bool) {
	l.T.Helper()
	l.must(l.guest("n01").SetLink(l.guest(to), up))
}

// stopSatellite kills LINSTOR's satellite on a node. DRBD keeps running.
func (l *lab) stopSatellite(node string) {
	l.T.Helper()
	l.run(node, "kill -9 $(cat /run/satellite.pid)")
}

// setProperty sets a property of a volume in LINSTOR; with the value "" it deletes it.
func (l *lab) setProperty(volume, key, value string) {
	l.T.Helper()
	l.send(http.MethodPut, "/v1/resource-definitions/"+volume, change(key, value))
}

func change(key, value string) map[string]any {
	if value == "" {
		return map[string]any{"delete_props": []string{key}}
	}
	return map[string]any{"override_props": map[string]string{key: value}}
}

// lv is the device-mapper name of a replica's logical volume, below DRBD.
func lv(volume string) string { return "vg-" + strings.ReplaceAll(volume, "-", "--") + "_00000" }

// failDisk makes each access to a replica's disk an I/O error. repairDisk ends that.
func (l *lab) failDisk(volume, node string) {
	l.T.Helper()
	l.run(node, fmt.Sprintf(`dmsetup table %[1]s >/run/%[1]s.table && dmsetup suspend --noflush --nolockfs %[1]s &&
dmsetup load %[1]s --table "0 $(cut -d' ' -f2 /run/%[1]s.table) error" && dmsetup resume %[1]s`, lv(volume)))
}

func (l *lab) repairDisk(volume, node string) {
	l.T.Helper()
	l.run(node, fmt.Sprintf(`dmsetup suspend --noflush --nolockfs %[1]s && dmsetup load %[1]s /run/%[1]s.table &&
dmsetup resume %[1]s`, lv(volume)))
}

// record lets package iocheck write records to pvc-1, and say on the console which are safe: what a guest has said
// there outlives it.
func (l *lab) record(node string) {
	l.T.Helper()
	l.run(node, fmt.Sprintf(`dev=$(drbdadm sh-dev %s) && iocheck clear $dev %[2]s || exit
setsid iocheck write $dev %[2]s >/dev/ttyS0 2>&1 </dev/null &
echo $! >/run/iocheck.pid`, volume, records))
	l.Eventually(fmt.Sprint(node, " writes records"), func() error {
		if n := l.safe(node); n < 100 {
			return fmt.Errorf("%d are safe", n)
		}
		return nil
	})
}

// records are the ID and the number of blocks that records are written with.
const records = "00112233445566778899aabbccddeeff 256"

// safeLine is a whole line: the last one may have been cut off with the power.
var safeLine = regexp.MustCompile(`(?m)^safe (\d+)\r?\n`)

// safe is the last record that a node has said to be safe.
func (l *lab) safe(node string) uint64 {
	all := safeLine.FindAllStringSubmatch(l.guest(node).Log(), -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(all[len(all)-1][1], 10, 64)
	l.must(err)
	return n
}

// checkRecords checks on a node that pvc-1 has all records up to one.
func (l *lab) checkRecords(node string, safe uint64) {
	l.T.Helper()
	out := l.run(node, fmt.Sprintf("iocheck check $(drbdadm sh-dev %s) %s %d", volume, records, safe))
	l.T.Logf("%s on %s: %d records were safe; %s", volume, node, safe, strings.TrimSpace(out))
}
