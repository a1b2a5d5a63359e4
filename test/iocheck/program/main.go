// Command iocheck writes and checks records on a volume; see package iocheck. It is copied into a container or a guest
// and run there, so that a fault of the node or of the network hits it as it would hit an application.
//
//	iocheck clear PATH ID BLOCKS
//	iocheck write PATH ID BLOCKS       prints "safe N" for each record that is safe
//	iocheck check PATH ID BLOCKS SAFE  prints the newest record and what is wrong; exit code 1 if anything is
//
// PATH is a block device or a file, ID 32 hexadecimal digits.
package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linstor-dev/storagecluster-operator/test/iocheck"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "iocheck:", err)
		os.Exit(1)
	}
}

// pause is how long the writer waits between records, and before it reads again.
const pause = 2 * time.Millisecond

func run(args []string) error {
	if len(args) < 4 {
		return errors.New("usage: iocheck clear|write|check PATH ID BLOCKS [SAFE]")
	}
	var set iocheck.Set
	id, err := hex.DecodeString(args[2])
	if err != nil || len(id) != len(set.ID) {
		return fmt.Errorf("ID %s: want %d hexadecimal digits", args[2], 2*len(set.ID))
	}
	set.ID = iocheck.ID(id)
	if set.Blocks, err = strconv.ParseUint(args[3], 10, 32); err != nil {
		return fmt.Errorf("BLOCKS %s: %w", args[3], err)
	}
	flags := os.O_RDWR | unix.O_DIRECT
	if args[0] == "clear" {
		flags |= os.O_CREATE // a file, if it is no device
	}
	volume, err := os.OpenFile(args[1], flags, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = volume.Close() }()
	// Direct I/O requires buffers that are aligned to a page.
	buffer, err := unix.Mmap(-1, 0, iocheck.BlockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	switch args[0] {
	case "clear":
		return set.Clear(volume, buffer)
	case "write":
		return write(set, volume, buffer)
	case "check":
		return check(set, volume, buffer, args[4:])
	default:
		return fmt.Errorf("unknown command %s", args[0])
	}
}

func write(set iocheck.Set, volume *os.File, buffer []byte) error {
	last, err := set.Last(volume, buffer)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		close(stop)
	}()
	w := iocheck.Writer{Set: set, Volume: volume, Buffer: buffer, Next: last + 1, Pause: pause,
		Safe: func(number uint64) error {
			_, err := fmt.Println("safe", number)
			return err
		}}
	return w.Run(stop)
}

func check(set iocheck.Set, volume *os.File, buffer []byte, args []string) error {
	if len(args) != 1 {
		return errors.New("check needs the last record that is safe")
	}
	safe, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return fmt.Errorf("SAFE %s: %w", args[0], err)
	}
	r, err := set.Check(volume, buffer, safe, func() { <-time.After(100 * pause) })
	if err != nil {
		return err
	}
	fmt.Println("last", r.Last)
	for _, f := range r.Faults {
		fmt.Println(f)
	}
	if len(r.Faults) > 0 {
		return fmt.Errorf("%d of %d blocks are not as they should be", len(r.Faults), set.Blocks)
	}
	return nil
}
