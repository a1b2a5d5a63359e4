package kubelet

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/restore/load"
)

// Containers of the pod that moves LINSTOR's data from one database into another: LINSTOR's own program exports the
// one, imports that into the other and exports it again, and the operator's program compares both exports.
const (
	MoveDatabase = "move-database"
	CheckMove    = "check-move"
)

const (
	// targetFile is linstor.toml with the database into which LINSTOR's data is moved.
	targetFile = "/target/linstor.toml"
	// movingFile says what is being moved; the volume with the claim is mounted around it.
	movingFile = "/claim/moving"
)

// beginMove starts the script that moves LINSTOR's data.
func beginMove(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	source, err := d.files.ControllerConfig(ctx, pod, c)
	if err != nil {
		return nil, err
	}
	target := source
	if target.TOML, err = d.files.mountedFile(ctx, pod, c, targetFile); err != nil {
		return nil, err
	}
	return beginDatabaseScript(ctx, d, run, pod, c, &databaseScript{
		configs: []ControllerConfig{source, target},
		file:    movingFile, databases: 1,
		refusal: "the claim does not say that LINSTOR's database is being moved",
		work: func(ctx context.Context, dir string) exit {
			if err := exportTo(ctx, d.opts.Machines, source, filepath.Join(dir, exportFile)); err != nil {
				return endedAs("export-db", err)
			}
			if comparesOnly(c.Command) {
				return endedAs("export-db", exportTo(ctx, d.opts.Machines, target, filepath.Join(dir, restoredFile)))
			}
			return endedAs("import-db", importInto(ctx, d.opts.Machines, target, dir))
		}})
}

// comparesOnly reports whether the mark among the script's arguments says that nothing is imported.
func comparesOnly(command []string) bool {
	return slices.ContainsFunc(command, func(word string) bool { return strings.Contains(word, "@same-") })
}

// exportTo writes an export of the database into a file.
func exportTo(ctx context.Context, machines Machines, config ControllerConfig, file string) error {
	export, err := machines.ExportDatabase(ctx, config)
	if err != nil {
		return err
	}
	return os.WriteFile(file, export, 0o600)
}

// beginCheckMove starts the operator's program that compares both exports.
func beginCheckMove(d *Driver, run *podRun, c *corev1.Container) (task, error) {
	move, wrong := moveConfig(c.Args)
	if move == nil {
		return endedTask{exit{code: 1, message: "operator: " + wrong}}, nil
	}
	shared, err := run.emptyDir()
	if err != nil {
		return nil, err
	}
	move.Export = filepath.Join(shared, path.Base(move.Export))
	move.Restored = filepath.Join(shared, path.Base(move.Restored))
	return beginProgram(d, run, func(context.Context) exit {
		moved, err := move.Check()
		if err != nil {
			return failed(err)
		}
		return noted(moved.Note())
	}), nil
}

// moveConfig is what the program's arguments say, or what is wrong with them.
func moveConfig(args []string) (move *load.Move, wrong string) {
	if len(args) != 2 || args[0] != "--check-move" {
		return nil, fmt.Sprintf("arguments %q are not simulated", args)
	}
	move, err := load.ParseMove(args[1])
	if err != nil {
		return nil, args[0] + ": " + err.Error()
	}
	return move, ""
}
