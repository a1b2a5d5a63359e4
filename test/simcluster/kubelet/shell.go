package kubelet

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Canary is the container in which the operator tries a volume, with a shell script.
const Canary = "canary"

// shell runs a script that writes to a volume and reads it back, as the operator's canary and the applications in
// deploy/samples do. It knows the few commands for that, and does them on the machine's devices: what the device does
// not have cannot be read.
type shell struct {
	storage
	run *podRun
	c   *corev1.Container
	// file is the script's argument, "" if there is none; values are its variables.
	file   string
	values map[string]string
	// words are what it wrote into the termination log; stays is true once the script has become a program that goes on.
	words string
	stays bool
}

// isScript reports whether a container runs a shell script on the volumes of claims.
func isScript(run *podRun, c *corev1.Container) bool {
	return len(run.claims) > 0 && len(c.Command) >= 2 && c.Command[0] == "/bin/sh" && c.Command[1] == "-c"
}

// commands are the lines that the shell knows, with what each does with its parts.
var commands = []struct {
	line *regexp.Regexp
	do   func(sh *shell, part []string) error
}{
	{regexp.MustCompile(`^set -eu$`), func(*shell, []string) error { return nil }},
	{regexp.MustCompile(`^(\w+)=\$\(head -c \d+ /dev/urandom \| tee "\$1" \| sha256sum\)$`),
		func(sh *shell, part []string) error {
			content := rand.Text() // no program looks at the size
			sh.values[part[1]] = checksum(content)
			_, err := sh.volumeIO(sh.run, sh.c, "write "+sh.file+" "+content)
			return err
		}},
	// What is written is on the device at once.
	{regexp.MustCompile(`^sync( "\$1")?$`), func(*shell, []string) error { return nil }},
	{regexp.MustCompile(`^echo "([^"]*)" >> (/\S+)$`), func(sh *shell, part []string) error {
		before, _ := sh.volumeIO(sh.run, sh.c, "read "+part[2]) // a file that is not there begins empty
		_, pod, _ := strings.Cut(sh.run.key, "/")
		line := strings.ReplaceAll(part[1], "$HOSTNAME", pod)
		_, err := sh.volumeIO(sh.run, sh.c, "write "+part[2]+" "+before+line+"\n")
		return err
	}},
	{regexp.MustCompile(`^cat (/\S+)$`), func(sh *shell, part []string) error {
		_, err := sh.volumeIO(sh.run, sh.c, "read "+part[1]) // nobody sees what it prints
		return err
	}},
	{regexp.MustCompile(`^cat (/\S+) > /dev/termination-log$`), func(sh *shell, part []string) (err error) {
		sh.words, err = sh.volumeIO(sh.run, sh.c, "read "+part[1])
		return err
	}},
	{regexp.MustCompile(`^exec sleep infinity$`), func(sh *shell, _ []string) error {
		sh.stays = true
		return nil
	}},
	{regexp.MustCompile(`^(\w+)=\$\(dd if="\$1" iflag=direct bs=\w+ status=none \| sha256sum\)$`),
		func(sh *shell, part []string) error {
			content, err := sh.volumeIO(sh.run, sh.c, "read "+sh.file)
			sh.values[part[1]] = checksum(content)
			return err
		}},
	{regexp.MustCompile(`^test "\$(\w+)" = "\$(\w+)" \|\| \{ echo "([^"]*)" >&2; exit 1; \}$`),
		func(sh *shell, part []string) error {
			if sh.values[part[1]] != sh.values[part[2]] {
				return fmt.Errorf("%s", part[3])
			}
			return nil
		}},
}

func checksum(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

// beginScript runs the script of a container, whose command and arguments are /bin/sh -c SCRIPT [NAME FILE], at once.
func (d storage) beginScript(run *podRun, c *corev1.Container) task {
	line := slices.Concat(c.Command, c.Args)
	if len(line) != 3 && len(line) != 5 {
		return endedTask{exit{code: 127, message: fmt.Sprintf("the command %q is not simulated", line)}}
	}
	sh := &shell{storage: d, run: run, c: c, values: map[string]string{}}
	if len(line) == 5 {
		sh.file = line[4]
	}
	for _, line := range strings.Split(strings.TrimSpace(line[2]), "\n") {
		if err := sh.do(line); err != nil {
			return endedTask{exit{code: 1, message: err.Error()}}
		}
	}
	if sh.stays {
		return idleTask{}
	}
	return endedTask{exit{words: sh.words}}
}

func (sh *shell) do(line string) error {
	for _, known := range commands {
		if part := known.line.FindStringSubmatch(line); part != nil {
			return known.do(sh, part)
		}
	}
	return fmt.Errorf("sh: %q is not simulated", line)
}
