// Package limit bounds what is read of streams whose size others choose: a backup in a store, the answer of a server,
// what is decompressed. The kernel ends a program that reads one without a bound, and no message says why.
package limit

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// Error says what is larger than it may be.
type Error struct {
	// What is too large, and Most how many bytes it may have.
	What string
	Most int64
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s is larger than %s, which is the limit", e.What, size(e.Most))
}

func size(n int64) string {
	for _, u := range []struct {
		bits int
		name string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n>>u.bits<<u.bits == n && n > 0 {
			return fmt.Sprintf("%d %s", n>>u.bits, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Budget is how much something may take, in bytes. All that share it may take that much together. It is safe for
// concurrent use.
type Budget struct {
	what  string
	most  int64
	taken atomic.Int64
}

// New is a budget for what is named.
func New(what string, most int64) *Budget { return &Budget{what: what, most: most} }

// Take takes n bytes. Once the budget is used up it is an [Error] from then on.
func (b *Budget) Take(n int) error {
	if b.taken.Add(int64(n)) > b.most {
		return &Error{What: b.what, Most: b.most}
	}
	return nil
}

// Reader reads from r, as long as there is room in the budget.
func Reader(r io.Reader, b *Budget) io.Reader { return &reader{r, b} }

type reader struct {
	io.Reader
	budget *Budget
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if e := r.budget.Take(n); e != nil {
		return 0, e
	}
	return n, err
}

// Answer bounds what is read of a server's answer.
func Answer(r *http.Response, what string, most int64) {
	r.Body = &body{Reader: Reader(r.Body, New(what, most)), Closer: r.Body}
}

type body struct {
	io.Reader
	io.Closer
}
