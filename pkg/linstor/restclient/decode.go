package restclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor/secret"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// get reads one JSON object. convert returns an error if the object lacks what LINSTOR always gives.
func get[T, R any](ctx context.Context, c *client, o operation, path string, convert func(*T) (R, error)) (R, error) {
	var out R
	err := c.getBody(ctx, o, path, func(body io.Reader) error {
		var w T
		if err := decodeObject(body, &w); err != nil {
			return err
		}
		r, err := convert(&w)
		if err == nil {
			out = r
		}
		return err
	})
	return out, err
}

// list reads a JSON array, one element at a time, so that the whole text of a large cluster is never in memory. With
// an error there is no list, not even an empty one.
func list[T, R any](ctx context.Context, c *client, o operation, path string,
	convert func(*T) (R, error)) ([]R, error) {
	out := []R{}
	err := c.getBody(ctx, o, path, func(body io.Reader) error {
		return decodeList(body, func(w *T) error {
			r, err := convert(w)
			out = append(out, r)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// getBody hands the body of a successful answer to decode.
func (c *client) getBody(ctx context.Context, o operation, path string, decode func(io.Reader) error) error {
	return c.call(ctx, o, func(ctx context.Context) error {
		resp, err := c.do(ctx, http.MethodGet, path, o.query, nil)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if !isSuccess(resp.StatusCode) {
			return nil // the verdict reads the error
		}
		return decode(resp.Body)
	})
}

// named returns an error if the names that every object of a kind has are not there.
func named(what string, names ...string) error {
	if slices.Contains(names, "") {
		return fmt.Errorf("%w: it contains %s", linstor.ErrNotLINSTOR, what)
	}
	return nil
}

// decodeList reads an array from r. An element with a field of an unexpected type keeps its other fields: one odd node
// must not hide all others. An answer that is no array, that ends early, or that holds LINSTOR's messages in place of
// what was asked for, is an error and never a shorter list.
func decodeList[T any](r io.Reader, each func(*T) error) error {
	dec := json.NewDecoder(r)
	if tok, err := dec.Token(); tolerant(err) != nil { // a number that is none is told like one that is
		return fmt.Errorf("decode: %w", err)
	} else if tok != json.Delim('[') {
		return fmt.Errorf("decode: %w: expected a JSON array", linstor.ErrNotLINSTOR)
	}
	decode := func(item any) error { return decodeFirst(dec, item) }
	for dec.More() {
		item := new(T)
		if err := tolerant(decode(item)); err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		if err := each(item); err != nil {
			return err
		}
		decode = dec.Decode
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// decodeFirst reads the first element of a list. If it is one of LINSTOR's messages, so are the others, and they are
// the error.
func decodeFirst(dec *json.Decoder, item any) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	var e struct {
		entry
		RetCode *retCode `json:"ret_code"`
	}
	if json.Unmarshal(raw, &e) != nil || e.RetCode == nil {
		return json.Unmarshal(raw, item)
	}
	e.entry.RetCode = *e.RetCode
	all := messages{e.entry}
	for dec.More() {
		var next entry
		if err := tolerant(dec.Decode(&next)); err != nil {
			return err
		}
		all = append(all, next)
	}
	return all
}

// decodeObject reads one object from r into out, tolerant of fields with an unexpected type.
func decodeObject(r io.Reader, out any) error {
	var raw json.RawMessage
	if err := json.NewDecoder(r).Decode(&raw); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		if err := decodeList(bytes.NewReader(raw), func(*struct{}) error { return nil }); errors.As(err, new(messages)) {
			return err
		}
		return fmt.Errorf("decode: %w: expected a JSON object", linstor.ErrNotLINSTOR)
	}
	if err := tolerant(json.Unmarshal(raw, out)); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

func tolerant(err error) error {
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		return nil
	}
	return err
}

// retCode is LINSTOR's ret_code: type, operation, object and code in one signed number. Both of the two bits that tell
// errors from warnings, infos and successes are set in an error; the low 15 bits are the code.
type retCode int64

func (r retCode) isError() bool { return r>>62 == -1 }
func (r retCode) code() int     { return int(r & 0x7FFF) }

// entry is one element of LINSTOR's answer to a write, or of an error.
type entry struct {
	RetCode retCode `json:"ret_code"`
	Message string  `json:"message"`
	Cause   string  `json:"cause"`
	Details string  `json:"details"`
}

// messages are LINSTOR's answer to a write. As an error they are what it answered, with a 2xx, in place of what a read
// asked for.
type messages []entry

func (m messages) Error() string {
	return fmt.Sprintf("%s: it contains messages instead of the requested data, starting with %q",
		linstor.ErrNotLINSTOR, clean(m[0].Message))
}

// Unwrap makes them an answer that LINSTOR should not have given.
func (m messages) Unwrap() error { return linstor.ErrNotLINSTOR }

// wrapper is the exception that LINSTOR makes of the answers of satellites: it says that they were not what they
// should be, and the entries before it say why (linstor-server 1.34, CtrlSatelliteUpdateCaller). The change is in
// LINSTOR's database by then.
const wrapper = "DelayedApiRcException"

// passingTexts are the exceptions that LINSTOR reports as unknown errors (998) although they only mean that a
// satellite came or went during the call (linstor-server 1.34, Peer implementations), or was not there, when nothing
// else is said.
var passingTexts = []string{wrapper, "PeerClosingConnection", "PeerNotConnected"}

// names reports whether an entry names an exception.
func (en *entry) names(exception string) bool {
	return strings.Contains(en.Message+"\n"+en.Cause+"\n"+en.Details, exception)
}

// explain copies the error entries of an answer into e.
func explain(e *linstor.Error, list messages, secrets []string) {
	e.Passing = true
	for _, en := range list {
		if !en.RetCode.isError() {
			continue
		}
		if len(e.Codes) == 0 {
			e.Message = clean(secret.Redact(en.Message, secrets))
			e.Cause = clean(secret.Redact(en.Cause, secrets))
		}
		if e.Why == "" && !en.names(wrapper) {
			e.Why = clean(secret.Redact(en.reason(), secrets))
		}
		e.Codes = append(e.Codes, en.RetCode.code())
		if en.RetCode.code() == linstor.CodeUnknown {
			e.Passing = e.Passing && slices.ContainsFunc(passingTexts, en.names)
		}
	}
}

// fromSatellite is the name of a node that LINSTOR puts before what its satellite said.
var fromSatellite = regexp.MustCompile(`^\([^()]+\) `)

// reason is what an entry says about the cause. A command that failed on the satellite hides its own words in the
// details.
func (en *entry) reason() string {
	why := fromSatellite.ReplaceAllString(en.Message, "")
	if en.Cause != "" {
		why += ": " + en.Cause
	}
	if _, said, found := strings.Cut(en.Details, "Error message:"); found && strings.TrimSpace(said) != "" {
		why += ": " + strings.TrimSpace(said)
	}
	return why
}

// plainText returns a body that is plain text, as a proxy answers; nothing for markup, and nothing for JSON that is
// not what LINSTOR answers errors with: properties may be in it, keys and passphrases among them.
func plainText(body string) string {
	if said := strings.TrimSpace(body); said != "" && !strings.ContainsAny(said[:1], "<{[") {
		return clean(said)
	}
	return ""
}

// maxText bounds each of LINSTOR's texts in an error, in characters: they end up in a status that must stay small.
const maxText = 400

// clean makes one short line of a text from the network.
func clean(s string) string { return text.Beginning(s, maxText) }
