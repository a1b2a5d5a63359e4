// Package bundle tests the OLM bundle below deploy/olm with the validators that catalogues apply.
//
// It is a Go module of its own, since the operator framework's library brings others along, none of which the operator
// needs, and in versions of its own.
package bundle
