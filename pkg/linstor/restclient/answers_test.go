package restclient

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

var (
	deleteOne   = func(ctx context.Context, c *client) error { return c.DeleteNode(ctx, "n1") }
	readVersion = func(ctx context.Context, c *client) error { _, err := c.version(ctx); return err }
)

// answered is an answer and what the call that gets it makes of it.
type answered struct {
	name   string
	call   func(context.Context, *client) error
	status int
	body   string
	want   *linstor.Error // nil: success
	code   int
	is     []string
}

// answers are LINSTOR's literal answers, and answers that are not LINSTOR's.
var answers = []answered{{
	name: "created", call: createOne, status: 201,
	body: `[{"ret_code":20709377,"message":"New node 'n1' registered."},{"ret_code":20709385,` +
		`"message":"Node 'n1' authenticated"}]`,
}, {
	name: "created, not connected: the next look decides", call: createOne, status: 201,
	body: `[{"ret_code":20709377,"message":"New node 'n1' registered."},
		{"ret_code":-9223372036834065430,"message":"No active connection to satellite 'n1'"}]`,
}, {
	name: "created, but an entry is an error", call: createOne, status: 201,
	body: `[{"ret_code":20709377,"message":"New node 'n1' registered."},{"ret_code":-4611686018427386904,` +
		`"message":"broken"}]`,
	want: &linstor.Error{Status: 201, Codes: []int{1000}, Message: "broken"}, code: 1000,
}, {
	name: "exists", call: createOne, status: 500,
	body: `[{"ret_code":-4611686018406678028,"message":"Registration of node 'n1' failed.",
		"cause":"A node with the specified name 'n1' already exists.\nThe Node already exists",
		"correction":"- Specify another name"}]`,
	want: &linstor.Error{
		Status: 500, Codes: []int{500}, Message: "Registration of node 'n1' failed.",
		Cause: "A node with the specified name 'n1' already exists. The Node already exists",
	}, code: linstor.CodeNodeExists, is: []string{exists},
}, {
	name: "unknown node", call: readOne, status: 404,
	body: `[{"ret_code":-4611686018427387604,"message":"Node 'n1' not found."}]`,
	want: &linstor.Error{Status: 404, Codes: []int{300}, Message: "Node 'n1' not found."},
	code: linstor.CodeNodeNotFound, is: []string{notFound},
}, {
	name: "unknown node on a write", call: poolOne, status: 404,
	body: `[{"ret_code":-4611686018427387604,"message":"Node 'n1' not found."}]`,
	want: &linstor.Error{Status: 404, Codes: []int{300}, Message: "Node 'n1' not found."},
	code: linstor.CodeNodeNotFound, is: []string{notFound},
}, {
	name: "unknown path is no missing node", call: readOne, status: 404,
	body: `[{"ret_code":-4611686018427386906,"message":"Path '/v1/nodes/n1' not found on server."}]`,
	want: &linstor.Error{Status: 404, Codes: []int{998}, Message: "Path '/v1/nodes/n1' not found on server."},
	code: linstor.CodeUnknown,
}, {
	name: "a proxy's 404 is no missing node", call: readOne, status: 404, body: `<html>not here</html>`,
	want: &linstor.Error{Status: 404, Err: linstor.ErrNotLINSTOR},
}, {
	name: "a proxy without a controller behind it", call: readOne, status: 503, body: `no healthy upstream`,
	want: &linstor.Error{Status: 503, Message: "no healthy upstream", Err: linstor.ErrNotLINSTOR},
	is:   []string{transient, unreachable},
}, {
	name: "an error without a body", call: createOne, status: 500,
	want: &linstor.Error{Status: 500, Err: linstor.ErrNotLINSTOR}, is: []string{transient},
}, {
	name: "an error without an error entry", call: createOne, status: 500, body: `[]`,
	want: &linstor.Error{Status: 500, Err: linstor.ErrNotLINSTOR}, is: []string{transient},
}, {
	name: "success without a body", call: createOne, status: 201,
	want: &linstor.Error{Status: 201, Err: linstor.ErrNotLINSTOR}, is: []string{transient},
}, {
	name: "success that is null", call: createOne, status: 201, body: `null`,
	want: &linstor.Error{Status: 201, Message: "null", Err: linstor.ErrNotLINSTOR}, is: []string{transient},
}, {
	name: "success that is a page", call: createOne, status: 200, body: `<html>log in</html>`,
	want: &linstor.Error{Status: 200, Err: linstor.ErrNotLINSTOR}, is: []string{transient},
}, {
	name: "a page instead of a node", call: readOne, status: 200, body: `<html>log in</html>`,
	want: &linstor.Error{Status: 200, Err: cmpopts.AnyError}, is: []string{transient},
}, {
	name: "a list instead of a node", call: readOne, status: 200, body: `[]`,
	want: &linstor.Error{Status: 200, Err: linstor.ErrNotLINSTOR}, is: []string{transient},
}, {
	name: "a nameless node", call: readOne, status: 200, body: `{}`,
	want: &linstor.Error{Status: 200, Err: linstor.ErrNotLINSTOR}, is: []string{transient},
}, {
	name: "no version", call: readVersion, status: 200, body: `{}`,
	want: &linstor.Error{Status: 200, Err: linstor.ErrNotLINSTOR}, is: []string{transient},
}, {
	name: "redirect of a write", call: createOne, status: 302,
	want: &linstor.Error{Status: 302, Err: linstor.ErrRedirected},
}, {
	name: "redirect of a read", call: readVersion, status: 302,
	want: &linstor.Error{Status: 302, Err: linstor.ErrRedirected},
}, {
	name: "a write without its target changes nothing", call: poolOne, status: 304,
	want: &linstor.Error{Status: 304, Err: linstor.ErrRedirected},
}, {
	name: "backing storage missing", call: poolOne, status: 500,
	body: `[{"ret_code":18087937,"message":"New storage pool 'ssd' on node 'n1' registered."},
		{"ret_code":-4611686018409298978,"message":"(n1) Volume group 'vg' not found"}]`,
	want: &linstor.Error{Status: 500, Codes: []int{990}, Message: "(n1) Volume group 'vg' not found"},
	code: linstor.CodePoolConfiguration,
}, {
	name: "pool exists", call: poolOne, status: 500,
	body: `[{"ret_code":-4611686018409299458,"message":"Node: n1, Storage pool name: ssd already exists."}]`,
	want: &linstor.Error{Status: 500, Codes: []int{510}, Message: "Node: n1, Storage pool name: ssd already exists."},
	code: linstor.CodePoolExists, is: []string{exists},
}, {
	name: "node not ONLINE, or the tool is missing", call: poolOne, status: 500,
	body: `[{"ret_code":-4611686018409298979,"message":"The satellite does not support the device provider LVM_THIN"}]`,
	want: &linstor.Error{Status: 500, Codes: []int{989},
		Message: "The satellite does not support the device provider LVM_THIN"},
	code: linstor.CodeProviderUnsupported,
}, {
	name: "bad provider", call: poolOne, status: 400,
	body: `[{"ret_code":-4611686018427387680,"message":"Given provider kind 'foo' is invalid"}]`,
	want: &linstor.Error{Status: 400, Codes: []int{224}, Message: "Given provider kind 'foo' is invalid"},
	code: 224,
}, {
	name: "unknown field", call: createOne, status: 500,
	body: `[{"ret_code":-3458764513820540931,"message":"Unable to parse input json.","details":"Unrecognized field"}]`,
	want: &linstor.Error{Status: 500, Codes: []int{32765}, Message: "Unable to parse input json."},
	code: 32765,
}, {
	name: "pool of an offline node changed", call: poolOne, status: 500,
	body: `[{"ret_code":-9223372036800508926,"message":"No active connection"},
		{"ret_code":-4611686018392521754,` +
		`"message":"Modification failed due to an unhandled exception of type DelayedApiRcException."}]`,
	want: &linstor.Error{
		Status: 500, Codes: []int{998},
		Message: "Modification failed due to an unhandled exception of type DelayedApiRcException.",
	},
	code: linstor.CodeUnknown, is: []string{transient},
}, {
	name: "unknown exception", call: createOne, status: 500,
	body: `[{"ret_code":-4611686018427386906,"message":"An unknown error occurred."}]`,
	want: &linstor.Error{Status: 500, Codes: []int{998}, Message: "An unknown error occurred."},
	code: linstor.CodeUnknown,
}, {
	name: "database failure", call: createOne, status: 500,
	body: `[{"ret_code":-4611686018427387804,"message":"SQL"}]`,
	want: &linstor.Error{Status: 500, Codes: []int{100}, Message: "SQL"}, code: linstor.CodeSQL, is: []string{transient},
}, {
	name: "in use", call: deleteOne, status: 500,
	body: `[{"ret_code":-4611686018373123099,"message":"Resource 'pvc-1' is still in use."},
		{"ret_code":-4611686018373123863,"message":"Cannot delete node"}]`,
	want: &linstor.Error{
		Status: 500, Codes: []int{997, 233}, Message: "Resource 'pvc-1' is still in use.",
	}, code: linstor.CodeInUse,
}, {
	name: "deleted before", call: deleteOne, status: 200,
	body: `[{"ret_code":-9223372036800509000,"message":"Deletion of node 'nope' had no effect."}]`,
}, {
	name: "token missing", call: readOne, status: 401,
	body: `[{"ret_code":-4611686018427387492,"message":"Unauthorized: token invalid or not provided"}]`,
	want: &linstor.Error{Status: 401, Codes: []int{412}, Message: "Unauthorized: token invalid or not provided"},
	code: 412,
}}

func TestAnswers(t *testing.T) {
	for _, tc := range answers {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.call(t.Context(), serve(t, answer(tc.status, tc.body)))
			if tc.want == nil {
				if err != nil {
					t.Fatalf("error %v, want success", err)
				}
				return
			}
			var got *linstor.Error
			if !errors.As(err, &got) {
				t.Fatalf("error %T %v, want *Error", err, err)
			}
			opts := cmp.Options{cmpopts.IgnoreFields(linstor.Error{}, "Op", "Why", "Write", "Passing"), cmpopts.EquateErrors()}
			if diff := cmp.Diff(*tc.want, *got, opts); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.is, classes(err)); diff != "" {
				t.Errorf("classes of %v (-want +got):\n%s", err, diff)
			}
			if linstor.Code(err) != tc.code {
				t.Errorf("Code = %d, want %d", linstor.Code(err), tc.code)
			}
			if got.Op == "" || !strings.HasPrefix(err.Error(), got.Op) {
				t.Errorf("error %q does not begin with the operation %q", err, got.Op)
			}
		})
	}
}
