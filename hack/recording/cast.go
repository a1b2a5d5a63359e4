package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// columns and rows are the size of the terminal.
const (
	columns = 112
	rows    = 26
)

// header is the first line of a recording.
type header struct {
	Version int `json:"version"`
	Width   int `json:"width"`
	Height  int `json:"height"`
}

// line is what was printed in one line, and when.
type line struct {
	at   time.Duration
	text string
}

// take writes what is read as a recording, with the time of each line since the first.
func take(in io.Reader, out io.Writer, now func() time.Time) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(header{Version: 2, Width: columns, Height: rows}); err != nil {
		return err
	}
	var began time.Time
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		at := now()
		if began.IsZero() {
			began = at
		}
		seconds := float64(at.Sub(began).Milliseconds()) / 1000
		if err := encoder.Encode([]any{seconds, "o", scanner.Text() + "\r\n"}); err != nil {
			return err
		}
	}
	return scanner.Err()
}

// read returns the lines of a recording.
func read(in io.Reader) ([]line, error) {
	scanner := bufio.NewScanner(in)
	var h header
	if !scanner.Scan() || json.Unmarshal(scanner.Bytes(), &h) != nil || h.Version != 2 {
		return nil, errors.New("not a recording in asciicast format, version 2")
	}
	var out []line
	for n := 2; scanner.Scan(); n++ {
		var event []any
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(event) != 3 {
			return nil, fmt.Errorf("line %d: an event must have three parts", n)
		}
		seconds, timed := event[0].(float64)
		text, printed := event[2].(string)
		if !timed || !printed || event[1] != "o" || !strings.HasSuffix(text, "\r\n") {
			return nil, fmt.Errorf("line %d: not an output event that ends with a line break", n)
		}
		at := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
		if len(out) > 0 && at < out[len(out)-1].at {
			return nil, fmt.Errorf("line %d: earlier than the previous line", n)
		}
		out = append(out, line{at, strings.TrimSuffix(text, "\r\n")})
	}
	return out, scanner.Err()
}
