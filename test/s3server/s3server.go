// Package s3server runs a real S3 service on loopback for tests: versitygw, on a directory of its own.
package s3server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/linstor-dev/storagecluster-operator/test/machine"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/bound"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/gobin"
)

const (
	program = "versitygw"
	// startTimeout is how long the service may take to listen; it needs 70 ms on a machine with nothing else to do.
	startTimeout = time.Minute
	// buildTimeout is how long it may take until it is built, which happens once.
	buildTimeout = 20 * time.Minute
)

var set = gobin.Set{
	What:    "the S3 server of the tests",
	Names:   []string{program},
	Env:     "S3_ASSETS",
	Dir:     "s3",
	Modules: []string{"hack/s3"},
	Takes:   "about 2 minutes on 2 cores",
}

// Ensure returns a directory that holds the service's binary, after building it if need be; see [gobin.Set.Ensure].
func Ensure(ctx context.Context, o gobin.Options) (string, error) { return set.Ensure(ctx, o) }

// Server is a running S3 service.
type Server struct {
	// Endpoint is its URL, Region its region, and AccessKey and SecretKey are those of its only user.
	Endpoint, Region, AccessKey, SecretKey string
	// own is the service's directory, and dir the one in it that holds a directory for each bucket, and in it a file for
	// each object.
	own, dir string
	cmd      *exec.Cmd
	done     chan struct{}
}

// Start starts a service that keeps its objects in a new directory, which Stop removes.
func Start(ctx context.Context) (*Server, error) {
	bin, err := Ensure(ctx, gobin.Options{})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "s3server-")
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, bin, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func start(ctx context.Context, bin, dir string) (*Server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &Server{Endpoint: "http://" + address, Region: "eu-north-1", AccessKey: "tester", SecretKey: "s3-canary-secret",
		own: dir, dir: filepath.Join(dir, "objects"), done: make(chan struct{})}
	sidecar := filepath.Join(dir, "attributes") // not every file system of a test machine has extended attributes
	if err := errors.Join(os.MkdirAll(s.dir, 0o755), os.MkdirAll(sidecar, 0o755)); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, program+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.Command(filepath.Join(bin, program),
		"--access", s.AccessKey, "--secret", s.SecretKey,
		"--region", s.Region, "--port", address, "posix", "--sidecar", sidecar, s.dir)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, log, log
	if err := bound.Start(s.cmd); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	if err := s.listening(ctx, address); err != nil {
		text, _ := os.ReadFile(log.Name())
		s.Stop()
		return nil, fmt.Errorf("the S3 server does not start: %w: %s", err, text)
	}
	return s, nil
}

// Main runs a package's tests with a service for all of them, and returns their exit code.
func Main(m interface{ Run() int }, server **Server) int {
	ctx, stop := context.WithTimeout(context.Background(), buildTimeout)
	defer stop()
	var err error
	if *server, err = Start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer (*server).Stop()
	return m.Run()
}

// listening waits until the service can be connected to.
func (s *Server) listening(ctx context.Context, address string) error {
	ctx, stop := machine.WithTimeout(ctx, startTimeout)
	defer stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.done:
			return errors.New("it ended")
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// Stop ends the service, and removes its objects.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
	_ = os.RemoveAll(s.own)
}

// WriteCredentials writes the user's credentials into a directory, as a Secret with them is mounted.
func (s *Server) WriteCredentials(dir string) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, "AWS_ACCESS_KEY_ID"), []byte(s.AccessKey), 0o600),
		os.WriteFile(filepath.Join(dir, "AWS_SECRET_ACCESS_KEY"), []byte(s.SecretKey), 0o600))
}

// MakeBucket makes a bucket.
func (s *Server) MakeBucket(name string) error { return os.Mkdir(s.Path(name, ""), 0o755) }

// Path is the file of an object.
func (s *Server) Path(bucket, key string) string { return filepath.Join(s.dir, bucket, key) }

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}
