package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// errorReport is a file that LINSTOR writes about a failure.
type errorReport struct {
	NodeName         string `json:"node_name,omitempty"`
	ErrorTime        int64  `json:"error_time"`
	Filename         string `json:"filename,omitempty"`
	Text             string `json:"text,omitempty"`
	Module           string `json:"module,omitempty"`
	Version          string `json:"version,omitempty"`
	Peer             string `json:"peer,omitempty"`
	Exception        string `json:"exception,omitempty"`
	ExceptionMessage string `json:"exception_message,omitempty"`
	OriginFile       string `json:"origin_file,omitempty"`
	OriginMethod     string `json:"origin_method,omitempty"`
	OriginLine       int    `json:"origin_line,omitempty"`
}

// report writes an error report of the controller and returns its id.
func (c *controller) report(message string) string {
	return c.reportFrom("Controller", "CONTROLLER", "ApiRcException", message)
}

func (c *controller) reportFrom(nodeName, module, exception, message string) string {
	id := fmt.Sprintf("683D2A11-00000-%06d", len(c.reports))
	c.reports = append(c.reports, errorReport{
		NodeName:         nodeName,
		ErrorTime:        c.world.now.UnixMilli(),
		Filename:         "ErrorReport-" + id + ".log",
		Module:           module,
		Version:          c.version.String(),
		Exception:        exception,
		ExceptionMessage: message,
		Peer:             "RestClient(127.0.0.1; 'simulated')",
		OriginFile:       exception + ".java",
		OriginMethod:     "simulated",
		OriginLine:       1,
	})
	return id
}

func (r errorReport) id() string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Filename, "ErrorReport-"), ".log")
}

func listErrorReports(c *call) reply {
	since, to := millis(c.query.Get("since")), millis(c.query.Get("to"))
	match := c.filter("node")
	list := []errorReport{}
	for _, r := range c.ctl.reports {
		if !match(r.NodeName) || since != 0 && r.ErrorTime < since || to != 0 && r.ErrorTime > to {
			continue
		}
		if c.query.Get("withContent") == "true" {
			r.Text = r.ExceptionMessage
		}
		list = append(list, r)
	}
	return c.object(http.StatusOK, page(c, list))
}

func millis(text string) int64 {
	var ms int64
	if _, err := fmt.Sscan(text, &ms); err != nil {
		return 0
	}
	return ms
}

// getErrorReport answers a list with one element, or none for an unknown id.
func getErrorReport(c *call) reply {
	id := strings.TrimSuffix(strings.TrimPrefix(c.req.PathValue("id"), "ErrorReport-"), ".log")
	list := []errorReport{}
	for _, r := range c.ctl.reports {
		if r.id() == id {
			r.Text = r.ExceptionMessage
			list = append(list, r)
		}
	}
	return c.object(http.StatusOK, list)
}

type reportDeleteJSON struct {
	Since     *int64   `json:"since"`
	To        *int64   `json:"to"`
	Nodes     []string `json:"nodes"`
	Exception string   `json:"exception"`
	Version   string   `json:"version"`
	IDs       []string `json:"ids"`
}

func deleteErrorReports(c *call) reply {
	var body reportDeleteJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	before := len(c.ctl.reports)
	c.ctl.reports = slices.DeleteFunc(c.ctl.reports, body.matches)
	x := rcContext{bare: true}
	if before == len(c.ctl.reports) {
		return c.list(http.StatusOK, x, rcs{info(codeNoop, "No error reports deleted.")})
	}
	return c.list(http.StatusOK, x, rcs{success(codeDeleted, "Deleted %d error report(s)", before-len(c.ctl.reports))})
}

func (b reportDeleteJSON) matches(r errorReport) bool {
	switch {
	case b.Since != nil && r.ErrorTime < *b.Since, b.To != nil && r.ErrorTime > *b.To:
		return false
	case len(b.Nodes) > 0 && !slices.ContainsFunc(b.Nodes, func(n string) bool { return key(n) == key(r.NodeName) }):
		return false
	case len(b.IDs) > 0 && !slices.Contains(b.IDs, r.id()):
		return false
	case b.Exception != "" && b.Exception != r.Exception, b.Version != "" && b.Version != r.Version:
		return false
	}
	return true
}
