package kubelet

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

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
			if err := exportFrom(ctx, d.opts.Machines, source, dir); err != nil {
				return endedAs("export-db", err)
			}
			return endedAs("import-db", importInto(ctx, d.opts.Machines, target, dir))
		}})
}

// exportFrom puts an export of the database into the directory.
func exportFrom(ctx context.Context, machines Machines, config ControllerConfig, dir string) error {
	export, err := machines.ExportDatabase(ctx, config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, exportFile), export, 0o600)
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
