package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/compare"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/difference"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
)

// compareExport compares an export of LINSTOR's database with listings of what lies on the nodes: the files of a
// directory, each with the name of a LINSTOR node; and its addresses with those of machines. It prints what differs,
// and fails if anything does.
func compareExport(out io.Writer, path, listings string, machines compare.Machines) error {
	if listings == "" {
		return errors.New("--listings: specify the directory that contains the nodes' listings")
	}
	if len(machines) == 0 {
		return errors.New("--compare-address: specify the addresses of all Kubernetes nodes and satellite pods")
	}
	layout, err := readExport(path, export.ReadLayout)
	if err != nil {
		return err
	}
	nodes, err := readListings(listings)
	if err != nil {
		return err
	}
	differences := difference.Compare(layout, nodes, difference.TakenAddresses(layout, machines))
	err = compare.Print(out, differences, len(layout.Stored), len(layout.Nodes))
	if err != nil || len(differences) == 0 {
		return err
	}
	return fmt.Errorf("differences between %s and the nodes: %d", path, len(differences))
}

// sameRows fails unless two exports hold the same rows. It names where they differ, and no value.
func sameRows(path, other string) error {
	x, err := readExport(path, export.ReadContents)
	if err != nil {
		return err
	}
	y, err := readExport(other, export.ReadContents)
	if err != nil {
		return err
	}
	if differs := x.Differ(y); differs != "" {
		return fmt.Errorf("%s and %s do not have the same rows: %s", path, other, differs)
	}
	_, err = fmt.Fprintf(os.Stdout, "%s and %s have the same rows\n", path, other)
	return err
}

// compareBackup compares a backup in its store with what nodes list, and prints what differs. In a pod it leaves a
// note for the operator as well. A difference is no failure: whoever runs this reads what it found.
func compareBackup(config string, nodes []string, machines compare.Machines) error {
	c, err := compare.ParseConfig(config)
	if err != nil {
		return fmt.Errorf("--compare-backup: %w", err)
	}
	c.Machines = machines
	for _, node := range nodes {
		if err := c.SetNode(node); err != nil {
			return fmt.Errorf("--compare-node: %w", err)
		}
	}
	result, err := compare.Run(ctrl.SetupSignalHandler(), c, os.Stderr)
	if err != nil {
		return err
	}
	if err := result.Print(os.Stdout); err != nil {
		return err
	}
	return leaveNote(result.Note())
}

// serveListing serves the listing of this node until a signal comes.
func serveListing(file, token string) error {
	ctx := ctrl.SetupSignalHandler()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprint(":", listing.Port))
	if err != nil {
		return err
	}
	return listing.Serve(ctx, l, file, token)
}

// readExport reads the file with an export, or the standard input for -.
func readExport[T any](path string, read func(io.Reader) (*T, error)) (*T, error) {
	file := os.Stdin
	if path != "-" {
		var err error
		if file, err = os.Open(path); err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
	}
	what, err := read(bufio.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return what, nil
}

// readListings reads the listings in a directory, by node.
func readListings(dir string) (map[string]*listing.Listing, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("--listings: %w", err)
	}
	nodes, room := map[string]*listing.Listing{}, listing.Room()
	for _, e := range entries {
		file, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		nodes[e.Name()], err = listing.Parse(file, room)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
	}
	return nodes, nil
}
