package drbd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// program is the path of one of LINSTOR's programs in its image.
func program(name string) string { return "/usr/share/linstor-server/bin/" + name }

// controllerPort is where the controller listens, on the loopback of the tests' own network namespace.
const controllerPort = 3370

// process is LINSTOR's controller, with a database of its own.
type process struct {
	url string
	// root is where the files of its image are mounted, log what it prints.
	root, log string
	cmd       *exec.Cmd
}

// startController starts the controller with the files of LINSTOR's image as its root, and changes in dir. The mounts
// are in the tests' own namespace.
func startController(ctx context.Context, tree, dir string) (*process, error) {
	root, upper, work := filepath.Join(dir, "root"), filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{root, upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := unix.Mount("overlay", root, "overlay", 0,
		"lowerdir="+tree+",upperdir="+upper+",workdir="+work); err != nil {
		return nil, fmt.Errorf("mount the root of LINSTOR's controller: %w", err)
	}
	c := &process{url: fmt.Sprintf("http://127.0.0.1:%d", controllerPort), root: root,
		log: filepath.Join(dir, "controller.log")}
	// Not the machine's /dev: removing this directory while it is mounted here would remove the devices.
	if err := errors.Join(unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""), devices(root)); err != nil {
		return c, fmt.Errorf("mount what LINSTOR's controller needs: %w", err)
	}
	config := fmt.Sprintf("[http]\nlisten_addr = \"127.0.0.1\"\nport = %d\n[db]\nconnection_url = \"%s\"\n",
		controllerPort, "jdbc:h2:/var/lib/linstor/linstordb")
	for path, text := range map[string]string{"etc/linstor/linstor.toml": config, "var/lib/linstor/.keep": "",
		"var/log/linstor-controller/.keep": ""} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return c, err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return c, err
		}
	}
	log, err := os.Create(c.log)
	if err != nil {
		return c, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, program("Controller"), "--logs=/var/log/linstor-controller",
		"--config-directory=/etc/linstor")
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"JAVA_OPTS=-Xmx512M -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return c, err
	}
	c.cmd = cmd
	return c, nil
}

// devices makes the devices that Java needs.
func devices(root string) error {
	var errs []error
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "random": 8, "urandom": 9} {
		path := filepath.Join(root, "dev", name)
		_ = os.Remove(path) // what was there is a file
		dev := int(unix.Mkdev(1, minor))
		errs = append(errs, unix.Mknod(path, unix.S_IFCHR|0o666, dev))
	}
	return errors.Join(errs...)
}

// stop ends the controller, and unmounts its root.
func (c *process) stop() error {
	if c.cmd != nil {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // it may have been started by a shell
		_ = c.cmd.Wait()
	}
	const now = unix.MNT_DETACH
	return errors.Join(unix.Unmount(filepath.Join(c.root, "proc"), now), unix.Unmount(c.root, now))
}

// send sends LINSTOR a request that it must carry out, and that the operator has no need of.
func (l *lab) send(method, path string, body any) {
	l.T.Helper()
	data, err := json.Marshal(body)
	l.must(err)
	req, err := http.NewRequestWithContext(l.ctx, method, l.controller.url+path, bytes.NewReader(data))
	l.must(err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	l.must(err)
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	l.must(err)
	if resp.StatusCode/100 != 2 {
		l.T.Fatalf("%s %s: HTTP %d: %s", method, path, resp.StatusCode, strings.TrimSpace(string(said)))
	}
}
