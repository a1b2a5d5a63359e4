package linstor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Return codes of LINSTOR that decide what an error means: the low 15 bits of a ret_code ([Code]). The numbers are
// LINSTOR's own (linstor-server, ApiConsts).
const (
	CodeSQL         = 100 // the database refused a statement
	CodeSQLRollback = 101 // the database could not roll back

	CodeInvalidProperty = 213 // the key is not whitelisted, or its value is not valid

	CodeNodeNotFound = 300
	CodePoolNotFound = 310

	CodeNodeExists      = 500
	CodeInterfaceExists = 505
	CodeStillConnected  = 506 // a node cannot be declared lost while it is connected
	CodePoolExists      = 510 // also: the volume group or zpool of a device pool exists

	CodeNotUpToDate         = 974
	CodeEvacuating          = 975
	CodeNotEnoughSpace      = 980
	CodeProviderUnsupported = 989 // the satellite lacks a provider; every provider while it is not ONLINE
	CodePoolConfiguration   = 990 // the backing storage is missing or unusable; the pool IS registered
	CodeResourceBusy        = 992
	CodeNotConnected        = 995
	CodeNotEnoughNodes      = 996
	CodeInUse               = 997
	CodeUnknown             = 998 // an exception that LINSTOR did not expect

	CodeNoConnection = 1002 // a warning: no satellite is connected, and what was stored reaches it when one is
)

var (
	// ErrInvalid marks input that was refused before anything was sent.
	ErrInvalid = errors.New("invalid input")
	// ErrRedirected marks an answer that points elsewhere. A controller with HTTPS answers plain HTTP that way; to
	// follow would turn a write into a read that looks like success.
	ErrRedirected = errors.New("the response is a redirect, which is not followed")
	// ErrNotLINSTOR marks an answer that LINSTOR cannot have given.
	ErrNotLINSTOR = errors.New("the response is not from LINSTOR")
	// ErrNoEffect marks a write that LINSTOR accepted and did not carry out.
	ErrNoEffect = errors.New("LINSTOR accepted the request but did nothing")
)

// NotKeptError is a write of properties that LINSTOR accepted, and some of which it does not have right afterwards.
//
// LINSTOR accepts some properties and stores nothing, or stores them under another key: DrbdOptions/auto-quorum since
// 1.31 and ExtCmdWaitTimeout since 1.34, both on the controller, with a warning beside the success (linstor-server,
// CtrlConfApiCallHandler).
type NotKeptError struct {
	Op         string            // such as "set properties of node n1"
	Properties map[string]string // those that it does not have, with the values that were sent
}

// NotKept compares what was set with what LINSTOR has right afterwards; nil if it has all.
func NotKept(op string, set, have map[string]string) error {
	lost := map[string]string{}
	for k, v := range set {
		if old, there := have[k]; !there || !SameValue(k, old, v) {
			lost[k] = v
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return &NotKeptError{Op: op, Properties: lost}
}

func (e *NotKeptError) Error() string {
	return fmt.Sprintf("%s: LINSTOR accepted but did not store %s", e.Op,
		strings.Join(slices.Sorted(maps.Keys(e.Properties)), ", "))
}

// Error is a call that failed. It never holds a passphrase, a token or the value of a secret property.
type Error struct {
	// Op says what was attempted, with the object: "create node n1".
	Op string
	// Status is the HTTP status; 0 when there was no answer.
	Status int
	// Codes are those of the answer's error entries, in order; empty when LINSTOR gave none.
	Codes []int
	// Message and Cause are LINSTOR's own words, from the first error entry, cut to a few hundred characters each.
	Message, Cause string
	// Why is LINSTOR's reason alone, for a person who knows what was attempted (see [Reason]).
	Why string
	// Err is the cause when LINSTOR gave no error entry: a network error, a deadline, ErrNotLINSTOR, ErrRedirected.
	Err error
	// Write reports whether the call changes something.
	Write bool
	// Passing is set when the unknown errors (998) among the entries are all exceptions that pass by themselves.
	Passing bool
}

func (e *Error) Error() string {
	text := e.Op
	for _, part := range []string{e.Message, e.Cause} {
		if part != "" {
			text += ": " + part
		}
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	switch {
	case len(e.Codes) > 0:
		text += fmt.Sprintf(" (HTTP %d, LINSTOR code %d)", e.Status, e.Codes[0])
	case e.Status != 0:
		text += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Code returns LINSTOR's code of the first error entry, 0 if err carries none.
func Code(err error) int {
	if e, ok := errors.AsType[*Error](err); ok && len(e.Codes) > 0 {
		return e.Codes[0]
	}
	return 0
}

// Reason returns why LINSTOR refused, in its own words and without what was attempted: "Volume group 'vg' not found".
// It is one short line, and empty if err carries no reason of LINSTOR's.
func Reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Why
	}
	return ""
}

// IsNotFound reports whether LINSTOR itself said that the object does not exist. A 404 without one of LINSTOR's codes
// for missing objects is not: it may come from a proxy, or mean that the path is unknown to this version.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && Code(err) >= 300 && Code(err) <= 399
}

// IsExists reports whether a create was refused because an object of that name exists. It may differ from what was
// asked: LINSTOR compares names alone.
func IsExists(err error) bool {
	return slices.Contains([]int{CodeNodeExists, CodeInterfaceExists, CodePoolExists}, Code(err))
}

// IsUnreachable reports whether no controller answered: nothing listens, the connection was cut, a proxy found nobody
// behind it, or a read had no answer within its time. A write without an answer in time says nothing about the
// controller, because LINSTOR waits for satellites without a bound.
func IsUnreachable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Codes) > 0 {
		return false
	}
	switch e.Status {
	case 0:
		return !errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, ErrInvalid) &&
			(!e.Write || !errors.Is(e.Err, context.DeadlineExceeded))
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// IsTransient reports whether the same call is worth repeating later without any change. What it does not report may
// still end, with the object: 989 passes while a node is not ONLINE and stays when it is, 997 ends when the user ends
// it.
func IsTransient(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, ErrInvalid) || errors.Is(err, ErrRedirected) {
		return false
	}
	if len(e.Codes) == 0 {
		return e.Status < http.StatusBadRequest || e.Status >= http.StatusInternalServerError ||
			e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
	}
	// One refusal among the entries outweighs the others: LINSTOR adds an unknown error of its own to what a satellite
	// refused, and that error alone looks like one that passes. Taken for such, a pool on a missing volume group was
	// registered anew for ever, and nobody was told.
	return !slices.ContainsFunc(e.Codes, func(code int) bool {
		return !slices.Contains(passingCodes, code) && (code != CodeUnknown || !e.Passing)
	})
}

// passingCodes end without anybody's doing.
var passingCodes = []int{CodeSQL, CodeSQLRollback, CodeNotConnected, CodeNotUpToDate, CodeEvacuating, CodeResourceBusy,
	CodeNotEnoughSpace, CodeNotEnoughNodes}
