// Command recording keeps what a program prints, with the times, and draws it as an image that plays it:
//
//	make -s demo DEMO_EXIT=1 | go run ./hack/recording -record docs/demo.cast
//	go run ./hack/recording -draw docs/demo.cast > docs/demo.svg
//
// A recording is a file in asciicast's format, version 2, with one event for each line that was printed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	record := flag.String("record", "", "file to record standard input to")
	draw := flag.String("draw", "", "recording to render as an image")
	flag.Parse()
	if err := run(*record, *draw, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(record, draw string, in io.Reader, out io.Writer) error {
	switch {
	case record != "" && draw == "":
		file, err := os.Create(record)
		if err != nil {
			return err
		}
		// What is recorded can be watched meanwhile.
		return errors.Join(take(io.TeeReader(in, out), file, time.Now), file.Close())
	case draw != "" && record == "":
		file, err := os.Open(draw)
		if err != nil {
			return err
		}
		defer file.Close()
		lines, err := read(file)
		if err != nil {
			return fmt.Errorf("%s: %w", draw, err)
		}
		_, err = io.WriteString(out, drawing(lines))
		return err
	}
	return errors.New("use either -record or -draw")
}
