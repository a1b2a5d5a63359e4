package sim_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kindOfDifference is in what way an answer of the simulator is not that of a real LINSTOR.
type kindOfDifference string

const (
	notServed     kindOfDifference = "not simulated"
	otherCodes    kindOfDifference = "other status or codes"
	otherOrder    kindOfDifference = "the same codes in another order"
	onlyLinstor   kindOfDifference = "a field of LINSTOR alone"
	onlySimulator kindOfDifference = "a field of the simulator alone"
)

// difference is one between an answer of a real LINSTOR and the simulator's to the same request.
type difference struct {
	endpoint string // method and path, without a query
	kind     kindOfDifference
	field    string // the path of the field, if it is one of fields
	exchange string // number and name, for a human
	detail   string
}

func (d difference) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s: %s %s", d.exchange, d.endpoint, d.kind, d.field+d.detail))
}

// reason is a row that explains differences. It explains as many as it was written for: one more is a new one that
// nobody has looked at, and one less means that what the row says is no longer so.
type reason struct {
	endpoint string // of which * is any one part of the path
	kind     kindOfDifference
	field    string // explains what is below it as well
	times    int
	why      string
}

// Reasons that several rows share.
const (
	atOnce = "the satellites work at the same time, and LINSTOR passes on what they say in the order in which they " +
		"are done, which is chance; the simulator's go by turns"
	poolDefinitions = "LINSTOR itself makes and deletes the definition of a pool with the first and the last pool of " +
		"its name; neither the operator nor linstor-csi does, so nothing here needs it"
	streams = "neither the operator nor linstor-csi subscribes to LINSTOR's events: they ask again"
	aBug    = "the last error report is of an error in LINSTOR itself, about a connection that came up while its node " +
		"was deleted, and has no peer; the simulator has no such bug, so its last report is the one of a request, which " +
		"has the client as its peer"
	unrecordedCopy = "the volume had a copy once, on a node that is lost by now, and LINSTOR keeps what it learnt from " +
		"that; the requests that made the copy are not in the recordings, and no answer says where it was"
	unrecordedAttach = "the volume was attached to a node by requests that the recordings lack, with a property for it"
	cameBack         = "the satellite had come back in the meantime and had deleted a copy for good; in the replay it " +
		"stays away, because the requests before and after fail as they do without it"
)

// reasons are those of TestReplay.
var reasons = []reason{
	{"POST /v1/storage-pool-definitions", notServed, "", 2, poolDefinitions},
	{"PUT /v1/storage-pool-definitions/*", notServed, "", 1, poolDefinitions},
	{"DELETE /v1/storage-pool-definitions/*", notServed, "", 2, poolDefinitions},
	{"GET /v1/events/nodes", notServed, "", 1, streams},
	{"GET /v1/events/drbd/promotion", notServed, "", 1, streams},
	{"DELETE /v1/resource-definitions/*/snapshots/*", otherOrder, "", 1, atOnce},
	{"GET /v1/error-reports", onlySimulator, "[]/peer", 2, aBug},
}

// csiReasons are those of TestReplayCSI.
var csiReasons = []reason{
	{"GET /v1/resource-definitions/*", onlyLinstor, "/layer_data", 4, unrecordedCopy},
	{"GET /v1/resource-definitions/*/volume-definitions", onlyLinstor, "[]/layer_data", 4, unrecordedCopy},
	{"GET /v1/resource-definitions/*/volume-definitions", onlyLinstor, "[]/props/DrbdOptions/Disk/block-size", 2,
		unrecordedCopy},
	{"GET /v1/resource-definitions/*/volume-definitions", onlyLinstor,
		"[]/props/StorDriver/internal/AllocationGranularity", 2, unrecordedCopy},
	{"POST /v1/resource-definitions/*/autoplace", otherOrder, "", 1, atOnce},
	{"DELETE /v1/resource-definitions/*/resources/*", otherOrder, "", 1, atOnce},
	{"GET /v1/view/resources", onlyLinstor, "[]/volumes[]/props", 2, unrecordedAttach},
	{"GET /v1/view/resources", onlySimulator, "[]/flags", 1, cameBack},
}

func (r *reason) explains(d *difference) bool {
	ok, _ := path.Match(r.endpoint, d.endpoint)
	below, within := strings.CutPrefix(d.field, r.field)
	return ok && r.kind == d.kind && within && (below == "" || below[0] == '/' || below[0] == '[')
}

// explain sorts differences by their reasons. It complains about each that no row explains, and each row that does not
// explain as many as it says.
func explain(found []difference, rows []reason) (explained map[string][]string, complaints []string) {
	explained = map[string][]string{}
	times := make([]int, len(rows))
	for i := range found {
		row := 0
		for row < len(rows) && !rows[row].explains(&found[i]) {
			row++
		}
		if row == len(rows) {
			complaints = append(complaints, "no row explains: "+found[i].String())
			continue
		}
		times[row]++
		explained[rows[row].why] = append(explained[rows[row].why], found[i].String())
	}
	for i, r := range rows {
		if times[i] != r.times {
			complaints = append(complaints, strings.TrimSpace(fmt.Sprintf("the row explains %d differences, not %d: %s: %s %s",
				times[i], r.times, r.endpoint, r.kind, r.field)))
		}
	}
	return explained, complaints
}

func TestExplain(t *testing.T) {
	get := difference{endpoint: "GET /v1/things/a", kind: onlyLinstor, field: "[]/props/x", exchange: "#1 get"}
	row := reason{"GET /v1/things/*", onlyLinstor, "[]/props", 1, "because"}
	with := func(change func(d *difference)) difference {
		d := get
		change(&d)
		return d
	}
	idle := "the row explains 0 differences, not 1: GET /v1/things/*: a field of LINSTOR alone []/props"
	for name, tc := range map[string]struct {
		found []difference
		want  []string
	}{
		"explained": {[]difference{get}, nil},
		"nothing":   {nil, []string{idle}},
		"one more": {[]difference{get, get},
			[]string{"the row explains 2 differences, not 1: GET /v1/things/*: a field of LINSTOR alone []/props"}},
		"a field below": {[]difference{with(func(d *difference) { d.field = "[]/props[]/y" })}, nil},
		"another field": {[]difference{with(func(d *difference) { d.field = "[]/propsy" })},
			[]string{"no row explains: #1 get: GET /v1/things/a: a field of LINSTOR alone []/propsy", idle}},
		"another kind": {[]difference{with(func(d *difference) { d.kind = onlySimulator })},
			[]string{"no row explains: #1 get: GET /v1/things/a: a field of the simulator alone []/props/x", idle}},
		"below the end point": {[]difference{with(func(d *difference) { d.endpoint += "/b" })},
			[]string{"no row explains: #1 get: GET /v1/things/a/b: a field of LINSTOR alone []/props/x", idle}},
	} {
		t.Run(name, func(t *testing.T) {
			explained, complaints := explain(tc.found, []reason{row})
			if diff := cmp.Diff(tc.want, complaints); diff != "" {
				t.Errorf("complaints (-want +got):\n%s", diff)
			}
			if name == "explained" && len(explained["because"]) != 1 {
				t.Errorf("explained %v", explained)
			}
		})
	}
}

func TestJudgeCodes(t *testing.T) {
	for _, tc := range []struct {
		status int
		codes  []string
		want   kindOfDifference
	}{
		{200, []string{"1", "2"}, ""},
		{200, []string{"2", "1"}, otherOrder},
		{200, []string{"2", "2"}, otherCodes},
		{200, []string{"1"}, otherCodes},
		{500, []string{"1", "2"}, otherCodes},
	} {
		if got := judgeCodes(200, tc.status, []string{"1", "2"}, tc.codes); got != tc.want {
			t.Errorf("%d %v: %q, want %q", tc.status, tc.codes, got, tc.want)
		}
	}
}
