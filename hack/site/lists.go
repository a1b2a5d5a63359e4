package main

import (
	"regexp"
	"strings"
)

// lists indents what belongs to the item of a list as Python's Markdown wants it: by four columns for each level, with
// an empty line before the first item. In the repository it is indented by the width of the item's mark.
type lists struct {
	// begin are the columns in which the text of the open items begins.
	begin []int
	// fenced reports whether the last line was code between fences, which moves as its fence did.
	fenced bool
	moved  int
	// blank reports whether the last line was empty, or there was none.
	blank, begun bool
}

var item = regexp.MustCompile(`^ *(?:[*+-]|\d+[.)]) +`)

// step is how much Python's Markdown indents a level.
const step = 4

// next takes the next line, and returns what is to be written.
func (l *lists) next(line string) []string {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	fence := strings.HasPrefix(text, "```")
	if l.fenced {
		l.fenced = !fence
		return []string{shift(line, l.moved)}
	}
	if text == "" {
		l.blank = true
		return []string{""}
	}
	first := !l.blank && l.begun && len(l.begin) == 0
	lazy := !l.blank && !fence && !strings.HasPrefix(text, "#") && !strings.HasPrefix(text, "|")
	l.blank, l.begun, l.fenced = false, true, fence
	if mark := item.FindString(line); mark != "" && !fence {
		l.leave(indent)
		out := strings.Repeat(" ", step*len(l.begin)) + text
		l.begin = append(l.begin, len(mark))
		if first {
			return []string{"", out}
		}
		return []string{out}
	}
	if !lazy {
		l.leave(indent)
	}
	l.moved = 0
	if n := len(l.begin); n > 0 {
		l.moved = max(0, step*n-min(indent, l.begin[n-1]))
	}
	return []string{shift(line, l.moved)}
}

// leave ends the items whose text begins further to the right.
func (l *lists) leave(indent int) {
	for len(l.begin) > 0 && indent < l.begin[len(l.begin)-1] {
		l.begin = l.begin[:len(l.begin)-1]
	}
}

func shift(line string, by int) string {
	if line == "" {
		return ""
	}
	return strings.Repeat(" ", by) + line
}
