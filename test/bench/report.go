package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/sim"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster"
)

// report is what the last line on standard output holds.
type report struct {
	Machine string `json:"machine"`
	Nodes   int    `json:"nodes"`
	Pools   int    `json:"poolsPerNode"`
	// Canary reports whether a volume was tried, and Volumes is how many there are at rest.
	Canary         bool   `json:"canary"`
	Volumes        int    `json:"volumes"`
	PodStart       string `json:"podStart"`
	PodSpread      string `json:"podSpread"`
	LinstorLatency string `json:"linstorWriteLatency"`
	// FloorSeconds is what the same DaemonSets need alone.
	FloorSeconds float64 `json:"floorSeconds"`
	// RatioToFloor is that of the installation without CanarySeconds, the time for which a volume was tried.
	RatioToFloor  float64 `json:"ratioToFloor"`
	CanarySeconds float64 `json:"canarySeconds"`
	StatusBytes   int     `json:"statusBytes"`
	Install       part    `json:"install"`
	Idle          part    `json:"idle"`
	Join          part    `json:"join"`
	Death         part    `json:"death"`
}

// part is what the operator did in one part of the run. Leases and reviews of access are not counted: they are leader
// election's and the metrics endpoint's.
type part struct {
	Seconds float64 `json:"seconds"`
	// KubernetesWrites and KubernetesReads are by verb and resource; watches count when they end.
	KubernetesWrites map[string]int `json:"kubernetesWrites"`
	KubernetesReads  map[string]int `json:"kubernetesReads"`
	Writes           int            `json:"writes"`
	Reads            int            `json:"reads"`
	// Linstor are the requests to LINSTOR by method and path.
	Linstor       map[string]int `json:"linstor"`
	LinstorReads  int            `json:"linstorReads"`
	LinstorWrites int            `json:"linstorWrites"`
	// LinstorMiB is what LINSTOR answered.
	LinstorMiB float64 `json:"linstorMiB"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakMiB is the operator's largest resident memory since its start.
	PeakMiB float64 `json:"peakMiB"`
}

// mark is where a part began.
type mark struct {
	at      time.Time
	audit   int
	linstor int
	cpu     float64
}

func (b *bench) mark() (mark, error) {
	events, err := b.cluster.AuditEvents()
	if err != nil {
		return mark{}, err
	}
	cpu, _, err := b.usage()
	return mark{at: time.Now(), audit: len(events), linstor: len(b.world.Requests()), cpu: cpu}, err
}

// since counts what happened after a mark.
func (b *bench) since(m mark) (part, error) {
	p := part{Seconds: seconds(time.Since(m.at)), KubernetesWrites: map[string]int{}, KubernetesReads: map[string]int{},
		Linstor: map[string]int{}}
	events, err := b.cluster.AuditEvents()
	if err != nil {
		return part{}, err
	}
	for _, e := range events[m.audit:] {
		if e.User != operatorUser || e.Resource == "leases" || strings.HasSuffix(e.Resource, "reviews") {
			continue
		}
		if e.Mutating() {
			p.Writes++
			p.KubernetesWrites[kindOf(e)]++
		} else {
			p.Reads++
			p.KubernetesReads[kindOf(e)]++
		}
	}
	answered := 0
	for _, r := range b.world.Requests()[m.linstor:] {
		answered += r.Answered
		p.Linstor[r.Method+" "+pathKind(r)]++
		if r.Mutating {
			p.LinstorWrites++
		} else {
			p.LinstorReads++
		}
	}
	p.LinstorMiB = round(float64(answered) / (1 << 20))
	cpu, peak, err := b.usage()
	p.CPUSeconds, p.PeakMiB = round(cpu-m.cpu), round(peak)
	return p, err
}

func kindOf(e simcluster.AuditEvent) string {
	if e.Subresource != "" {
		return e.Verb + " " + e.Resource + "/" + e.Subresource
	}
	return e.Verb + " " + e.Resource
}

// pathKind is a request's path with names left out.
func pathKind(r sim.Record) string {
	parts := strings.Split(strings.Trim(r.Path, "/"), "/")
	for i := 1; i < len(parts); i++ {
		switch parts[i-1] {
		case "nodes", "net-interfaces", "physical-storage", "resource-definitions":
			parts[i] = "*"
		case "storage-pools":
			if i > 2 {
				parts[i] = "*"
			}
		}
	}
	return "/" + strings.Join(parts, "/")
}

// usage is the operator's processor time in seconds and its largest resident memory in MiB, from Linux's /proc.
func (b *bench) usage() (cpu, peak float64, err error) {
	if b.cmd == nil {
		return 0, 0, nil
	}
	dir := fmt.Sprintf("/proc/%d/", b.cmd.Process.Pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return 0, 0, fmt.Errorf("the operator has ended: %w", err)
	}
	const ticks = 100 // USER_HZ, which is part of Linux's interface
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	status, err3 := os.ReadFile(dir + "status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				return 0, 0, err
			}
			peak = kib / 1024
		}
	}
	return (user + system) / ticks, peak, errors.Join(err1, err2, err3)
}

// machine says where the run was.
func machine() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s, %s", runtime.NumCPU(), model, runtime.Version())
}

func seconds(d time.Duration) float64 { return round(d.Seconds()) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return round(a / b)
}

func round(f float64) float64 { return math.Round(f*100) / 100 }
