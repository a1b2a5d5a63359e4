package alerts

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/linstor-dev/storagecluster-operator/pkg/metrics"
	"github.com/linstor-dev/storagecluster-operator/pkg/monitoring"
)

// described collects what registered collectors say of themselves: label names by the name of the metric.
type described map[string][]string

var description = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

func (d described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 10)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		m := description.FindStringSubmatch(desc.String())
		if m == nil {
			return fmt.Errorf("cannot read the description %s", desc)
		}
		var labels []string
		for label := range strings.SplitSeq(m[2], ",") {
			labels = append(labels, label)
		}
		d[m[1]] = labels
		if _, histogram := c.(*prometheus.HistogramVec); histogram {
			delete(d, m[1])
			d[m[1]+"_bucket"], d[m[1]+"_sum"], d[m[1]+"_count"] = append(labels, "le"), labels, labels
		}
	}
	return nil
}

func (d described) MustRegister(...prometheus.Collector) { panic("not used") }
func (d described) Unregister(prometheus.Collector) bool { return true }

// known are all metrics that expressions may be made from: the operator's as it registers them, and those of others.
func known(t *testing.T) described {
	t.Helper()
	d := described{}
	if err := metrics.New().Register(d); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"storagecluster_phase", "storagecluster_linstor_request_duration_seconds_bucket"} {
		if len(d[name]) == 0 {
			t.Fatalf("the operator's metrics lack %s: %v", name, slices.Sorted(maps.Keys(d)))
		}
	}
	maps.Copy(d, monitoring.Exported())
	return d
}

func parse(t *testing.T, expr string) parser.Expr {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return e
}

// checkMetrics wants each metric and label of an expression to exist, and counters alone to be given to functions that
// take a fall for a restart.
func checkMetrics(t *testing.T, have described, expr string) (used []string) {
	t.Helper()
	e := parse(t, expr)
	labels := map[string]bool{}
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		used = append(used, s.Name)
		if _, ok := have[s.Name]; !ok {
			t.Errorf("%s: nobody exports %s", expr, s.Name)
		}
		for _, l := range have[s.Name] {
			labels[l] = true
		}
		for _, m := range s.LabelMatchers {
			if m.Name != "__name__" && !slices.Contains(have[s.Name], m.Name) {
				t.Errorf("%s: %s has no label %s", expr, s.Name, m.Name)
			}
		}
		for _, above := range path {
			call, ok := above.(*parser.Call)
			counter := regexp.MustCompile(`_(total|count|sum|bucket)$`).MatchString(s.Name)
			if ok && slices.Contains([]string{"rate", "irate", "increase"}, call.Func.Name) && !counter {
				t.Errorf("%s: %s of %s, which is a gauge", expr, call.Func.Name, s.Name)
			}
		}
		return nil
	})
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !labels[l] {
					t.Errorf("%s: grouped by %s, which no metric in it has", expr, l)
				}
			}
		}
		return nil
	})
	return used
}

// grouping are the labels that an expression's series have, as far as an aggregation says so.
func grouping(e parser.Expr) ([]string, bool) {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return grouping(e.Expr)
	case *parser.AggregateExpr:
		return slices.Sorted(slices.Values(e.Grouping)), !e.Without
	case *parser.BinaryExpr:
		if _, number := e.RHS.(*parser.NumberLiteral); number || e.Op.IsSetOperator() {
			return grouping(e.LHS)
		}
		if _, number := e.LHS.(*parser.NumberLiteral); number {
			return grouping(e.RHS)
		}
		left, ok := grouping(e.LHS)
		right, also := grouping(e.RHS)
		return left, ok && also && slices.Equal(left, right)
	case *parser.SubqueryExpr:
		return grouping(e.Expr)
	case *parser.Call:
		for _, arg := range e.Args {
			if arg.Type() == parser.ValueTypeMatrix || arg.Type() == parser.ValueTypeVector {
				return grouping(arg)
			}
		}
	}
	return nil, false
}

// checkMatching wants what is compared or joined to have the same labels on both sides, and nothing to be divided.
func checkMatching(t *testing.T, expr string) {
	t.Helper()
	parser.Inspect(parse(t, expr), func(n parser.Node, path []parser.Node) error {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.LHS.Type() == parser.ValueTypeScalar && b.RHS.Type() == parser.ValueTypeScalar {
			return nil
		}
		if b.Op == parser.DIV || b.Op == parser.MOD {
			t.Errorf("%s: divides, by zero perhaps", expr)
		}
		if b.VectorMatching == nil || b.VectorMatching.On || b.RHS.Type() != parser.ValueTypeVector {
			return nil
		}
		if sameSelector(b) {
			return nil
		}
		left, ok := grouping(b.LHS)
		right, also := grouping(b.RHS)
		if !ok || !also || !slices.Equal(left, right) {
			t.Errorf("%s: %s has labels %v on one side and %v on the other", expr, b.Op, left, right)
		}
		return nil
	})
}

// sameSelector reports whether both sides are one metric at two times, which has the same labels.
func sameSelector(b *parser.BinaryExpr) bool {
	l, ok := b.LHS.(*parser.VectorSelector)
	r, also := b.RHS.(*parser.VectorSelector)
	return ok && also && l.Name == r.Name
}

// TestExpressions looks at what alerts and dashboard are made from. A metric of others that nobody uses is not listed.
func TestExpressions(t *testing.T) {
	have, used := known(t), map[string]bool{}
	note := func(names []string) {
		for _, n := range names {
			used[n] = true
		}
	}
	for _, g := range monitoring.Groups() {
		for _, a := range g.Alerts {
			note(checkMetrics(t, have, a.Expr))
			checkMatching(t, a.Expr)
			if e := parse(t, a.Expr); !strings.HasPrefix(a.Expr, "absent(") {
				if labels, ok := grouping(e); !ok {
					t.Errorf("%s: its labels change with the exporter's pod: %v", a.Name, labels)
				} else {
					checkTemplates(t, &a, labels)
				}
			}
		}
	}
	for _, row := range monitoring.Rows() {
		for _, p := range row.Panels {
			for _, q := range p.Queries {
				note(checkMetrics(t, have, q.Expr))
				if _, ok := grouping(parse(t, q.Expr)); !ok {
					t.Errorf("%s: a curve would end with the exporter's pod: %s", p.Title, q.Expr)
				}
			}
		}
	}
	for name := range monitoring.Exported() {
		if !used[name] {
			t.Errorf("%s is listed, and nothing uses it", name)
		}
	}
}

// checkTemplates wants texts to name labels only that the alert has.
func checkTemplates(t *testing.T, a *monitoring.Alert, labels []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(a.Summary+a.Description, -1) {
		if !slices.Contains(labels, m[1]) {
			t.Errorf("%s: the texts name %s, and the alert has %v", a.Name, m[1], labels)
		}
	}
}
