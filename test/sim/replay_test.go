package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// The least part of the exchanges that must agree, of those whose end points the simulator serves.
const (
	agreeOnCodes  = 0.95
	agreeOnFields = 0.90
)

// exchange is a request to a real LINSTOR with its answer, or something that was done between two requests.
type exchange struct {
	Outside string `json:"outside"`
	Seq     int    `json:"seq"`
	Part    string `json:"part"`
	Name    string `json:"name"`
	Request struct {
		Method      string          `json:"method"`
		Path        string          `json:"path"`
		ContentType string          `json:"content_type"`
		Body        json.RawMessage `json:"body"`
	} `json:"request"`
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// TestReplay sends recorded requests to the simulator, in the order in which a real LINSTOR was asked, and compares
// the answers. The recordings are data of their own and no part of this project.
//
// What the recordings take for granted is set up from what they say: the machines and satellites (see newSite), and
// what was done between two requests (see outside). A request that the simulator does not serve, and says so, counts
// on neither side.
func TestReplay(t *testing.T) {
	path := os.Getenv("LINSTOR_EXCHANGES")
	if path == "" {
		t.Skip("set LINSTOR_EXCHANGES to recorded exchanges with a real LINSTOR, one JSON object a line, to replay them")
	}
	s := newSite(t)
	var score score
	for _, x := range readExchanges(t, path) {
		if x.Outside != "" {
			s.outside(x.Outside)
		} else if x.Request.Method != "" {
			score.replay(s, x)
		}
	}
	score.judge(t, reasons)
}

// replay sends one request and judges the answer.
func (s *score) replay(at *site, x exchange) {
	at.awaitNeeded(x)
	status, answer := at.ask(x)
	if status == http.StatusNotImplemented {
		s.differ(x, difference{kind: notServed})
		return
	}
	s.add(x, status, answer)
}

func readExchanges(t *testing.T, path string) []exchange {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read the exchanges: %v", err)
	}
	var list []exchange
	for i, line := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		var x exchange
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatalf("%s, line %d: %v", path, i+1, err)
		}
		list = append(list, x)
	}
	return list
}

// ask sends a recorded request. A body that was no JSON is recorded as a string.
func (s *site) ask(x exchange) (status int, answer []byte) {
	body := []byte(x.Request.Body)
	var text string
	if json.Unmarshal(body, &text) == nil {
		body = []byte(text)
	}
	s.async(func() {
		req, err := http.NewRequestWithContext(s.Context(), x.Request.Method, s.server.URL+x.Request.Path,
			bytes.NewReader(body))
		if err != nil {
			s.Errorf("#%d: %v", x.Seq, err)
			return
		}
		if x.Request.ContentType != "" {
			req.Header.Set("Content-Type", x.Request.ContentType)
		}
		resp, err := http.DefaultTransport.RoundTrip(req) // no redirect is followed
		if err != nil {
			s.Errorf("#%d %s: %v", x.Seq, x.Name, err)
			return
		}
		defer resp.Body.Close()
		status = resp.StatusCode
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			answer, err = io.ReadAll(resp.Body)
		}
		if err != nil {
			s.Errorf("#%d %s: %v", x.Seq, x.Name, err)
		}
	})
	return status, answer
}

// score counts agreement.
type score struct {
	served, codes, fields int
	// unrecorded are fields that the recordings have left out.
	unrecorded  []string
	differences []difference
}

func (s *score) differ(x exchange, d difference) {
	path, _, _ := strings.Cut(x.Request.Path, "?")
	d.endpoint = x.Request.Method + " " + path
	d.exchange = fmt.Sprintf("#%d %s", x.Seq, x.Name)
	s.differences = append(s.differences, d)
}

func (s *score) add(x exchange, status int, answer []byte) {
	s.served++
	want, got := parseAnswer(x.Body), parseAnswer(answer)
	if kind := judgeCodes(x.Status, status, retCodes(want), retCodes(got)); kind != "" {
		detail := fmt.Sprintf("LINSTOR %d %v, simulator %d %v", x.Status, retCodes(want), status, retCodes(got))
		if os.Getenv("LINSTOR_EXCHANGES_BODIES") != "" {
			detail += fmt.Sprintf("\n    LINSTOR   %s\n    simulator %s", x.Body, answer)
		}
		s.differ(x, difference{kind: kind, detail: detail})
	} else {
		s.codes++
	}
	wantFields, gotFields := fields("", want), fields("", got)
	for _, name := range s.unrecorded {
		delete(wantFields, name)
		delete(gotFields, name)
	}
	if maps.Equal(wantFields, gotFields) {
		s.fields++
		return
	}
	for _, f := range without(wantFields, gotFields) {
		s.differ(x, difference{kind: onlyLinstor, field: f})
	}
	for _, f := range without(gotFields, wantFields) {
		s.differ(x, difference{kind: onlySimulator, field: f})
	}
}

// judgeCodes is how status and codes differ, "" if they do not.
func judgeCodes(wantStatus, gotStatus int, want, got []string) kindOfDifference {
	switch {
	case wantStatus == gotStatus && slices.Equal(want, got):
		return ""
	case wantStatus == gotStatus && slices.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))):
		return otherOrder
	default:
		return otherCodes
	}
}

// parseAnswer is an answer as JSON, or as the text that it is.
func parseAnswer(raw []byte) any {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // a ret_code has more digits than a float64
	if decoder.Decode(&v) != nil {
		return ""
	}
	return v
}

// retCodes are the codes of an answer that is a list of entries.
func retCodes(answer any) []string {
	codes := []string{}
	list, _ := answer.([]any)
	for _, e := range list {
		if entry, ok := e.(map[string]any); ok && entry["ret_code"] != nil {
			codes = append(codes, fmt.Sprint(entry["ret_code"]))
		}
	}
	return codes
}

// fields are the paths of all names in an answer.
func fields(at string, v any) map[string]bool {
	found := map[string]bool{}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			found[at+"/"+name] = true
			maps.Copy(found, fields(at+"/"+name, value))
		}
	case []any:
		for _, value := range v {
			maps.Copy(found, fields(at+"[]", value))
		}
	}
	return found
}

func without(a, b map[string]bool) []string {
	var only []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !b[name] {
			only = append(only, name)
		}
	}
	return only
}

func (s *score) judge(t *testing.T, rows []reason) {
	t.Helper()
	t.Logf("%d exchanges, %d agree on status and codes, %d on the fields", s.served, s.codes, s.fields)
	explained, complaints := explain(s.differences, rows)
	for _, why := range slices.Sorted(maps.Keys(explained)) {
		t.Logf("%d × %s:\n  %s", len(explained[why]), why, strings.Join(explained[why], "\n  "))
	}
	for _, c := range complaints {
		t.Error(c)
	}
	if s.served == 0 {
		t.Fatal("there was nothing to compare")
	}
	if part := float64(s.codes) / float64(s.served); part < agreeOnCodes {
		t.Errorf("%.1f %% agree on status and codes, want %.0f %%", 100*part, 100*agreeOnCodes)
	}
	if part := float64(s.fields) / float64(s.served); part < agreeOnFields {
		t.Errorf("%.1f %% agree on the fields, want %.0f %%", 100*part, 100*agreeOnFields)
	}
}
