package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

var (
	// ErrUnreachable means that no conversation with the database came about: no route, no listener, no answer in time,
	// no agreement on TLS, or a server that takes no clients at the moment.
	ErrUnreachable = errors.New("cannot be reached")
	// ErrCredentials means that the database refused the user or the password, lets nobody in without them, or does not
	// let this user read LINSTOR's tables.
	ErrCredentials = errors.New("refused access")
	// ErrNoDatabase means that the SQL server has no database of that name.
	ErrNoDatabase = errors.New("does not exist")

	// errNoTable means that no LINSTOR has made its tables yet; it does not leave the package.
	errNoTable = errors.New("no tables of LINSTOR")
)

// subject is what an error is about. Errors are built from it alone, so that what they say about credentials is decided in
// one place.
type subject struct {
	// server is the kind of database and its address.
	server string
	// database is the database's name on the server; empty where there are no names.
	database string
	// secret names the Secret with the credentials; empty if there is none.
	secret string
	access resources.Database
	// timeout is how long a look may take.
	timeout time.Duration
}

// fail makes the error for a cause. Only the cause's text goes in, cleared of credentials: an error that wrapped the
// driver's own would carry them to whoever prints it.
func (s subject) fail(ctx context.Context, kind, cause error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// What the driver reports then is how the end of the time reached it.
		return fmt.Errorf("%s %w: no answer within %s", s.server, ErrUnreachable, s.timeout)
	}
	detail := s.access.Hide(cause.Error())
	switch {
	case errors.Is(kind, ErrUnreachable):
		return fmt.Errorf("%s %w: %s", s.server, kind, detail)
	case errors.Is(kind, ErrCredentials):
		if s.secret == "" {
			return fmt.Errorf("%s %w: %s (no credentialsSecret is given)", s.server, kind, detail)
		}
		return fmt.Errorf("%s %w: %s (keys username and password of Secret %s/%s)",
			s.server, kind, detail, v1alpha1.WorkloadNamespace, s.secret)
	case errors.Is(kind, ErrNoDatabase):
		return fmt.Errorf("%s: database %q %w; LINSTOR does not create it: %s", s.server, s.database, kind, detail)
	default:
		return fmt.Errorf("%s: read LINSTOR's nodes: %s", s.server, detail)
	}
}
