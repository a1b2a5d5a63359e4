// Package monitoring is what Prometheus and Grafana are given: alerts, a dashboard, and which metrics of others they
// are made from. The operator's own metrics are in pkg/metrics.
//
// Rules for an expression, each of which some alert in the field breaks:
//
//   - It aggregates, so that a restart of what exports a metric, which changes instance and pod, does not end an
//     alert. Labels that say what is in trouble survive the aggregation; a label that changes with the trouble, such
//     as a state, does not.
//   - Both sides of "and" and "unless" have the same labels, or say "on".
//   - It compares products, not quotients: nothing is divided by zero.
//   - A gauge that can fall has no increase().
//   - For is at least two scrapes: one that was lost is no news.
//
// The package is pure and knows no Kubernetes.
package monitoring

import (
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Severity says who is to be told. Alertmanager's configuration decides what becomes of it.
type Severity string

// Severities.
const (
	// Critical: volumes do not work, or data is at risk: somebody is woken.
	Critical Severity = "critical"
	// Warning: somebody should look today.
	Warning Severity = "warning"
	// Info is worth knowing.
	Info Severity = "info"
)

// LongestInterval is the longest time between two scrapes with which the alerts work.
const LongestInterval = 2 * time.Minute

// Alert is an alert of Prometheus.
type Alert struct {
	// Name is unique; its page is docs/runbooks/alerts/<Name>.md.
	Name string
	// Expr is PromQL. There is an alert for each series that it has.
	Expr string
	// For is how long a series must be there without a gap.
	For      time.Duration
	Severity Severity
	// Summary is one line, Description one or two sentences. Both may use Prometheus' templates, such as {{ $value }}.
	Summary, Description string
}

// Group is alerts about one exporter's metrics.
type Group struct {
	Name   string
	Alerts []Alert
}

// Groups are all alerts.
func Groups() []Group {
	return []Group{
		{Name: "storagecluster", Alerts: append(clusterAlerts(), volumeAlerts()...)},
		{Name: "drbd", Alerts: drbdAlerts()},
	}
}

// pages is where the alerts' pages are found.
const pages = "https://github.com/linstor-dev/storagecluster-operator/blob/main/docs/runbooks/alerts/"

// Runbook is the address of an alert's page.
func (a *Alert) Runbook() string { return pages + a.Name + ".md" }

// Duration is in Prometheus' words, which are not all of Go's: "1h0m0s" is none.
func Duration(d time.Duration) string {
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// rules is a file of Prometheus' rules, and the spec of a PrometheusRule.
type rules struct {
	Groups []ruleGroup `json:"groups"`
}

type ruleGroup struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Rules are all alerts in YAML, as Prometheus reads them from a file (rule_files in its configuration). They are the
// spec of Prometheus Operator's PrometheusRule as well.
func Rules() []byte {
	var out rules
	for _, g := range Groups() {
		group := ruleGroup{Name: g.Name}
		for i := range g.Alerts {
			a := &g.Alerts[i]
			group.Rules = append(group.Rules, rule{Alert: a.Name, Expr: a.Expr, For: Duration(a.For),
				Labels: map[string]string{"severity": string(a.Severity)},
				Annotations: map[string]string{"summary": a.Summary, "description": a.Description,
					"runbook_url": a.Runbook()},
			})
		}
		out.Groups = append(out.Groups, group)
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		panic(fmt.Sprintf("encode the rules: %v", err)) // texts can always be encoded
	}
	return text
}

// generated begins the files of deploy/monitoring.
const generated = "# Made from pkg/monitoring by \"make generate\".\n"

// RulesFile is deploy/monitoring/rules.yaml.
func RulesFile() string {
	return generated + "# For rule_files of a Prometheus without Prometheus Operator: see docs/how-to/monitoring.md.\n" +
		string(Rules())
}

// DashboardConfigMap is deploy/monitoring/dashboard.yaml. Grafana's sidecar looks for the label (Helm chart of
// Grafana, sidecar.dashboards.label).
func DashboardConfigMap() string {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "storagecluster-dashboard", "labels": map[string]any{"grafana_dashboard": "1"}},
		"data":     map[string]any{"storagecluster.json": string(Dashboard())},
	})
	if err != nil {
		panic(fmt.Sprintf("encode the dashboard's ConfigMap: %v", err)) // texts can always be encoded
	}
	return generated + "# Apply it in the namespace of your Grafana.\n" + string(text)
}
