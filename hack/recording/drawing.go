package main

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// longest is how long the image waits for the next line at most: what was waited for is not worth watching.
	longest = 1200 * time.Millisecond
	// shortest leaves the eye time for each line.
	shortest = 60 * time.Millisecond

	lineHeight, inset, bar = 18, 14, 28
	windowWidth            = 2*inset + columns*79/10 // a character is that many tenths of a point wide
	windowHeight           = bar + rows*lineHeight + inset
	colour, paper, prompts = "#d7dee6", "#17212b", "#8fd694"
)

// end begins the line before which the image ends: what follows in the demo is too long for one.
const end = "$ kubectl describe"

// drawing is an image in SVG that shows the lines as they came, in a window that moves with them, and then rests.
// Where it is shown without motion it shows the end.
func drawing(lines []line) string {
	if i := slices.IndexFunc(lines, func(l line) bool { return strings.HasPrefix(l.text, end) }); i >= 0 {
		lines = lines[:i]
	}
	times := shown(lines)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		windowWidth, windowHeight, windowWidth, windowHeight)
	b.WriteString("<title>A recording of make demo</title>\n<style>\n")
	fmt.Fprintf(&b, "text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:%s}\n",
		colour)
	fmt.Fprintf(&b, ".p{fill:%s}\n@keyframes l{from{visibility:hidden}}\ntext{animation:l 1ms backwards}\n", prompts)
	b.WriteString(scroll(times))
	b.WriteString("@media(prefers-reduced-motion:reduce){text,#s{animation:none}}\n</style>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="%s"/>`+"\n", windowWidth, windowHeight, paper)
	for i, c := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="14" r="5" fill="%s"/>`+"\n", inset+6+i*18, c)
	}
	fmt.Fprintf(&b, `<clipPath id="c"><rect x="0" y="%d" width="%d" height="%d"/></clipPath>`+"\n", bar, windowWidth,
		rows*lineHeight)
	b.WriteString(`<g clip-path="url(#c)"><g id="s">` + "\n")
	for i, l := range lines {
		if l.text == "" {
			continue
		}
		class := ""
		if strings.HasPrefix(l.text, "$ ") {
			class = ` class="p"`
		}
		fmt.Fprintf(&b, `<text%s x="%d" y="%d" style="animation-delay:%dms">`, class, inset, bar+i*lineHeight+13,
			times[i].Milliseconds())
		_ = xml.EscapeText(&b, []byte(cut(l.text))) // a builder does not fail
		b.WriteString("</text>\n")
	}
	b.WriteString("</g></g>\n</svg>\n")
	return b.String()
}

// shown are the times at which the image shows the lines.
func shown(lines []line) []time.Duration {
	out := make([]time.Duration, len(lines))
	for i := 1; i < len(lines); i++ {
		out[i] = out[i-1] + min(max(lines[i].at-lines[i-1].at, shortest), longest)
	}
	return out
}

// scroll is the style that moves the lines up, so that the last one is in the window.
func scroll(times []time.Duration) string {
	over := len(times) - rows
	if over <= 0 {
		return ""
	}
	last := times[len(times)-1]
	var b strings.Builder
	b.WriteString("@keyframes s{0%{transform:none}\n")
	for i := range over {
		fmt.Fprintf(&b, "%.2f%%{transform:translateY(%dpx)}\n", 100*float64(times[rows+i])/float64(last), -(i+1)*lineHeight)
	}
	fmt.Fprintf(&b, "}\n#s{transform:translateY(%dpx);animation:s %dms step-end}\n", -over*lineHeight,
		last.Milliseconds())
	return b.String()
}

// cut shortens what does not fit into the window.
func cut(text string) string {
	if r := []rune(text); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return text
}
