// Package exit says how a command of the plugin ended, as a number that scripts can tell apart.
package exit

import (
	"errors"
	"fmt"
)

// Codes that the plugin exits with.
const (
	// Done: the command did what it was asked to.
	Done = 0
	// Failed: it could not.
	Failed = 1
	// Usage: it was not called as it has to be.
	Usage = 2
	// NotWell: "status --exit-code" found something that is not well, or "preflight" or "adopt" what is
	// in the way.
	NotWell = 3
	// Refused: the user did not want what was about to be done.
	Refused = 4
	// WouldChange: "plan --exit-code" found something that the operator would do.
	WouldChange = 5
	// WouldBeRefused: "plan" found that the edit would be refused.
	WouldBeRefused = 6
)

// Error is an error that has a code of its own.
type Error struct {
	// Code is what the plugin exits with.
	Code int
	// Err says why. Without it nothing is printed: what there was to say was said.
	Err error
}

// Error is the text of the reason.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap is the reason.
func (e *Error) Unwrap() error { return e.Err }

// Usagef is what is wrong with how a command was called.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// Refusedf says what the user did not want.
func Refusedf(format string, args ...any) error {
	return &Error{Code: Refused, Err: fmt.Errorf(format, args...)}
}

// Silent ends a command with a code when everything was said.
func Silent(code int) error { return &Error{Code: code} }

// Code is what to exit with after an error; Done without one.
func Code(err error) int {
	var coded *Error
	switch {
	case err == nil:
		return Done
	case errors.As(err, &coded):
		return coded.Code
	default:
		return Failed
	}
}

// Text is what to print of an error; "" if everything was said.
func Text(err error) string {
	var coded *Error
	if err == nil || errors.As(err, &coded) && coded.Err == nil {
		return ""
	}
	return err.Error()
}
