package database

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
)

const (
	// maxNodes bounds Result.Nodes: a message has room for a few names.
	maxNodes = 10
	// defaultTimeout bounds one look. A database that takes longer to answer one query is of no use to LINSTOR either,
	// whose own requests wait for it.
	defaultTimeout = 5 * time.Second
	// defaultPageSize is how many custom resources one list request returns.
	defaultPageSize = 500
)

// Result is what a database holds.
type Result struct {
	// Nodes are names of LINSTOR nodes as the users wrote them, or the database's keys where the name cannot be read:
	// the first ten in alphabetical order, nil if there are none.
	Nodes []string
	// Total is the number of all nodes.
	Total int
}

// Prober looks into databases. It holds no state and may be used concurrently.
type Prober struct {
	reader   client.Reader
	timeout  time.Duration
	pageSize int64
}

// New returns a Prober that reads custom resources through reader. The reader must not be a cache, which would start to
// watch what is read once, and must have a method RESTMapper, as every client of controller-runtime and the manager's
// API reader has: LINSTOR's versions of the custom resources have to be discovered.
func New(reader client.Reader) *Prober {
	return &Prober{reader: reader, timeout: defaultTimeout, pageSize: defaultPageSize}
}

// Probe returns the LINSTOR nodes that the database of the spec holds. access is what LINSTOR will be given: its URL says
// where to look. Probe never writes, and ends within five seconds. A database in which no LINSTOR has made its tables yet
// is an empty result.
//
// An error wraps [ErrUnreachable], [ErrCredentials] or [ErrNoDatabase] where it is one of these; its text names the server,
// the database and the Secret, never what is in the Secret. When ctx itself has ended, the error wraps ctx.Err() alone.
func (p *Prober) Probe(ctx context.Context, spec *v1alpha1.DatabaseSpec, access resources.Database) (Result, error) {
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	names, err := p.names(limited, spec, access)
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("look into the %s database: %w", spec.Kind(), ctx.Err())
	}
	if err != nil || len(names) == 0 {
		return Result{}, err
	}
	slices.Sort(names)
	return Result{Nodes: slices.Clone(names[:min(len(names), maxNodes)]), Total: len(names)}, nil
}

func (p *Prober) names(ctx context.Context, spec *v1alpha1.DatabaseSpec, access resources.Database) ([]string, error) {
	switch spec.Kind() {
	case v1alpha1.DatabaseEtcd:
		return p.etcd(ctx, spec.Etcd, access)
	case v1alpha1.DatabasePostgreSQL:
		return p.postgreSQL(ctx, spec.PostgreSQL, access)
	case v1alpha1.DatabaseMariaDB:
		return p.mariaDB(ctx, spec.MariaDB, access)
	default:
		return p.kubernetes(ctx)
	}
}
