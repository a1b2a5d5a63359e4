package linstor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxAnswer bounds how much of an answer to a write, or of an error, is kept, in bytes. LINSTOR's longest such answers
// have one short entry for each satellite or resource.
const maxAnswer = 4 << 20

// exchange is what one call saw on the wire. golinstor gives away neither the status nor the body of most answers (a
// 404 loses its body, a 2xx is not read at all), so the round tripper notes them here, and the verdict is passed on
// this note rather than on golinstor's error.
type exchange struct {
	status int
	body   []byte // of writes and of answers that are not 2xx
	cut    bool   // body is incomplete
}

type exchangeKey struct{}

// noting is the round tripper below every request. It fills the call's exchange and refuses redirects.
type noting struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := n.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	ex, _ := req.Context().Value(exchangeKey{}).(*exchange)
	if ex == nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s %s was sent outside a call", req.Method, req.URL.Path)
	}
	ex.status = resp.StatusCode
	if req.Method == http.MethodGet && isSuccess(resp.StatusCode) {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return nil, ErrRedirected
	}
	if ex.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		ex.cut = true
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(ex.body))
	return resp, nil
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

// entry is one element of LINSTOR's answer to a write, or of an error.
type entry struct {
	RetCode    retCode `json:"ret_code"`
	Message    string  `json:"message"`
	Cause      string  `json:"cause"`
	Details    string  `json:"details"`
	Correction string  `json:"correction"`
}

// messages are what LINSTOR answered, with a 2xx, in place of what was asked for.
type messages []entry

func (m messages) Error() string {
	return fmt.Sprintf("%s: messages in place of what was asked for, the first is %q", ErrNotLINSTOR, clean(m[0].Message))
}

// Unwrap makes them an answer that LINSTOR should not have given.
func (m messages) Unwrap() error { return ErrNotLINSTOR }

// entries reads LINSTOR's list; nil and ErrNotLINSTOR when the body is no such list.
func (ex *exchange) entries() ([]entry, error) {
	var list []entry
	if err := json.Unmarshal(ex.body, &list); err != nil || list == nil {
		return nil, ErrNotLINSTOR
	}
	return list, nil
}

// verdict turns what happened into the call's result. err is what the call itself returned.
func (ex *exchange) verdict(o operation, err error) error {
	fail := &Error{Op: o.text, Status: ex.status, Err: err, write: o.write}
	unread := ex.status == 0 || ex.cut || ex.status >= 300 && ex.status < 400
	if unread || isSuccess(ex.status) && !o.write {
		if err == nil {
			return nil
		}
		var instead messages
		if errors.As(err, &instead) {
			if fail.explain(instead, o.secrets); len(fail.Codes) > 0 {
				fail.Err = nil // LINSTOR's own words say it all
			}
		}
		return fail
	}
	list, err := ex.entries()
	if err != nil {
		fail.Message, fail.Err = plainText(redact(string(ex.body), o.secrets)), err
		return fail
	}
	fail.explain(list, o.secrets)
	switch {
	case len(fail.Codes) > 0:
		fail.Err = nil // golinstor's view of the same entries
	case !isSuccess(ex.status):
		fail.Err = ErrNotLINSTOR // LINSTOR derives the status from an error entry: without one it was not LINSTOR
	case fail.Err == nil && o.mustAnswer && len(list) == 0:
		fail.Err = ErrNoEffect
	case fail.Err == nil:
		return nil
	}
	return fail
}

// explain copies the error entries of an answer into e.
func (e *Error) explain(list []entry, secrets []string) {
	for _, en := range list {
		if !en.RetCode.isError() {
			continue
		}
		if len(e.Codes) == 0 {
			e.Message = clean(redact(en.Message, secrets))
			e.Cause = clean(redact(en.Cause, secrets))
			e.Correction = clean(redact(en.Correction, secrets))
		}
		e.Codes = append(e.Codes, int64(en.RetCode))
		if en.RetCode.code() == CodeUnknown && isPassing(en.Message, en.Cause, en.Details) {
			e.passing = true
		}
	}
}

// redact removes secrets that LINSTOR repeats in its messages.
func redact(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

// plainText returns a body that is plain text, as /health answers; nothing for markup, and nothing for JSON that is not what
// LINSTOR answers errors with: properties may be in it, keys and passphrases among them.
func plainText(body string) string {
	if text := strings.TrimSpace(body); text != "" && !strings.ContainsAny(text[:1], "<{[") {
		return clean(text)
	}
	return ""
}

// withExchange prepares a context for one call.
func withExchange(ctx context.Context) (context.Context, *exchange) {
	ex := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, ex), ex
}
