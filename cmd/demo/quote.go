package main

import (
	"regexp"
	"strings"
)

// plain is what a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote makes one word of a shell of a text.
func quote(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// commandLine is a command that can be pasted into a shell.
func commandLine(program string, args ...string) string {
	words := []string{program}
	for _, a := range args {
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}
