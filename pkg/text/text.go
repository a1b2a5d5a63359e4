// Package text counts, lists and shortens what messages are made of.
package text

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// StatusLine is how long a message in a status can be, in characters.
const StatusLine = 256

// OneLine makes a message that ends in an error fit for a status: one line, its end kept because causes come last.
func OneLine(s string) string { return Tail(s, StatusLine) }

// Sentence makes a message of the operator's own fit for a status: one line. What is too long loses its middle, since
// it begins with the fact and may end in an error's cause.
func Sentence(s string) string {
	const head = StatusLine * 2 / 3
	s = joined(s)
	if r := []rune(s); len(r) > StatusLine {
		return string(r[:head]) + Tail(string(r[head:]), StatusLine-head)
	}
	return s
}

// Tail is the end of a text in one line.
func Tail(s string, limit int) string {
	s = joined(s)
	if r := []rune(s); len(r) > limit {
		return "…" + string(r[len(r)-limit+1:])
	}
	return s
}

// Beginning is the beginning of a foreign text, in one line without control characters.
func Beginning(s string, limit int) string {
	s = joined(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

// joined is a text in one line.
func joined(s string) string { return strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ") }

// Fill breaks a text between words into lines of so many characters at most. The first line has its own room, and a
// longer word a line of its own.
func Fill(s string, first, rest int) []string {
	var out []string
	line, room := "", first
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= room:
			line += " " + word
		default:
			out, line, room = append(out, line), word, rest
		}
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}

// Head is the beginning of a text, of so many characters at most.
func Head(s string, limit int) string {
	r := []rune(s)
	return string(r[:min(len(r), limit)])
}

// NodesOf is a number of nodes in words.
func NodesOf(n int) string { return Amount(n, "node", "nodes") }

// Amount is a number of things, in the singular for one.
func Amount(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// MostResources bounds the names of volumes in holds and messages.
const MostResources = 10

// ListSome names ten at most and counts the rest.
func ListSome(names []string) string {
	return Listed(names[:min(len(names), MostResources)], len(names))
}

// QuoteList names three examples at most.
func QuoteList(names []string) string { return Listed(names[:min(len(names), 3)], len(names)) }

// Listed is a list of n things of which these are named.
func Listed(names []string, n int) string {
	out := strings.Join(names, ", ")
	if n > len(names) {
		out += fmt.Sprintf(" and %d more", n-len(names))
	}
	return out
}

// JSONBytes is the size of a value's JSON; 0 for a value that has none.
func JSONBytes(v any) int {
	data, _ := json.Marshal(v)
	return len(data)
}

// Digest is a short fingerprint of a value's JSON.
func Digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", v, err)) // only values of our own types come here
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
