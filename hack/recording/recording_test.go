package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDemo: the image in the documentation is what is drawn of the recording, and small.
func TestDemo(t *testing.T) {
	dir := filepath.Join("..", "..", "docs")
	want, err := os.ReadFile(filepath.Join(dir, "demo.svg"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := run("", filepath.Join(dir, "demo.cast"), nil, &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Error("docs/demo.svg is out of date: run go run ./hack/recording -draw docs/demo.cast > docs/demo.svg")
	}
	if n := len(want); n > 150_000 {
		t.Errorf("the image has %d bytes, which is too much for the first page", n)
	}
	for _, phase := range []string{"Assessing", "KernelModule", "Canary", "Ready"} {
		if !strings.Contains(string(want), " "+phase+" ") {
			t.Errorf("the image does not show the phase %s", phase)
		}
	}
}

func TestTakeAndRead(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time {
		now = now.Add(250 * time.Millisecond)
		return now
	}
	var cast strings.Builder
	if err := take(strings.NewReader("$ kubectl get <x>\n\nlast"), &cast, clock); err != nil {
		t.Fatal(err)
	}
	got, err := read(strings.NewReader(cast.String()))
	if err != nil {
		t.Fatal(err)
	}
	want := []line{{0, "$ kubectl get <x>"}, {250 * time.Millisecond, ""}, {500 * time.Millisecond, "last"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{})); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	const head = `{"version": 2, "width": 80, "height": 24}` + "\n"
	for name, text := range map[string]string{
		"nothing":            "",
		"another version":    `{"version": 3}`,
		"no JSON":            head + "x",
		"two parts":          head + `[1, "o"]`,
		"what was typed":     head + `[1, "i", "x\r\n"]`,
		"half a line":        head + `[1, "o", "x"]`,
		"times that go back": head + `[2, "o", "x\r\n"]` + "\n" + `[1, "o", "x\r\n"]`,
	} {
		if lines, err := read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read as %v", name, lines)
		}
	}
}

// TestDrawing: all lines up to the end are there, escaped, cut and in time, and the window has moved to the last one.
func TestDrawing(t *testing.T) {
	lines := []line{{0, "$ a < b & c"}, {time.Hour, strings.Repeat("x", columns+1)}}
	for i := range rows {
		lines = append(lines, line{time.Hour, fmt.Sprintf("line %d", i)})
	}
	lines = append(lines, line{time.Hour, end + " storagecluster"}, line{time.Hour, "not drawn"})
	drawn := drawing(lines)
	for _, want := range []string{
		"$ a &lt; b &amp; c</text>", strings.Repeat("x", columns-1) + "…</text>",
		fmt.Sprintf("animation-delay:%dms", longest.Milliseconds()),
		fmt.Sprintf("#s{transform:translateY(-%dpx)", 2*lineHeight),
	} {
		if !strings.Contains(drawn, want) {
			t.Errorf("the image lacks %s", want)
		}
	}
	if strings.Contains(drawn, "not drawn") {
		t.Error("the image goes on after its end")
	}
	d := xml.NewDecoder(strings.NewReader(drawn))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if short := drawing(lines[:1]); strings.Contains(short, "#s{transform") {
		t.Error("one line makes the window move")
	}
}

func TestRunWantsOneFlag(t *testing.T) {
	for _, flags := range [][2]string{{"", ""}, {"a", "b"}} {
		if err := run(flags[0], flags[1], nil, io.Discard); err == nil {
			t.Errorf("-record %q -draw %q is accepted", flags[0], flags[1])
		}
	}
}
