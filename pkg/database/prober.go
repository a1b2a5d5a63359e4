// Package database looks into LINSTOR's database before LINSTOR has started on it.
//
// LINSTOR migrates whatever its database holds when it starts, and there is no way back (linstor-server, DbMigrater).
// So before the first start one has to know two things that no LINSTOR can report yet: whether the database can be
// used at all, and whose data it holds already. Nobody else says so either of a database that LINSTOR's data is to be
// moved into. A [Prober] finds out, and changes nothing.
//
// Where LINSTOR keeps its nodes and the controller's properties, by linstor-server's sources:
//
//   - kubernetes: custom resources "nodes" and "propscontainers" of the group internal.linstor.linbit.com,
//     cluster-scoped, named by the SHA-256 of their key; the node's name is in spec.node_dsp_name (GenCrdV1_33_1). The
//     versions are named after LINSTOR's schema, such as v1-33-1, and all that LINSTOR ever made stay served.
//   - postgresql: tables nodes and props_containers in the schema "LINSTOR", which is quoted and so in capitals, while
//     the tables' names are not and so in small letters (DatabaseDriverInfo, consolidated-init-db.sql).
//   - mariadb: tables NODES and PROPS_CONTAINERS in the database that the connection URL names. LINSTOR asks JDBC to
//     use a schema LINSTOR, but MariaDB's driver ignores that wish (MariaDB Connector/J, Connection.setSchema).
//     LINSTOR also runs CREATE SCHEMA IF NOT EXISTS `LINSTOR` when it migrates (MariaDBInfo), so its user needs the
//     right CREATE on a database of that name too, whichever the URL names; a look that only reads cannot find out
//     whether it has it.
//   - etcd (LINSTOR before 1.34): keys /LINSTOR/NODES/<name in capitals>/<column> (EtcdUtils, CtrlConfig). Properties
//     are not read there: no data is moved into etcd.
//
// The controller's properties have the instance /CTRL, and /CTRLCFG before properties of snapshots had containers of
// their own (MigrationUtils_SplitSnapProps). What else is there holds keys and passwords: only the two properties that
// say whose data it is are read.
package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
)

// maxNodes bounds the nodes that Look returns: a message has room for a few names.
const maxNodes = 10

// instances are the names that LINSTOR has had for the controller's properties, the present one last, which counts
// where both are there; and properties those that are read.
var (
	instances  = []string{"/CTRLCFG", "/CTRL"}
	properties = []string{linstor.PropLocalID, linstor.PropEpoch}
)

// Prober looks into databases. It holds no state and may be used concurrently.
type Prober struct {
	reader client.Reader
	// timeout bounds one look. A database that takes longer to answer one query is of no use to LINSTOR either, whose own
	// requests wait for it.
	timeout time.Duration
	// pageSize is how many custom resources one list request returns.
	pageSize int64
}

// New returns a Prober that reads custom resources through reader. The reader must not be a cache, which would start
// to watch what is read once, and must have a method RESTMapper, as every client of controller-runtime and the
// manager's API reader has: LINSTOR's versions of the custom resources have to be discovered.
func New(reader client.Reader) *Prober {
	return &Prober{reader: reader, timeout: 5 * time.Second, pageSize: 500}
}

// Look returns what the database of the spec holds. access is what LINSTOR will be given: its URL says where to look.
// Look changes nothing, and ends within five seconds. A database in which no LINSTOR has made its tables yet is empty.
// One with them that takes no writes is an error: LINSTOR could not be started there.
//
// The text of an error names the server, the database and the Secret, never what is in the Secret. When ctx itself has
// ended, the error wraps ctx.Err() alone.
func (p *Prober) Look(ctx context.Context, spec *v1alpha1.DatabaseSpec,
	access connection.Settings) (connection.Contents, error) {
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	found, err := p.look(limited, spec, access)
	if ctx.Err() != nil {
		err = fmt.Errorf("check the %s database: %w", connection.Kind(spec), ctx.Err())
	}
	if err != nil {
		return connection.Contents{}, err
	}
	slices.Sort(found.nodes)
	return connection.Contents{Nodes: found.nodes[:min(len(found.nodes), maxNodes)],
		LocalID: found.properties[linstor.PropLocalID], Epoch: found.properties[linstor.PropEpoch]}, nil
}

// found is what was read.
type found struct {
	nodes      []string
	properties map[string]string
}

func (p *Prober) look(ctx context.Context, db *v1alpha1.DatabaseSpec, access connection.Settings) (*found, error) {
	switch connection.Kind(db) {
	case v1alpha1.DatabaseEtcd:
		return p.etcd(ctx, db.Etcd.CredentialsSecret, access)
	case v1alpha1.DatabaseManagedEtcd:
		return p.etcd(ctx, "", access)
	case v1alpha1.DatabasePostgreSQL:
		return p.sql(ctx, postgreSQL, db.PostgreSQL, access)
	case v1alpha1.DatabaseMariaDB:
		return p.sql(ctx, mariaDB, db.MariaDB, access)
	default:
		return p.kubernetes(ctx)
	}
}

var (
	// errUnreachable means that no conversation with the database came about: no route, no listener, no answer in time,
	// no agreement on TLS, or a server that takes no clients at the moment.
	errUnreachable = errors.New("cannot be reached")
	// errCredentials means that the database refused the user or the password, lets nobody in without them, or does not
	// let this user read LINSTOR's tables.
	errCredentials = errors.New("denied access")
	// errReadOnly means that the SQL server takes no writes.
	errReadOnly = errors.New("does not accept writes")
	// errNoDatabase means that the SQL server has no database of that name.
	errNoDatabase = errors.New("does not exist")

	// errNoTable means that no LINSTOR has made its tables yet; it does not leave the package.
	errNoTable = errors.New("LINSTOR's tables do not exist")
)

// subject is what an error is about. Errors are built from it alone, so that what they say about credentials is
// decided in one place.
type subject struct {
	server   string // the kind of database and its address
	database string // its name on the server; empty where there are no names
	secret   string // the name of the Secret with the credentials; empty if there is none
	access   connection.Settings
	timeout  time.Duration // of the look
}

// fail makes the error for a cause. Only the cause's text goes in, cleared of credentials: an error that wrapped the
// driver's own would carry them to whoever prints it.
func (s subject) fail(ctx context.Context, kind, cause error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// What the driver reports then is how the end of the time reached it.
		return fmt.Errorf("%s %w: no response within %s", s.server, errUnreachable, s.timeout)
	}
	detail := s.access.Hide(cause.Error())
	switch {
	case errors.Is(kind, errUnreachable):
		return fmt.Errorf("%s %w: %s", s.server, kind, detail)
	case errors.Is(kind, errCredentials):
		if s.secret == "" {
			return fmt.Errorf("%s %w: %s (credentialsSecret is not set)", s.server, kind, detail)
		}
		return fmt.Errorf("%s %w: %s (see the username and password keys in Secret %s/%s)",
			s.server, kind, detail, v1alpha1.WorkloadNamespace, s.secret)
	case errors.Is(kind, errReadOnly):
		return fmt.Errorf("%s %w; it may be a replica that has not been promoted: %s", s.server, kind, detail)
	case errors.Is(kind, errNoDatabase):
		return fmt.Errorf("%s: database %q %w; LINSTOR does not create it: %s", s.server, s.database, kind, detail)
	default:
		return fmt.Errorf("%s: read LINSTOR's data: %s", s.server, detail)
	}
}
