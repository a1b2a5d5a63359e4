// Package guard starts an etcd member on its node. It runs twice in each pod:
//
// Take runs in an init container. It copies what the ConfigMap has for the node into a directory of the pod, and
// reports it. From then on the pod uses this copy: a mounted ConfigMap changes at any time, up to two minutes after it
// was written, so that nobody could say with what a member was started.
//
// Start is the command of etcd's container, and so it runs before each start of etcd; an init container does not run
// again when only a container restarts. It refuses a data directory that is lost, that belongs to another member, or
// on which a later release has run, and becomes etcd otherwise. It forces a new cluster once for each recovery; it
// never does for one at which it has found another member running.
//
// Both report in the termination message of their container, where package pods reads it for the operator. The kubelet
// publishes that when the container has ended; both write to the log, too, where the log of the member ends.
package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/configfile"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/datadir"
	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/seats"
)

// Order is what a node's key of the ConfigMap has, as JSON.
type Order struct {
	Format        seats.Format        `json:"format"`
	Configuration seats.Configuration `json:"configuration"`
	// File is etcd's configuration file, see configfile.Write.
	File string `json:"file"`
}

// Report is a termination message.
type Report struct {
	Configuration seats.Configuration `json:"configuration"`
	// Refusal is why etcd was not started; "" if it was, and from the init container.
	Refusal seats.Refusal `json:"refusal,omitempty"`
	Message string        `json:"message,omitempty"`
	// Log is where the member's log ended; nil if there is none that can be read.
	Log *datadir.Log `json:"log,omitempty"`
	// Found is what the data directory has; nil if it cannot be looked into. Whose data it is may be news to the
	// operator: Kubernetes, with the operator's notes in it, may have been restored to an earlier time than that of the
	// disks.
	Found *datadir.Found `json:"found,omitempty"`
}

// Parse reads a termination message. It returns false for one that is not the guard's, such as etcd's own log.
func Parse(message string) (Report, bool) {
	var r Report
	err := json.Unmarshal([]byte(message), &r)
	return r, err == nil && r.Configuration.Name != ""
}

// Paths are where a pod has its files, and whose pod it is.
type Paths struct {
	// Member is the one that the pod's DaemonSet is for.
	Member string
	// Mounted is the node's key of the mounted ConfigMap, Work a directory that lives as long as the pod (an emptyDir).
	Mounted, Work string
	// Data is etcd's data directory, Message the container's termination message.
	Data, Message string
	// Etcd is etcd's binary.
	Etcd string
	// Log finds the end of the log in a data directory; nil for nothing.
	Log func(dir string) (datadir.Log, error)
}

// The files in Paths.Work.
const (
	order = "order.json"
	file  = "etcd.yaml"
)

// Take copies the order and reports it. It keeps a copy that is there already: a node that reboots runs init
// containers again, and what was reported of a pod must hold for its life. It takes no order of another member, as the
// kubelet's copy of the ConfigMap may still have: the kubelet runs it again.
func Take(p Paths) error {
	o, text, err := p.read(filepath.Join(p.Work, order))
	if err != nil {
		o, text, err = p.read(p.Mounted)
	}
	if err != nil {
		return err
	}
	if err := datadir.Write(filepath.Join(p.Work, order), text); err != nil {
		return err
	}
	return p.report(p.looked(o.Configuration))
}

// read is an order of the member.
func (p Paths) read(path string) (o Order, text []byte, err error) {
	text, err = os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if name := o.Configuration.Name; err == nil && name != p.Member {
		err = fmt.Errorf("%s is for member %q", path, name)
	}
	if err != nil {
		return o, nil, fmt.Errorf("read the configuration of member %s: %w", p.Member, err)
	}
	return o, text, nil
}

// looked is a report of what the data directory has. The log of another member that was on the node says nothing about
// this one: a human would have a new cluster made of less than it seems.
func (p Paths) looked(c seats.Configuration) Report {
	r := Report{Configuration: c}
	found, err := datadir.Look(p.Data)
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot read the data directory of member %s: %v\n", p.Member, err)
		return r
	}
	r.Found = &found
	if p.Log != nil && found.Log && found.Owner.Has(c.Name, c.Token) {
		r.Log = p.log()
	}
	return r
}

// log is the end of the member's log; nil if it cannot be read.
func (p Paths) log() *datadir.Log {
	l, err := p.Log(p.Data)
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot read the log of member %s: %v\n", p.Member, err)
		return nil
	}
	fmt.Fprintf(os.Stderr, "the log of member %s ends at term %d, index %d; it is committed at least up to index %d\n",
		p.Member, l.Term, l.Index, l.Commit)
	return &l
}

// Exec replaces the process, as syscall.Exec does. It returns only if that fails.
type Exec func(path string, args, env []string) error

// Start prepares the data directory and becomes etcd. It returns an error if it must not, or cannot.
func Start(p Paths, now time.Time, exec Exec) error {
	o, _, err := p.read(filepath.Join(p.Work, order))
	if err != nil {
		return err
	}
	if err := start(p, o, now, exec); err != nil {
		r := p.looked(o.Configuration)
		r.Refusal, r.Message = seats.Failed, err.Error()
		switch {
		case errors.Is(err, datadir.ErrLost):
			r.Refusal = seats.Lost
		case errors.Is(err, datadir.ErrFound):
			r.Refusal = seats.Found
		case errors.Is(err, datadir.ErrOlder):
			r.Refusal = seats.Older
		case errors.Is(err, datadir.ErrAlive):
			r.Refusal = seats.Alive
		}
		return errors.Join(fmt.Errorf("etcd member %s was not started: %w", o.Configuration.Name, err), p.report(r))
	}
	return nil
}

func start(p Paths, o Order, now time.Time, exec Exec) error {
	done, err := datadir.Prepare(p.Data, o.Configuration.Expectation, now)
	if err != nil {
		return err
	}
	if done.Anew {
		fmt.Fprintf(os.Stderr, "the first start of member %s ended before anything was written to its log; starting over\n",
			p.Member)
	}
	if done.Force {
		if err := alone(o.Configuration.Others); err != nil {
			return errors.Join(err, datadir.Recall(p.Data, o.Configuration.Expectation))
		}
	}
	if err := datadir.MarkRun(p.Data, o.Configuration.Version); err != nil {
		return err
	}
	text := o.File
	if done.Force {
		if err := datadir.MarkForced(p.Data, o.Configuration.Expectation); err != nil {
			return err
		}
		text = configfile.Forced(text)
	}
	config := filepath.Join(p.Work, file)
	if err := datadir.Write(config, []byte(text)); err != nil {
		return err
	}
	// The message of a start that was refused must not outlive it.
	if err := p.report(p.looked(o.Configuration)); err != nil {
		return err
	}
	return exec(p.Etcd, []string{p.Etcd, "--config-file=" + config}, os.Environ())
}

// alone returns datadir.ErrAlive if a member accepts a connection at one of the peer URLs.
func alone(urls string) error {
	dialer := net.Dialer{Timeout: 3 * time.Second}
	for _, text := range strings.FieldsFunc(urls, func(r rune) bool { return r == ',' }) {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		c, err := dialer.DialContext(context.Background(), "tcp", u.Host)
		if err != nil {
			continue // nobody is there
		}
		return errors.Join(fmt.Errorf("%w: it accepts connections at %s", datadir.ErrAlive, text), c.Close())
	}
	return nil
}

// report writes the message itself: it is a file that the kubelet has mounted, and cannot be renamed over.
func (p Paths) report(r Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(p.Message, text, 0o600)
}
