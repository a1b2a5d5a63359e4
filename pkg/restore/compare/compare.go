// Package compare compares a backup in a store with the listings of nodes. It runs in a pod of its own, which is the
// only one that needs the store's credentials for that: what nodes list they serve themselves (pkg/restore/listing).
package compare

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linstor-dev/storagecluster-operator/pkg/backup/export"
	"github.com/linstor-dev/storagecluster-operator/pkg/backup/store"
	"github.com/linstor-dev/storagecluster-operator/pkg/limit"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/difference"
	"github.com/linstor-dev/storagecluster-operator/pkg/restore/listing"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Config says which backup is compared, and with what.
type Config struct {
	// Cluster is the Cluster/LocalID of the database that was backed up, and ID the backup's: the newest of that name.
	Cluster string   `json:"cluster"`
	ID      store.ID `json:"id"`
	// Store is where the backup is, and Credentials the directory with the credentials of an S3 service.
	Store       store.Location `json:"store"`
	Credentials string         `json:"credentials,omitempty"`
	// Token is what listings are served for.
	Token string `json:"token"`
	// Nodes are the addresses at which listings are served, host and port, by the nodes' names in LINSTOR; "" for a node
	// that has none.
	Nodes    map[string]string `json:"-"`
	Machines Machines          `json:"-"`
}

// Machines are the addresses that machines have now, by their names in Kubernetes.
type Machines map[string][]string

// Set notes addresses of a machine, from "node=address,address".
func (m Machines) Set(text string) error {
	machine, addresses, ok := strings.Cut(text, "=")
	if !ok || machine == "" {
		return fmt.Errorf("%q is not of the form node=address,address", text)
	}
	m[machine] = append(m[machine], strings.Split(addresses, ",")...)
	return nil
}

// Texts are the machines as Set takes them, sorted.
func (m Machines) Texts() (texts []string) {
	for _, machine := range slices.Sorted(maps.Keys(m)) {
		texts = append(texts, machine+"="+strings.Join(m[machine], ","))
	}
	return texts
}

// SetNode notes where the listing of a node is served, from "node=address".
func (c *Config) SetNode(text string) error {
	node, address, ok := strings.Cut(text, "=")
	if !ok || node == "" {
		return fmt.Errorf("%q is not of the form node=host:port", text)
	}
	if c.Nodes == nil {
		c.Nodes = map[string]string{}
	}
	c.Nodes[node] = address
	return nil
}

// NodeTexts are the nodes as SetNode takes them, sorted.
func (c *Config) NodeTexts() (texts []string) {
	for _, node := range slices.Sorted(maps.Keys(c.Nodes)) {
		texts = append(texts, node+"="+c.Nodes[node])
	}
	return texts
}

// ParseConfig reads a Config from JSON. An error names the field.
func ParseConfig(text string) (*Config, error) {
	c := &Config{}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("parse the comparison configuration: %w", err)
	}
	_, errID := store.ParseID(string(c.ID))
	var missing error
	if c.Cluster == "" {
		missing = errors.New("the comparison configuration lacks cluster")
	}
	return c, errors.Join(missing, errID)
}

// Result is what a comparison has found.
type Result struct {
	// ID is that of the backup which was compared, and SHA256 the checksum by which it is told from others of that ID.
	ID     store.ID `json:"id"`
	SHA256 string   `json:"sha256"`
	// Taken is when it was taken, and Linstor the version of LINSTOR that it was taken of.
	Taken   time.Time `json:"taken"`
	Linstor string    `json:"linstor"`
	// Stored is how many volumes and snapshots it has on nodes, and Nodes how many nodes were looked into.
	Stored int `json:"stored"`
	Nodes  int `json:"nodes"`
	// Digest is another one for other differences; "" for none.
	Digest string `json:"digest,omitempty"`
	// Addresses are those that the backup has for one node and another machine has. All of them, or LINSTOR would be
	// started while a satellite answers at one.
	Addresses []difference.TakenAddress `json:"addresses,omitempty"`
	// Found counts the differences of each kind, and Worst are a few of them, in words.
	Found map[difference.Kind]int `json:"found,omitempty"`
	Worst []string                `json:"worst,omitempty"`
	// all are the differences themselves.
	all []difference.Difference
}

const (
	// shown is how many differences a note has in words, and longest how many characters each may have: a container's
	// termination log holds 4096 bytes.
	shown, longest = 10, 300
	mostBytes      = 4096
	// parallel is how many listings are got at once, and patience how long it may take to get all.
	parallel, patience = 64, 10 * time.Minute
)

// Run compares the backup with the listings. One that cannot be got, or is broken, counts as none: the node is named
// among the differences, and errors says why.
func Run(ctx context.Context, c *Config, errs io.Writer) (*Result, error) {
	if len(c.Machines) == 0 {
		return nil, errors.New("no machine addresses were given to compare with the addresses in the backup")
	}
	from, err := store.Connect(c.Store, c.Cluster, c.Credentials)
	if err != nil {
		return nil, err
	}
	backup, err := from.Newest(ctx, c.ID)
	if err != nil {
		return nil, fmt.Errorf("find backup %s in the store: %w", c.ID, err)
	}
	if backup == nil {
		return nil, fmt.Errorf("the store has no backup %s of the cluster with Cluster/LocalID %s", c.ID, c.Cluster)
	}
	layout, err := layoutOf(ctx, from, backup)
	if err != nil {
		return nil, fmt.Errorf("read backup %s: %w", c.ID, err)
	}
	room := listing.Room()
	nodes := gather(ctx, c, room, errs)
	if err := cmp.Or(ctx.Err(), room.Take(0)); err != nil { // else what was not got would look as if it was not there
		return nil, err
	}
	taken := difference.TakenAddresses(layout, c.Machines)
	r := &Result{ID: backup.ID, SHA256: backup.SHA256, Taken: backup.Export.Taken, Linstor: backup.Export.Linstor,
		Stored: len(layout.Stored), Addresses: taken, all: difference.Compare(layout, nodes, taken)}
	if len(r.all) > 0 {
		r.Digest = text.Digest(r.all)
	}
	for _, l := range nodes {
		if l != nil {
			r.Nodes++
		}
	}
	for i := range r.all {
		d := &r.all[i]
		if r.Found == nil {
			r.Found = map[difference.Kind]int{}
		}
		if r.Found[d.Kind]++; len(r.Worst) < shown {
			r.Worst = append(r.Worst, text.Head(d.String(), longest))
		}
	}
	return r, nil
}

// layoutOf reads the whole of a backup, of which nothing counts before its checksum was compared.
func layoutOf(ctx context.Context, from *store.Store, backup *store.Backup) (*export.Layout, error) {
	r, err := from.Open(ctx, backup)
	if err != nil {
		return nil, err
	}
	layout, err := export.ReadLayout(bufio.NewReader(r))
	return layout, errors.Join(err, r.Close())
}

// gather gets the listings, of each node one or nil, as far as there is room.
func gather(ctx context.Context, c *Config, room *limit.Budget, errs io.Writer) map[string]*listing.Listing {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var mu sync.Mutex
	nodes := map[string]*listing.Listing{}
	var g errgroup.Group
	g.SetLimit(parallel)
	for node := range c.Nodes {
		nodes[node] = nil
	}
	for node, address := range c.Nodes {
		if address == "" {
			continue
		}
		g.Go(func() error {
			l, err := listing.Get(ctx, address, c.Token, room)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				_, _ = fmt.Fprintf(errs, "the volume list of node %s cannot be read: %v\n", node, err)
				return nil
			}
			nodes[node] = l
			return nil
		})
	}
	_ = g.Wait()
	return nodes
}

// Note is the result in a few words of JSON, for the termination log of a container. It leaves words out that have no
// room there: a kubelet cuts what is too long, and nobody could read the rest. Addresses are never left out.
func (r *Result) Note() ([]byte, error) {
	short := *r
	for {
		var note bytes.Buffer
		e := json.NewEncoder(&note)
		e.SetEscapeHTML(false)
		if err := e.Encode(&short); err != nil || note.Len() <= mostBytes {
			return note.Bytes(), err
		}
		if len(short.Worst) == 0 {
			return nil, fmt.Errorf("%d node addresses in the backup now belong to other machines, which is too many to stop "+
				"the satellites there: give the nodes their previous addresses, or use a newer backup", len(r.Addresses))
		}
		short.Worst = short.Worst[:len(short.Worst)-1]
	}
}

// ParseNote reads a note. One that does not say what was compared is an error.
func ParseNote(text string) (*Result, error) {
	r := &Result{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("parse the comparison result: %w", err)
	}
	if _, err := store.ParseID(string(r.ID)); err != nil || r.Taken.IsZero() {
		return nil, errors.New("the comparison result lacks the compared backup's ID or time")
	}
	return r, nil
}

// Print prints all differences as a table, the worst first.
func (r *Result) Print(out io.Writer) error { return Print(out, r.all, r.Stored, r.Nodes) }

// Print prints differences as a table, the worst first, or that the volumes and snapshots of a backup lie on so many
// nodes as it says.
func Print(out io.Writer, all []difference.Difference, stored, nodes int) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(out,
			"no differences: compared %d volumes and snapshots in the export with %d nodes\n", stored, nodes)
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "DIFFERENCE\tNODE\tPLACE\tNAME\tDETAILS") // what is written to is asked at the end
	for i, d := range all {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", d.Kind, d.Node, d.Place, d.Name, d.Says)
		if i%1000 == 999 { // it keeps what is not flushed in memory
			_ = table.Flush()
		}
	}
	return table.Flush()
}
