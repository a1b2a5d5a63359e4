// Package datadir decides whether an etcd member may start on the data directory that its node has. It runs before
// each start, on the node, and is the last that can prevent two accidents: that a member which has voted starts on an
// empty directory, and that one starts on the data of something else.
//
// etcd itself prevents neither. A voter whose directory is lost, and which starts under its old name and address, has
// its old ID: it has forgotten what it acknowledged, and its vote may make a leader that has forgotten it, too. With
// etcd 3.7.3 it mostly panics ("tocommit is out of range"), but not before it has taken part.
//
// Data of a former member of the same cluster is renamed, and so is that of a first member whose first start was
// interrupted before it wrote anything. Only the latter is deleted, when it happens again.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/etcd/versions"
)

// What keeps a member from starting.
var (
	// ErrLost: the member has had data, and there is none.
	ErrLost = errors.New("the member's data is lost")
	// ErrFound: there is data that is not this member's, nor that of a former member of its cluster.
	ErrFound = errors.New("the data directory contains foreign data")
	// ErrOlder: etcd is of an earlier minor release than one that has run on the data.
	ErrOlder = errors.New("a later etcd release has used the data")
	// ErrAlive: the member is to be forced, and another one runs or has run since that was chosen.
	ErrAlive = errors.New("another member is running and may have a quorum")
	// ErrBusy: a process has the data open.
	ErrBusy = errors.New("the data is in use")
)

// Mode is what is known of a member's data.
type Mode string

// The modes.
const (
	// Seed is the first member of a new cluster, which was not seen at work yet.
	Seed Mode = "Seed"
	// Join is a learner that was not seen at work yet.
	Join Mode = "Join"
	// Resume is a member that was seen at work: it has data.
	Resume Mode = "Resume"
	// Force is a member that was seen at work, and from whose data a human has a new cluster made.
	Force Mode = "Force"
)

// Expectation is whose data there shall be. It is comparable.
type Expectation struct {
	Name  string `json:"name"`
	Token string `json:"token"`
	Mode  Mode   `json:"mode,omitempty"`
	// Recovery is the ID of the human's choice for which a member is forced; "" in other modes.
	Recovery string `json:"recovery,omitempty"`
}

// resumes reports whether there must be data.
func (e Expectation) resumes() bool { return e.Mode == Resume || e.Mode == Force }

const (
	// marker says whose data a directory has. It lies beside etcd's own files, so that it is lost with them.
	marker = "linstor-member.json"
	// data is the directory that etcd makes.
	data = "member"
	// unbegun is what etcd's directory is renamed to if its log has no entry.
	unbegun = data + ".unbegun"
)

// Owner is what the marker says.
type Owner struct {
	Name  string `json:"name"`
	Token string `json:"token"`
	// Forced is the ID of the recovery for which a new cluster was made from the data last. Each time etcd is forced, it
	// drops the entries that it does not know to be committed, so that it must not be forced again for the same recovery.
	Forced string `json:"forced,omitempty"`
	// Recalled is the ID of one that was not carried out because another member runs. It never will be.
	Recalled string `json:"recalled,omitempty"`
	// Version is the newest that was started on the data. Kubernetes may be restored to before an upgrade, and then only
	// the disk knows of it.
	Version string `json:"version,omitempty"`
}

// Has reports whether the data is that of a member of a cluster.
func (o Owner) Has(name, token string) bool { return o.Name == name && o.Token == token }

// Bears returns ErrOlder if a version must not be started on the data: one of a later minor release was. etcd ends
// itself on what that one has written ("cannot be downgraded"), and says so in its log only. A later release that did
// not come up counts, too: nobody can say what it has written.
func (o Owner) Bears(version string) error {
	minor := versions.Minor(version)
	if minor == "" || !versions.Older(minor+".0", versions.Minor(o.Version)+".0") {
		return nil
	}
	return fmt.Errorf("%w: it was used by etcd %s, but etcd %s is to be started", ErrOlder, o.Version, version)
}

// Log is where a member's log ends.
type Log struct {
	// Term and Index are those of the last entry. All entries up to Commit are known to be committed; those behind it
	// may be.
	Term   uint64 `json:"term"`
	Index  uint64 `json:"index"`
	Commit uint64 `json:"commit"`
}

// Found is what a directory has.
type Found struct {
	// Data reports whether there is anything of etcd's, Log whether there is a log among it. Without a log etcd takes a
	// directory for an empty one, whatever else is there.
	Data, Log bool
	// Unbegun reports whether the log is there and has no entry. Look leaves it false: it does not read logs.
	Unbegun bool `json:",omitempty"`
	// Owner is whom the marker names; the zero value if there is none.
	Owner Owner
	// End is where the log ends, if somebody has read it; else the zero value. Look does not: it takes time.
	End Log `json:",omitzero"`
}

// Verdict is what becomes of a directory.
type Verdict struct {
	// Aside has what is there renamed, Mark the marker written. Force has etcd make a new cluster from the data. Anew has
	// the first member begin again.
	Aside, Mark, Force, Anew bool
	// Err keeps the member from starting.
	Err error
}

// Judge decides by what there is and what shall be.
func Judge(e Expectation, f Found) Verdict {
	own := f.Owner.Has(e.Name, e.Token)
	switch {
	case e.resumes() && own && !f.Log:
		return Verdict{Err: ErrLost}
	case f.Data && own:
		return judgeOwn(e, f)
	case f.Data && e.Mode == Join && f.Owner.Token == e.Token:
		// The operator names each member anew, so another one of this cluster is a former one.
		return Verdict{Aside: true, Mark: true}
	case f.Data:
		return Verdict{Err: ErrFound}
	case e.resumes():
		return Verdict{Err: ErrLost}
	}
	return Verdict{Mark: !own}
}

// judgeOwn decides about the member's own data.
func judgeOwn(e Expectation, f Found) Verdict {
	switch {
	case e.Mode == Seed && f.Unbegun:
		// etcd makes its log, then writes to it that it is a member. One that ends between the two, as it does if the port
		// for its metrics is taken, finds a log at its next start and goes on with it: it is no member, never elects itself
		// and waits for a leader for ever (seen with etcd 3.7.0). A learner gets all that from the leader.
		return Verdict{Anew: true}
	case e.Mode != Force:
		return Verdict{}
	case f.Owner.Recalled == e.Recovery:
		return Verdict{Err: ErrAlive}
	}
	return Verdict{Force: f.Owner.Forced != e.Recovery}
}

// Prepare makes a directory ready for the member that is expected, or returns why the member must not start: ErrLost,
// ErrFound, ErrBusy or what the file system says. It may be interrupted anywhere and repeated. It returns what it has
// done; of that, Force is left to the caller, which MarkForced ends.
func Prepare(dir string, e Expectation, now time.Time) (Verdict, error) {
	if err := e.check(); err != nil {
		return Verdict{}, err
	}
	if !e.resumes() { // of one that has had data, the directory is not made: it may be a disk that is not mounted
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return Verdict{}, err
		}
	}
	found, err := Look(dir)
	if err != nil {
		return Verdict{}, err
	}
	if e.Mode == Seed && found.Log {
		_, err := End(dir)
		found.Unbegun = errors.Is(err, errNoEntry)
	}
	v := Judge(e, found)
	switch {
	case v.Err != nil:
		return v, fmt.Errorf("%w: %s, expected data of %s", v.Err, describe(found), e.Name)
	case v.Anew:
		return v, startAnew(dir)
	case v.Aside:
		if err := setAside(dir, former(dir, now)); err != nil {
			return v, err
		}
	}
	if v.Mark {
		return v, mark(dir, Owner{Name: e.Name, Token: e.Token})
	}
	return v, nil
}

func (e Expectation) check() error {
	switch {
	case !slices.Contains([]Mode{Seed, Join, Resume, Force}, e.Mode):
		return fmt.Errorf("unknown mode %q", e.Mode)
	case e.Name == "" || e.Token == "":
		return errors.New("the member has no name or no token")
	case (e.Mode == Force) != (e.Recovery != ""):
		return fmt.Errorf("mode %q does not allow recovery %q", e.Mode, e.Recovery)
	}
	return nil
}

// MarkForced notes on the disk that a member is forced, and is called before it is. A crash between the two leaves a
// member that is not forced, and a human chooses again.
func MarkForced(dir string, e Expectation) error {
	return remark(dir, func(o *Owner) { o.Forced = e.Recovery })
}

// MarkRun notes on the disk which version is started, and is called before it is. It returns ErrOlder if that must not
// be.
func MarkRun(dir, version string) error {
	found, err := Look(dir)
	if err == nil {
		err = found.Owner.Bears(version)
	}
	if err != nil || !versions.Older(found.Owner.Version, version) {
		return err
	}
	return remark(dir, func(o *Owner) { o.Version = version })
}

func remark(dir string, change func(*Owner)) error {
	found, err := Look(dir)
	if err != nil {
		return err
	}
	change(&found.Owner)
	return mark(dir, found.Owner)
}

func describe(f Found) string {
	switch {
	case !f.Data:
		return "found no data"
	case f.Owner.Name == "":
		return "found data of an unknown owner"
	}
	return "found data of " + f.Owner.Name
}

// Look finds what a directory has, and changes nothing. One that does not exist is empty.
func Look(dir string) (Found, error) {
	var f Found
	text, err := os.ReadFile(filepath.Join(dir, marker))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return f, err
	default:
		if err := json.Unmarshal(text, &f.Owner); err != nil {
			f.Owner = Owner{} // whoever wrote it, it is not ours: data beside it is not touched
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, data))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f.Data = len(entries) > 0
	logs, err := os.ReadDir(filepath.Join(dir, data, "wal"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, err // a log that cannot be read is not lost: a member would be removed whose disk fails for a moment
	}
	f.Log = slices.ContainsFunc(logs, func(l fs.DirEntry) bool { return strings.HasSuffix(l.Name(), ".wal") })
	return f, nil
}

// former is a new name for the data of a former member.
func former(dir string, now time.Time) string {
	name := filepath.Join(dir, data) + ".lost-" + now.UTC().Format("20060102T150405Z")
	to := name
	for i := 2; exists(to); i++ { // a clock that was set back
		to = fmt.Sprintf("%s-%d", name, i)
	}
	return to
}

// startAnew renames data without an entry in its log. It keeps the last such data alone: a log takes 64 MB from its
// first record on, and a member that ends at each start would fill the disk.
func startAnew(dir string) error {
	to := filepath.Join(dir, unbegun)
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return setAside(dir, to)
}

// setAside renames the data. The marker stays until it is written anew: after a crash between the two there is no data
// that it could be about.
func setAside(dir, to string) error {
	from := filepath.Join(dir, data)
	if err := unused(filepath.Join(from, "snap", "db")); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return Sync(dir)
}

// unused returns ErrBusy if a process has etcd's database open: one that still runs goes on writing to it under its
// new name. bbolt locks the file in the same way.
func unused(database string) error {
	f, err := os.OpenFile(database, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// mark writes the marker so that a crash leaves the old one or the new one.
func mark(dir string, o Owner) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return Write(filepath.Join(dir, marker), text)
}

// Recall notes on the disk that a recovery is never carried out.
func Recall(dir string, e Expectation) error {
	return remark(dir, func(o *Owner) { o.Recalled = e.Recovery })
}

// Write replaces a file. It leaves the old contents or the new ones on the disk, whenever the node's power fails.
func Write(path string, text []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Sync has the disk know which files a directory has.
func Sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
