package sim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// Why a controller, or a program that works on its database, does not start. The errors that are returned wrap one of
// these.
var (
	// ErrDatabaseTooNew: the schema comes from a newer LINSTOR. (Only LINSTOR 1.35 and later says so clearly; older
	// ones fail in undefined ways.)
	ErrDatabaseTooNew = errors.New("database schema is newer than this LINSTOR")
	// ErrUnsupportedDatabase: etcd from LINSTOR 1.34 on, or a connection_url of no known kind.
	ErrUnsupportedDatabase = errors.New("database uri not supported")
	// ErrDatabaseUnreachable: nothing answers at the connection_url.
	ErrDatabaseUnreachable = errors.New("database is not reachable")
	// ErrBadCredentials: the database refuses user and password.
	ErrBadCredentials = errors.New("database refuses the credentials")
	// ErrWrongPassphrase: the configured master passphrase does not open the one in the database.
	ErrWrongPassphrase = errors.New("wrong master passphrase")
	// ErrMigration: the schema cannot be migrated by this LINSTOR.
	ErrMigration = errors.New("database migration failed")
)

// ControllerConfig is what a controller, or a program that works on its database, is started with.
type ControllerConfig struct {
	// Version is the LINSTOR version, such as "1.35.3".
	Version string
	// TOML is the content of linstor.toml. Without [db] connection_url the database is the H2 file that LINSTOR uses by
	// default.
	TOML string
	// MasterPassphrase opens the encrypted values, or is set if the database has none. Default: what [encrypt]
	// passphrase or the environment variable MASTER_PASSPHRASE says.
	MasterPassphrase string
	// Identity names the process in violations, for example the pod's name.
	Identity string
	// Env is the process's environment.
	Env map[string]string
	// Files reads a file that is mounted into the container, as it is now; nil for none.
	Files func(file string) ([]byte, error)
}

// settings is a ControllerConfig after parsing.
type settings struct {
	version    version
	toml       controllerTOML
	url        string // without credentials
	user       string
	password   string
	passphrase string
}

// controllerTOML is the part of linstor.toml that the simulator reads.
type controllerTOML struct {
	DB struct {
		ConnectionURL        string `toml:"connection_url"`
		User                 string `toml:"user"`
		Password             string `toml:"password"`
		CACertificate        string `toml:"ca_certificate"`
		ClientCertificate    string `toml:"client_certificate"`
		ClientKeyPKCS8PEM    string `toml:"client_key_pkcs8_pem"`
		VersionCheckDisabled bool   `toml:"version_check_disabled"`
		K8s                  struct {
			RequestRetries     *int `toml:"request_retries"`
			MaxRollbackEntries *int `toml:"max_rollback_entries"`
		} `toml:"k8s"`
		Etcd struct {
			Prefix                   string `toml:"prefix"`
			OperationsPerTransaction int    `toml:"operations_per_transaction"`
		} `toml:"etcd"`
	} `toml:"db"`
	HTTP struct {
		Enabled    *bool  `toml:"enabled"`
		ListenAddr string `toml:"listen_addr"`
		Port       int    `toml:"port"`
	} `toml:"http"`
	HTTPS   httpsTOML `toml:"https"`
	Encrypt struct {
		Passphrase string `toml:"passphrase"`
	} `toml:"encrypt"`
	Logging struct {
		Level        string `toml:"level"`
		LinstorLevel string `toml:"linstor_level"`
	} `toml:"logging"`
}

const defaultDatabase = "jdbc:h2:/var/lib/linstor/linstordb"

func (c ControllerConfig) parse() (settings, error) {
	v, err := parseVersion(c.Version)
	if err != nil {
		return settings{}, fmt.Errorf("controller: %w", err)
	}
	s := settings{version: v}
	if _, err := toml.Decode(c.TOML, &s.toml); err != nil {
		return settings{}, fmt.Errorf("parse linstor.toml: %w", err)
	}
	url := s.toml.DB.ConnectionURL
	if url == "" {
		url = defaultDatabase
	}
	s.url, s.user, s.password = splitCredentials(url)
	if s.toml.DB.User != "" {
		s.user, s.password = s.toml.DB.User, s.toml.DB.Password
	}
	for _, passphrase := range []string{c.MasterPassphrase, s.toml.Encrypt.Passphrase, c.Env["MASTER_PASSPHRASE"]} {
		if s.passphrase == "" {
			s.passphrase = passphrase
		}
	}
	return s, nil
}

// supported reports whether this LINSTOR version can use the database at the URL at all.
func (s settings) supported() error {
	switch {
	case s.url == "k8s", strings.HasPrefix(s.url, "jdbc"):
		return nil
	case strings.HasPrefix(s.url, "etcd") && !s.version.atLeast(1, 34):
		return nil
	default:
		return fmt.Errorf("%w: LINSTOR %s, connection_url %q", ErrUnsupportedDatabase, s.version, s.url)
	}
}

// mayRead checks everything that keeps a process from reading a database.
func (s settings) mayRead(d *Database) error {
	switch {
	case d.unreachable:
		return fmt.Errorf("%w: %s", ErrDatabaseUnreachable, d.url)
	case (d.user != "" || d.password != "") && (s.user != d.user || s.password != d.password):
		return fmt.Errorf("%w: %s, user %q", ErrBadCredentials, d.url, s.user)
	case d.written && d.schema.atLeast(s.version.major, s.version.minor+1):
		return fmt.Errorf("%w: schema of %s, LINSTOR %s", ErrDatabaseTooNew, d.schema, s.version)
	}
	return nil
}

// mayMigrate checks what else keeps a process from migrating it.
func (s settings) mayMigrate(d *Database) error {
	switch {
	case d.written && s.version.atLeast(1, 34) && !d.schema.atLeast(1, 21):
		return fmt.Errorf("%w: schema of %s, LINSTOR %s; the last version able to migrate it is 1.33.2", ErrMigration,
			d.schema, s.version)
	case d.broken != "":
		return fmt.Errorf("%w: %s", ErrMigration, d.broken)
	}
	return nil
}

// openToMigrate is open for those who migrate the database as well, which is all but an export.
func (s settings) openToMigrate(w *World) (*Database, error) {
	db, err := s.open(w)
	if err != nil {
		return nil, err
	}
	return db, s.mayMigrate(db)
}

// open finds the database, if a process of this LINSTOR version can read it.
func (s settings) open(w *World) (*Database, error) {
	if w.closed {
		return nil, errors.New("the world is closed")
	}
	if err := s.supported(); err != nil {
		return nil, err
	}
	db := w.database(s.url)
	if db.written && db.schema.newerThan(s.version) {
		w.violate("old-controller database=%s: LINSTOR %s was started on a schema of %s, and there is no way back", s.url,
			s.version, db.schema)
	}
	if err := s.mayRead(db); err != nil {
		return nil, err
	}
	return db, nil
}
