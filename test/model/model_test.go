package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/linstor-dev/storagecluster-operator/test/chaosenv"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // what a run leaves behind is garbage as a whole
	os.Exit(m.Run())
}

// TestRandomSchedules runs schedules made from seeds, always the same few if nothing else is asked for. SEED repeats
// one; CHAOS=full goes on for minutes, from another seed each time, or for as long as MODEL_TIME says.
func TestRandomSchedules(t *testing.T) {
	most, limit := 25, 2*time.Minute
	if chaosenv.Full() {
		most, limit = 1<<30, 5*time.Minute
	}
	if text := os.Getenv("MODEL_TIME"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		most, limit = 1<<30, d
	}
	first, given := chaosenv.Seed(t)
	if given {
		most = 1
	}
	t.Logf("chaos: SEED=%d is the first schedule of this run", first)
	counts := map[string]int{}
	begin, done := time.Now(), 0
	for ; done < most && (done == 0 || time.Since(begin) < limit); done++ {
		seed := first + uint64(done)
		steps := generate(rand.New(rand.NewPCG(seed, seed)))
		faults := run(t, steps, counts)
		if len(faults) == 0 {
			continue
		}
		short := shorten(steps, func(s schedule) bool {
			again := run(t, s, nil)
			return len(again) > 0 && class(again[0]) == class(faults[0])
		})
		t.Errorf("SEED=%d fails: %s\nthe shortest schedule that fails: %s\nand how: %s", seed, faults[0], short,
			run(t, short, nil)[0])
		if !testing.Verbose() {
			break
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("chaos: %7d × %s", counts[kind], kind)
	}
	t.Logf("chaos: %d schedules in %s", done, time.Since(begin).Round(time.Millisecond))
}

// regressions are schedules that failed once.
var regressions = map[string]string{
	// The controller's Deployment was removed while its pod was being exchanged, and the pod of before stayed for ever.
	"a Deployment that goes in a roll": "join:0 create:2000 let-it-rest:0 memory:3598 watch:36 " +
		"kubelet:885 reconcile:156 clock:725 watches:389 watch:702 reconcile:825 watch:767 kubelet:920 " +
		"watches:798 watch:428 clock:902 task:325 reconcile:886 " +
		"watch:273 watch:523 watches:645 reconcile:585 daemonsets:848 watch:893 watch:8 daemonsets:401 reconcile:372 " +
		"lose:829 reboot:700 reconcile:294 clock:647 watch:579 deployments:724 watch:406",
	// The last satellite of a roll was ONLINE before the upgrade cut off all of them, and counted as down all the same.
	"an upgrade right after a roll": "join:0 join:0 join:0 join:0 create:2956 let-it-rest:0 pool:2 upgrade:0",
	// Every node left, and came back before it was gone.
	"all nodes leave and return": "join:0 create:16 let-it-rest:0 label:0 reconcile:0 watches:0 reconcile:0 clock:6 " +
		"label:0",
	// A node was taken out of LINSTOR while its satellite was restarted, and counted as down all the same.
	"a node that leaves during a roll": "join:0 join:0 join:0 join:0 create:2622 let-it-rest:0 daemonsets:112 clock:74 " +
		"watches:985 kubelet:594 linstor:1776 deployments:64 deployments:577 " +
		"watch:486 label:676 pool:3297 daemonsets:343 reconcile:114 deployments:895 upgrade:1349 task:176 clock:446 " +
		"reconcile:437 kubelet:535 label:2837 " +
		"watch:660 kubelet:540 watch:62 reconcile:65 clock:472 reboot:3276 deployments:866 watches:646 task:170 " +
		"deployments:313 reconcile:744 kubelet:904 " +
		"watches:662 watch:442 reconcile:477 task:623 task:707 kubelet:820 label:705 kubelet:309 kubelet:963 kubelet:929 " +
		"watch:534 kubelet:631 watch:379 " +
		"kubelet:129 watch:358 deployments:999 answer:466 watch:635 linstor:433 kubelet:888 task:978 volume:3392 " +
		"kubelet:87 clock:166 watch:270 kubelet:444 " +
		"deployments:472 watches:40 clock:229 kubelet:486 kubelet:374 kubelet:975 daemonsets:68 watches:80 watch:542 " +
		"watch:261 kubelet:251 watch:558 task:502 " +
		"task:652 reconcile:412 clock:794 kubelet:18 watches:470 suspend:3412 watch:93 kubelet:910 watches:981 " +
		"kubelet:478 watch:835 kubelet:771 task:966 " +
		"task:895 watches:105 kubelet:387 kubelet:67 watches:949 pool:3274 kubelet:429 watch:222 kubelet:751 watch:635 " +
		"kubelet:839 deployments:423 kubelet:41 " +
		"task:400 label:138 watches:476 reconcile:998 deployments:424 reconcile:956 watch:307 watch:876 reconcile:799 " +
		"kubelet:153 break:2615 watch:740 task:789 " +
		"kubelet:741 create:2330 deployments:948 clock:761 watches:77 watch:788 task:694 watch:9 watch:20 task:75 " +
		"pool:3681 kubelet:459 kubelet:404 kubelet:791 " +
		"watches:499 daemonsets:230 watch:519 watch:911 watch:733 kubelet:571",
	// The machine of a satellite that was being restarted was taken out of Kubernetes, and counted as down for ever.
	"a node that is deleted during a roll": "join:0 join:0 join:0 create:1439 let-it-rest:1882 pool:1434 watches:988 " +
		"reconcile:49 watches:185 reconcile:324 watch:178 watches:665 watch:605 " +
		"deployments:710 reconcile:399 kubelet:336 task:898 watch:432 watches:639 watch:230 deployments:387 reconcile:785 " +
		"kubelet:619 daemonsets:525 " +
		"reboot:1862 watches:292 clock:424 watch:345 task:593 reconcile:797 kubelet:549 unjoin:3146 reconcile:219 " +
		"watch:258 watches:117 watch:878 reconcile:933 " +
		"linstor:837",
	// A cluster was deleted before its controller ran, its claim kept, and made anew with an older version.
	"an older version on a claim that was kept": "join:0 create:946 watch:266 reconcile:105 watch:116 reconcile:720 " +
		"watches:462 reconcile:158 watch:739 reconcile:162 delete:2464 let-it-rest:1623 " +
		"create:2660",
	// A cluster was deleted with its nodes, and made anew with an older version on the database that it left.
	"an older version after policy Delete": "join:0 create:884 let-it-rest:1674 delete:1992 suspend:1946 suspend:1161 " +
		"let-it-rest:1623 create:1892",
	// The only node with the label was that of a machine that has another name now.
	"no label but that of a node that is over": "join:0 create:16 rename:0 label:1",
	// The claimed database was restored before the answer to adopt the other one came, which made it foreign; and nodes
	// that joined kept the cluster in KernelModule, where nobody was asked about that.
	"adopt after the database was restored": "join:0 join:0 join:0 join:0 create:88 let-it-rest:0 watch:890 watch:205 " +
		"kubelet:47 daemonsets:962 clock:422 watches:602 watch:80 " +
		"watch:447 reconcile:622 kubelet:163 reconcile:301 kubelet:822 kubelet:6 watches:596 kubelet:63 watches:146 " +
		"daemonsets:289 " +
		"kubelet:298 watch:858 watches:350 deployments:67 swap:895 clock:731 watch:389 deployments:718 task:294 " +
		"kubelet:326 reconcile:535 " +
		"task:259 watches:17 deployments:984 task:527 watch:46 kubelet:321 watch:407 deployments:89 kubelet:305 " +
		"create:3100 watch:726 " +
		"task:981 join:2177 task:53 watch:978 task:298 watch:647 clock:842 task:0 reconcile:780 daemonsets:774 watch:811 " +
		"kubelet:432 " +
		"task:647 watches:248 volume:124 kubelet:220 task:411 watch:206 task:863 kubelet:105 reconcile:835 rename:2287 " +
		"daemonsets:576 " +
		"task:125 kubelet:107 kubelet:550 task:875 label:2412 clock:456 watches:1 task:568",
	// A cluster was made anew without the passphrase that its database is encrypted with.
	"no passphrase on a database that was kept": "join:0 join:0 create:62 let-it-rest:0 task:983 kill:173 task:25 " +
		"kubelet:849 delete:1983 watch:404 kubelet:245 reconcile:895 watches:870 watch:315 " +
		"task:455 task:888 watch:601 reconcile:880 clock:654 kubelet:754 watches:100 clock:441 task:476 reconcile:612 " +
		"daemonsets:116 watches:975 kubelet:183 " +
		"watch:693 kubelet:67 kubelet:438 deployments:504 watch:972 reconcile:684 task:610 watches:90 kubelet:204 " +
		"watches:277 task:282 clock:413 " +
		"write-fault:3987 reconcile:423 kubelet:135 watch:666 watch:901 create:667",
}

// flows are schedules of what random ones come to too rarely in the part that is always run.
var flows = map[string]string{
	"another database, and ours again": "join:0 join:0 join:0 create:0 let-it-rest:0 volume:0 swap:0 let-it-rest:0 " +
		"label:0 let-it-rest:0 swap:0 let-it-rest:0",
	"a deletion on another database": "join:0 join:0 create:64 let-it-rest:0 swap:2 let-it-rest:0 delete:0 " +
		"let-it-rest:0 clock:7 let-it-rest:0",
	"another database in a roll": "join:0 join:0 join:0 create:0 let-it-rest:0 change:4 reconcile:0 watches:0 " +
		"swap:1 let-it-rest:0",
	"another database in an upgrade": "join:0 join:0 create:3584 let-it-rest:0 upgrade:0 watches:0 reconcile:0 " +
		"watches:0 reconcile:0 swap:0 let-it-rest:0",
	"Kubernetes put back, and LINSTOR after it": "join:0 join:0 join:0 create:0 let-it-rest:0 volume:0 putback:0 " +
		"let-it-rest:0 label:0 let-it-rest:0 answer:0 let-it-rest:0 putback:0 let-it-rest:0",
	"Kubernetes put back, and the operator restarted": "join:0 join:0 create:0 let-it-rest:0 putback:0 restart:0 " +
		"pool:1 let-it-rest:0",
	"Kubernetes put back while a human is asked": "join:0 join:0 create:0 let-it-rest:0 refuse:0 let-it-rest:0 " +
		"putback:0 let-it-rest:0",
	"Kubernetes put back in an upgrade": "join:0 join:0 create:3584 let-it-rest:0 upgrade:0 watches:0 reconcile:0 " +
		"watches:0 reconcile:0 putback:0 let-it-rest:0",
	"Kubernetes put back in a deletion": "join:0 join:0 create:64 let-it-rest:0 putback:2 let-it-rest:0 delete:0 " +
		"let-it-rest:0 clock:7 let-it-rest:0",
}

func TestRegressions(t *testing.T) {
	all := maps.Clone(regressions)
	maps.Copy(all, flows)
	for name, text := range all {
		t.Run(name, func(t *testing.T) {
			steps, err := parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if faults := run(t, steps, nil); len(faults) > 0 {
				t.Error(faults[0])
			}
		})
	}
}

// run carries a schedule out and returns what was wrong at the first step after which something was.
func run(t *testing.T, steps schedule, counts map[string]int) (faults []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := newChecked(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if len(faults) > 0 && os.Getenv("MODEL_LOG") != "" {
				t.Log(strings.Join(c.did, "\n"))
			}
			if p := recover(); p != nil {
				faults = append(faults, fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			}
			c.operator.kill()
			c.close()
			synctest.Wait()
		}()
		for i, s := range steps {
			if counts != nil {
				counts[s.kind]++
			}
			kinds[s.kind].do(c, s.n)
			c.did = append(c.did, "# "+s.String())
			if faults = c.check(); len(faults) > 0 {
				faults[0] = fmt.Sprintf("after step %d, %s: %s", i, s, faults[0])
				return
			}
		}
		faults = c.converge()
	})
	return faults
}

// class is what kind of failure it is: its text without what differs from run to run.
func class(fault string) string {
	head, _, _ := strings.Cut(fault, "{")
	return digits.ReplaceAllString(head, "#")
}

var digits = regexp.MustCompile(`(after step \d+, \S+|[0-9]+)`)

// shorten leaves out steps as long as the rest still fails, for a minute at most.
func shorten(s schedule, fails func(schedule) bool) schedule {
	end := time.Now().Add(time.Minute)
	for size := len(s) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(s) && time.Now().Before(end); {
			without := slices.Delete(slices.Clone(s), at, at+size)
			if fails(without) {
				s = without
			} else {
				at += size
			}
		}
	}
	return s
}
