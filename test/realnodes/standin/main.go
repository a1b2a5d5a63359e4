// Command standin is the program in the images that the tests build: the pause container of pod sandboxes, and
// containers that end in a particular way.
//
//	standin program         is the program of its container, which runs in the tests' process
//	standin pause           waits for SIGTERM
//	standin exit CODE TEXT  prints the text, and ends with the code
//	standin say TEXT        writes the text to the termination log, and succeeds
//	standin eat             allocates memory until the kernel kills it
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

func main() {
	args := os.Args[1:]
	switch filepath.Base(os.Args[0]) {
	case "standin":
	case "pause":
		args = []string{"pause"}
	default: // the name of a program of LINSTOR's or DRBD's images
		args = []string{"program"}
	}
	if err := do(args); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(2)
	}
}

func do(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("nothing to do: %q", os.Args)
	}
	switch op := args[0]; {
	case op == "program":
		return runProgram()
	case op == "pause":
		waitForStop()
		return nil
	case op == "exit" && len(args) == 3:
		code, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		fmt.Println(args[2])
		os.Exit(code)
	case op == "say" && len(args) == 2:
		return os.WriteFile("/dev/termination-log", []byte(args[1]), 0o644)
	case op == "eat":
		eat()
	}
	return fmt.Errorf("unknown: %q", args)
}

func waitForStop() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

// eat writes to each page that it allocates: memory that was only reserved does not count.
func eat() {
	fmt.Println("eating")
	for kept := []byte{}; ; {
		kept = slices.Grow(kept, 1<<20)[:len(kept)+1<<20]
		for i := len(kept) - 1<<20; i < len(kept); i += os.Getpagesize() {
			kept[i] = 1
		}
	}
}
