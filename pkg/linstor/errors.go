package linstor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

var (
	// ErrInvalid marks input that was refused before anything was sent.
	ErrInvalid = errors.New("invalid input")
	// ErrRedirected marks an answer that points elsewhere. A controller with HTTPS answers plain HTTP that way; to
	// follow would turn a write into a read that looks like success.
	ErrRedirected = errors.New("answered with a redirect, which is not followed")
	// ErrNotLINSTOR marks an answer that LINSTOR cannot have given.
	ErrNotLINSTOR = errors.New("the answer is not LINSTOR's")
	// ErrNoEffect marks a write that LINSTOR accepted and did not carry out.
	ErrNoEffect = errors.New("LINSTOR accepted the request and did nothing")
)

// Error is a call that failed. It never holds a passphrase, a token or the value of a secret property.
type Error struct {
	// Op says what was attempted, with the object: "create node n1".
	Op string
	// Status is the HTTP status; 0 when there was no answer.
	Status int
	// Codes are the ret_codes of the answer's error entries, in order; empty when LINSTOR gave none.
	Codes []int64
	// Message, Cause and Correction are LINSTOR's own words, from the first error entry, cut to a few hundred
	// characters each.
	Message, Cause, Correction string
	// Err is the cause when LINSTOR gave no error entry: a network error, a deadline, ErrNotLINSTOR, ErrRedirected.
	Err error

	write bool
	// passing is set when the entries show a trouble that passes by itself (see passingTexts).
	passing bool
}

// Error says what was attempted and why it failed, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	for _, part := range []string{e.Message, e.Cause} {
		if part != "" {
			b.WriteString(": ")
			b.WriteString(part)
		}
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	switch {
	case len(e.Codes) > 0:
		fmt.Fprintf(&b, " (HTTP %d, LINSTOR code %d)", e.Status, retCode(e.Codes[0]).code())
	case e.Status != 0:
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Code returns LINSTOR's code of the first error entry, 0 if err carries none.
func Code(err error) int {
	var e *Error
	if !errors.As(err, &e) || len(e.Codes) == 0 {
		return 0
	}
	return retCode(e.Codes[0]).code()
}

// HasCode tells whether any error entry of err carries the code. LINSTOR explains one refusal with several entries: a
// node in use is 997 for each resource and 233 at the end.
func HasCode(err error, code int) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range e.Codes {
		if retCode(c).code() == code {
			return true
		}
	}
	return false
}

// IsNotFound tells whether LINSTOR itself said that the object does not exist. A 404 without one of LINSTOR's codes for
// missing objects is not: it may come from a proxy, or mean that the path is unknown to this version.
func IsNotFound(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Status != http.StatusNotFound {
		return false
	}
	code := Code(err)
	return code >= 300 && code <= 399
}

// IsExists tells whether a create was refused because an object of that name exists. It may differ from what was
// asked: LINSTOR compares names alone.
func IsExists(err error) bool {
	switch Code(err) {
	case CodeNodeExists, CodeInterfaceExists, CodePoolExists:
		return true
	}
	return false
}

// IsUnreachable tells whether no controller answered: nothing listens, the connection was cut, a proxy found nobody
// behind it, or a read had no answer within its time. A write without an answer in time says nothing about the
// controller, because LINSTOR waits for satellites without a bound.
func IsUnreachable(err error) bool {
	var e *Error
	if !errors.As(err, &e) || len(e.Codes) > 0 {
		return false
	}
	switch e.Status {
	case 0:
		if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, ErrInvalid) {
			return false
		}
		return !e.write || !errors.Is(e.Err, context.DeadlineExceeded)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// IsTransient tells whether the same call is worth repeating later without any change. Errors that are neither
// transient nor permanent depend on the object: 989 passes while a node is not ONLINE and stays when it is, 997 ends
// when the user ends it.
func IsTransient(err error) bool {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrRedirected) {
		return false
	}
	if len(e.Codes) == 0 {
		return e.Status < http.StatusBadRequest || e.Status >= http.StatusInternalServerError ||
			e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
	}
	switch Code(err) {
	case CodeSQL, CodeSQLRollback, CodeNotConnected, CodeNotUpToDate, CodeEvacuating, CodeResourceBusy,
		CodeNotEnoughSpace, CodeNotEnoughNodes:
		return true
	}
	return e.passing
}

// IsPermanent tells whether the call fails until somebody changes what is asked, or the machine it is asked of.
func IsPermanent(err error) bool {
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrRedirected) {
		return true
	}
	var e *Error
	if !errors.As(err, &e) || e.passing {
		return false
	}
	if len(e.Codes) > 0 && retCode(e.Codes[0]) == parseError {
		return true
	}
	code := Code(err)
	switch code {
	case CodeWrongPassphrase, CodeNoInterfaces, CodeNoSatelliteConnection, CodeMixedPools, CodePoolConfiguration,
		CodeSnapshotsNotSupported:
		return true
	}
	return code >= 200 && code <= 244 && code != CodeNodeInUse || // what was sent is not valid
		code >= 400 && code <= 424 || // access denied
		e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// parseError is the ret_code for a body that LINSTOR could not read; unknown fields are refused, too.
const parseError retCode = -3458764513820540931

// passingTexts are the exceptions that LINSTOR reports as unknown errors (998) although they only mean that a satellite
// came or went during the call (linstor-server 1.34, CtrlSatelliteUpdateCaller and Peer implementations). The change is
// in LINSTOR's database by then.
var passingTexts = []string{"DelayedApiRcException", "PeerClosingConnection", "PeerNotConnected"}

func isPassing(texts ...string) bool {
	for _, text := range texts {
		for _, p := range passingTexts {
			if strings.Contains(text, p) {
				return true
			}
		}
	}
	return false
}

// maxText bounds each of LINSTOR's texts in an Error, in characters: they end up in a status that must stay small.
const maxText = 400

// clean makes one short line of a text from the network.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > maxText {
		return string(runes[:maxText]) + "…"
	}
	return s
}
