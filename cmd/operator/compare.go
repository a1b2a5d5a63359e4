package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/difference"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
)

// compareExport compares an export of LINSTOR's database with listings of what lies on the nodes: the files of a
// directory, each with the name of a LINSTOR node. It prints what differs, and fails if anything does.
func compareExport(out io.Writer, path, listings string) error {
	if listings == "" {
		return errors.New("--listings: name the directory with the listings of the nodes")
	}
	file, err := openExport(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	layout, err := export.ReadLayout(bufio.NewReader(file))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	nodes, err := readListings(listings)
	if err != nil {
		return err
	}
	differences := difference.Compare(layout, nodes)
	if len(differences) == 0 {
		_, err := fmt.Fprintf(out, "no difference: the %d volumes and snapshots of the export lie on %d nodes as it says\n",
			len(layout.Stored), len(layout.Nodes))
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "DIFFERENCE\tNODE\tPLACE\tNAME\tDETAILS") // what is written to is asked at the end
	for _, d := range differences {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", d.Kind, d.Node, d.Place, d.Name, d.Says)
	}
	return errors.Join(table.Flush(), fmt.Errorf("%s and the nodes differ in %d ways", path, len(differences)))
}

// openExport opens the file with an export, or the standard input for -.
func openExport(path string) (*os.File, error) {
	if path == "-" {
		return os.Stdin, nil
	}
	return os.Open(path)
}

// readListings reads the listings in a directory, by node.
func readListings(dir string) (map[string]*listing.Listing, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("--listings: %w", err)
	}
	nodes := map[string]*listing.Listing{}
	for _, e := range entries {
		file, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		nodes[e.Name()], err = listing.Parse(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
	}
	return nodes, nil
}
