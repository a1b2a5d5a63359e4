package sim

import (
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// methods are the handlers of one path.
type methods map[string]handler

func (m methods) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	c := rw.(*capture)
	c.call.req = r
	c.answer = m.answer(c.call)
}

func (m methods) answer(c *call) reply {
	h := m[c.req.Method]
	switch {
	case h == nil && c.req.Method == http.MethodHead && m[get] != nil:
		h = m[get]
	case h == nil && c.req.Method == http.MethodOptions:
		return reply{status: http.StatusOK, contentType: "text/plain", body: []byte(m.allowed())}
	case h == nil:
		return c.mismatch(http.StatusMethodNotAllowed, "Method '%s' not allowed on path '%s'.", c.req.Method, c.req.URL.Path)
	case !c.readableType():
		return c.unknownError("HTTP 415 Unsupported Media Type")
	case !c.numbersAreNumbers():
		return c.unknownError("HTTP 404 Not Found")
	}
	return h(c)
}

func (m methods) allowed() string {
	names := slices.Sorted(maps.Keys(m))
	if m[get] != nil {
		names = append(names, http.MethodHead)
	}
	return strings.Join(append(names, http.MethodOptions), ", ")
}

// readableType reports whether the body of a writing request is of a type that LINSTOR reads: JSON, or of none.
func (c *call) readableType() bool {
	given := c.req.Header.Get("Content-Type")
	if given == "" || !slices.Contains([]string{post, put, patch}, c.req.Method) {
		return true
	}
	kind, _, err := mime.ParseMediaType(given)
	return err == nil && kind == "application/json"
}

// numbersAreNumbers reports whether limit and offset, where given, can be read.
func (c *call) numbersAreNumbers() bool {
	for _, name := range []string{"limit", "offset"} {
		if text := c.query.Get(name); text != "" {
			if _, err := strconv.ParseInt(text, 10, 32); err != nil {
				return false
			}
		}
	}
	return true
}

// mismatch is the answer to a request that fits no end point: its details repeat the status.
func (c *call) mismatch(status int, format string, args ...any) reply {
	e := failure(codeUnknownError, format, args...).details("HTTP %d %s", status, http.StatusText(status))
	r := c.list(status, rcContext{bare: true}, rcs{e})
	r.status = status
	return r
}

func notFound(c *call) reply {
	return c.mismatch(http.StatusNotFound, "Path '%s' not found on server.", c.req.URL.Path)
}
