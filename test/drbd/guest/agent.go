package guest

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// ScriptError is the failure of a script in a guest.
type ScriptError struct {
	Guest, Script, Output string
	Code                  int
}

func (e *ScriptError) Error() string {
	return fmt.Sprintf("guest %s: %s: exit code %d: %s", e.Guest, e.Script, e.Code, strings.TrimSpace(e.Output))
}

// Run runs a shell script in the guest and returns what it has written. It fails with a [ScriptError] if the script
// does. One script runs at a time.
func (g *Guest) Run(ctx context.Context, script string) (string, error) {
	conn, err := g.dial(ctx, ".agent")
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintln(conn, base64.StdEncoding.EncodeToString([]byte(script))); err != nil {
		return "", err
	}
	var encoded strings.Builder
	code := -1
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == endMark && code >= 0 {
			out, err := base64.StdEncoding.DecodeString(encoded.String())
			if err == nil && code != 0 {
				err = &ScriptError{Guest: g.Name, Script: script, Output: string(out), Code: code}
			}
			return string(out), err
		}
		if word, found := strings.CutPrefix(line, codeMark); found {
			if code, err = strconv.Atoi(word); err != nil {
				return "", err
			}
			encoded.Reset()
		} else if code >= 0 {
			encoded.WriteString(line)
		}
	}
	return "", errors.Join(fmt.Errorf("guest %s has not completed the script: %s", g.Name, script), lines.Err())
}

// What the agent writes before and after the output of a script; see init.sh.
const (
	codeMark = "CODE "
	endMark  = "END"
)

// dial connects to one of the guest's sockets, for two minutes at most.
func (g *Guest) dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", g.lab.path(g.Name+socket))
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(2 * time.Minute))
}

// qmp gives QEMU a command.
func (g *Guest) qmp(command string, arguments map[string]any) error {
	conn, err := g.dial(context.Background(), ".qmp")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	answers := json.NewDecoder(conn)
	for _, c := range []map[string]any{{"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}} {
		if err := json.NewEncoder(conn).Encode(c); err != nil {
			return err
		}
		for {
			var answer struct {
				Return *json.RawMessage `json:"return"`
				Error  *struct {
					Desc string `json:"desc"`
				} `json:"error"`
			}
			if err := answers.Decode(&answer); err != nil {
				return fmt.Errorf("QEMU's answer to %s: %w", command, err)
			}
			if answer.Error != nil {
				return fmt.Errorf("QEMU: %s: %s", command, answer.Error.Desc)
			}
			if answer.Return != nil { // else it is the greeting, or an event
				break
			}
		}
	}
	return nil
}
