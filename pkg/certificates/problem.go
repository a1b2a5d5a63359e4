package certificates

import "fmt"

// Problem is what is wrong with an entry of a Secret. It names the entry and the cure, and never what the entry holds.
type Problem struct {
	// Secret and Entry say where, such as "linstor-api-tls" and "tls.crt".
	Secret, Entry string
	// What is wrong continues a sentence that begins with the entry; Cure says what to do, as an order.
	What, Cure string
}

// Error is the whole sentence.
func (p *Problem) Error() string {
	return fmt.Sprintf("%s of Secret %s %s; %s", p.Entry, p.Secret, p.What, p.Cure)
}

// flaw is a Problem before it is known where.
type flaw struct{ what, cure string }

func (f *flaw) in(secret, entry string) *Problem { return &Problem{secret, entry, f.what, f.cure} }
