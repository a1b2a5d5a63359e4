package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// figures are the lines of the table, each with what it shows of a report.
var figures = []struct {
	name string
	show func(r *report) string
}{
	{"nodes", func(r *report) string { return fmt.Sprint(r.Nodes) }},
	{"pools per node", func(r *report) string { return fmt.Sprint(r.Pools) }},
	{"volumes", func(r *report) string { return fmt.Sprint(r.Volumes) }},
	{"pods start after / random delay of up to", func(r *report) string { return r.PodStart + " / " + r.PodSpread }},
	{"latency of each write to LINSTOR", func(r *report) string { return r.LinstorLatency }},
	{"floor, s", func(r *report) string { return number(r.FloorSeconds) }},
	{"from apply to Ready, s", func(r *report) string { return number(r.Install.Seconds) }},
	{"of this, for the test volume, s", func(r *report) string {
		if !r.Canary {
			return "none"
		}
		return number(r.CanarySeconds)
	}},
	{"ratio of the rest to the floor", func(r *report) string { return fmt.Sprintf("%.2f", r.RatioToFloor) }},
	{"writes to Kubernetes until Ready", func(r *report) string { return fmt.Sprint(r.Install.Writes) }},
	{"of these, label patches of Nodes",
		func(r *report) string { return fmt.Sprint(r.Install.KubernetesWrites["patch nodes"]) }},
	{"of these, writes of the status",
		func(r *report) string { return fmt.Sprint(r.Install.KubernetesWrites["patch storageclusters/status"]) }},
	{"reads from Kubernetes until Ready, without watches", func(r *report) string { return fmt.Sprint(r.Install.Reads) }},
	{"reads from / writes to LINSTOR until Ready",
		func(r *report) string { return fmt.Sprintf("%d / %d", r.Install.LinstorReads, r.Install.LinstorWrites) }},
	{"operator's CPU time until Ready, s", func(r *report) string { return number(r.Install.CPUSeconds) }},
	{"operator's peak memory until Ready / in the whole run, MiB", func(r *report) string {
		return fmt.Sprintf("%.0f / %.0f", r.Install.PeakMiB, r.Death.PeakMiB)
	}},
	{"size of the status, bytes", func(r *report) string { return fmt.Sprint(r.StatusBytes) }},
	{"idle: writes / reads in total",
		func(r *report) string { return fmt.Sprintf("%d / %d", r.Idle.Writes, r.Idle.Reads) }},
	{"idle: requests to LINSTOR per minute, without probes", func(r *report) string {
		return fmt.Sprintf("%.0f", perMinute(float64(r.Idle.LinstorReads+r.Idle.LinstorWrites-r.Idle.Linstor["GET /health"]),
			r))
	}},
	{"idle: MiB read from LINSTOR per minute",
		func(r *report) string { return fmt.Sprintf("%.2f", perMinute(r.Idle.LinstorMiB, r)) }},
	{"idle: operator's peak memory, MiB", func(r *report) string { return fmt.Sprintf("%.0f", r.Idle.PeakMiB) }},
	{"idle: operator's CPU time per minute, s",
		func(r *report) string { return fmt.Sprintf("%.2f", perMinute(r.Idle.CPUSeconds, r)) }},
	{"a node joins, s / writes",
		func(r *report) string { return fmt.Sprintf("%s / %d", number(r.Join.Seconds), r.Join.Writes) }},
	{"a node dies: until Degraded, s / writes",
		func(r *report) string { return fmt.Sprintf("%s / %d", number(r.Death.Seconds), r.Death.Writes) }},
}

func number(f float64) string { return fmt.Sprintf("%.1f", f) }

func perMinute(f float64, r *report) float64 { return f * 60 / max(r.Idle.Seconds, 1) }

// table reads reports, one JSON object each, and writes them as the columns of a Markdown table.
func table(in io.Reader, out io.Writer) error {
	var reports []*report
	for dec := json.NewDecoder(in); ; {
		r := &report{}
		if err := dec.Decode(r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read report %d: %w", len(reports)+1, err)
		}
		reports = append(reports, r)
	}
	for i, f := range figures {
		cells := []string{f.name}
		for _, r := range reports {
			cells = append(cells, f.show(r))
		}
		if _, err := fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")); err != nil {
			return err
		}
		if i == 0 {
			if _, err := fmt.Fprintf(out, "|---|%s\n", strings.Repeat("---:|", len(reports))); err != nil {
				return err
			}
		}
	}
	return nil
}
