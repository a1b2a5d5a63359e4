package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/guard"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/pods"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/snapshot"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// bindMembers makes the flags with which this program runs in the pods of members of etcd.
func bindMembers(fs *flag.FlagSet, s *settings) {
	fs.StringVar(&s.taken, strings.TrimPrefix(pods.FlagTake, "--"), "",
		"etcd member: copy the files that it needs into its pod, and exit")
	fs.StringVar(&s.started, strings.TrimPrefix(pods.FlagStart, "--"), "",
		"etcd member: start etcd if the member may start with the existing data")
	fs.StringVar(&s.looked, strings.TrimPrefix(pods.FlagLook, "--"), "",
		"etcd data directory: report its contents, and exit")
	fs.StringVar(&s.saved, strings.TrimPrefix(pods.FlagSave, "--"), "",
		"configuration as JSON: take a snapshot of an etcd member, print its details, and exit")
}

// takeMember takes what a member of etcd is to run with into its pod, and this program with it: etcd's image has no
// guard, and no shell that could start one.
func takeMember(p guard.Paths, program string) error {
	if err := copyProgram(program); err != nil {
		return fmt.Errorf("copy this binary for the etcd container: %w", err)
	}
	return guard.Take(p)
}

// copyProgram copies this program. It is put in place as a whole: after a power failure the container that it is for
// must not start half of one.
func copyProgram(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	file, err := os.OpenFile(to+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700) //nolint:gosec // it is run
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// startMember becomes etcd, if the member may start on the data that is there.
func startMember(p guard.Paths) error { return guard.Start(p, time.Now(), syscall.Exec) }

// mostOfError is how many bytes of an error are reported. The kubelet keeps 4096 bytes of what a container leaves, and
// half a report cannot be read.
const mostOfError = 2048

// saveEtcd takes a snapshot of a member into a directory, and leaves a note of it, or of why there is none.
func saveEtcd(config, dir, note string) error {
	var c snapshot.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("read the snapshot configuration: %w", err)
	}
	// A pod that is deleted takes what it has written so far with it: it may be as large as the database.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	taken, err := snapshot.Take(ctx, dir, c)
	if err != nil {
		err = fmt.Errorf("snapshot %s: %w", c.ID, err)
		taken.Error = text.Head(err.Error(), mostOfError)
	}
	return errors.Join(err, writeNote(note, taken))
}

// lookForEtcd leaves a note of what a data directory has, and how far its log goes: a human may have to choose between
// the data of several members.
func lookForEtcd(dir, note string) error {
	found, err := datadir.Look(dir)
	if err != nil {
		return fmt.Errorf("inspect %s: %w", dir, err)
	}
	if found.Log {
		if found.End, err = datadir.End(dir); err != nil { // it stays unknown
			fmt.Fprintf(os.Stderr, "The log in %s cannot be read: %v\n", dir, err)
		}
	}
	return writeNote(note, found)
}

// writeNote leaves what was found out for the operator.
func writeNote(path string, found any) error {
	out, err := json.Marshal(found)
	if err != nil {
		return err
	}
	return os.WriteFile(path, out, 0o600)
}
