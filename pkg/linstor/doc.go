// Package linstor is the operator's only way to a LINSTOR controller.
//
// It is a thin layer over golinstor and is the only package that imports it. What it adds is what LINSTOR's API needs
// from a careful client:
//
//   - Every answer is judged in one place. LINSTOR signals by signed return codes rather than by HTTP status: an object
//     that exists already is an HTTP 500, and a 2xx answer may carry errors. Both become an [*Error], whose class
//     [IsNotFound], [IsExists], [IsTransient], [IsPermanent] and [IsUnreachable] tell.
//   - A source that did not answer is an error, never an empty list, and an answer that did not come from LINSTOR (a
//     proxy's page, a redirect) is an error too, never a missing object.
//   - Every call has a deadline, because LINSTOR holds a request open for as long as a satellite hangs.
//   - Every write asks [Options.BeforeWrite] first, so that a leader which lost its lease stops writing at once.
//   - Nothing is retried here. A repeated write is harmless for some calls and destroys data with others; the caller
//     observes again and decides.
//
// Answers that are successful but say that nothing happened (a satellite that is not connected, a node that is evicted)
// are successes here: after every write the next observation decides.
package linstor
