package limit

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestReader(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		most int64
		says string
	}{
		"less":    {"abc", 4, ""},
		"as much": {"abcd", 4, ""},
		"more":    {"abcde", 4, "the backup is larger than 4 bytes, which is the limit"},
		"far more, of which nothing is passed on": {strings.Repeat("a", 9<<10), 8 << 10,
			"the backup is larger than 8 KiB, which is the limit"},
	} {
		got, err := io.ReadAll(Reader(strings.NewReader(tc.text), New("the backup", tc.most)))
		if tc.says == "" && (err != nil || string(got) != tc.text) ||
			tc.says != "" && (err == nil || err.Error() != tc.says) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if int64(len(got)) > tc.most {
			t.Errorf("%s: %d bytes were passed on", name, len(got))
		}
	}
}

// TestBudgetIsShared: what several streams take counts together, and what was used up stays so.
func TestBudgetIsShared(t *testing.T) {
	b := New("all files", 3<<20)
	if err := errors.Join(b.Take(1<<20), b.Take(2<<20)); err != nil {
		t.Error(err)
	}
	for range 2 {
		if e, ok := errors.AsType[*Error](b.Take(1)); !ok || !strings.Contains(e.Error(), "all files is larger than 3 MiB") {
			t.Errorf("%v", e)
		}
	}
	if err := New("it", 1<<30).Take(1<<30 + 1); err == nil || !strings.Contains(err.Error(), "1 GiB") {
		t.Error(err)
	}
}

type closed struct {
	io.Reader
	closed bool
}

func (c *closed) Close() error {
	c.closed = true
	return nil
}

func TestAnswer(t *testing.T) {
	c := &closed{Reader: strings.NewReader("abc")}
	r := &http.Response{Body: c}
	Answer(r, "the answer", 2)
	if text, err := io.ReadAll(r.Body); err == nil {
		t.Errorf("%q was read", text)
	}
	if err := r.Body.Close(); err != nil || !c.closed {
		t.Errorf("not closed: %v", err)
	}
}
