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

// Containers of the pod that restores LINSTOR's database: the operator's program gets the backup, LINSTOR's own
// imports and exports it, and the operator's program compares both.
const (
	FetchBackup    = "fetch-backup"
	ImportDatabase = "import-database"
	CheckImport    = "check-import"
)

const (
	// awaitElection is the entry point of LINSTOR's image, without which nobody waits in an election.
	awaitElection = "k8s-await-election"
	// restoringFile says which backup is being restored; the volume with the claim is mounted around it.
	restoringFile = "/claim/restoring"
)

// Files in the directory that the containers share.
const (
	exportFile   = "export.json"
	restoredFile = "restored.json"
)

func beginRestore(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	if c.Name == ImportDatabase {
		return beginImport(ctx, d, run, pod, c)
	}
	config, wrong := restoreConfig(c.Args)
	if config == nil {
		return endedTask{exit{code: 1, message: "operator: " + wrong}}, nil
	}
	shared, err := run.emptyDir()
	if err != nil {
		return nil, err
	}
	config.Export = filepath.Join(shared, path.Base(config.Export))
	config.Restored = filepath.Join(shared, path.Base(config.Restored))
	if c.Args[0] == "--check-import" {
		return beginProgram(d, run, func(context.Context) exit {
			result, err := load.Check(config)
			if err != nil {
				return failed(err)
			}
			return noted(result.Note())
		}), nil
	}
	dir, err := place(ctx, d, pod, c, &config.Store, &config.Credentials)
	if err != nil {
		return nil, err
	}
	return beginProgram(d, run, func(ctx context.Context) exit {
		defer func() { _ = os.RemoveAll(dir) }()
		return failed(load.Fetch(ctx, config))
	}), nil
}

// restoreConfig is what the program's arguments say, or what is wrong with them.
func restoreConfig(args []string) (config *load.Config, wrong string) {
	if len(args) != 2 || !slices.Contains([]string{"--fetch-backup", "--check-import"}, args[0]) {
		return nil, fmt.Sprintf("arguments %q are not simulated", args)
	}
	config, err := load.ParseConfig(args[1])
	if err != nil {
		return nil, args[0] + ": " + err.Error()
	}
	return config, ""
}

// beginImport starts the script that imports a backup, as long as that is still to be restored.
func beginImport(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	config, err := d.files.ControllerConfig(ctx, pod, c)
	if err != nil {
		return nil, err
	}
	return beginDatabaseScript(ctx, d, run, pod, c, &databaseScript{
		configs: []ControllerConfig{config},
		file:    restoringFile,
		refusal: "the claim does not say that this backup is being restored",
		words:   importWords(c),
		work: func(ctx context.Context, dir string) exit {
			if importWords(c) > 0 {
				if err := d.opts.Machines.EmptyDatabase(config); err != nil {
					return exit{code: 1, message: fmt.Sprintf("kubectl delete ended with status 1: %v", err)}
				}
			}
			return endedAs("import-db", importInto(ctx, d.opts.Machines, config, dir))
		}})
}

// importWords is how many words come after the mark among the arguments of the script that imports: one makes it
// empty the database first.
func importWords(c *corev1.Container) int {
	if slices.Contains(c.Command, "anew") {
		return 1
	}
	return 0
}

// databaseScript is a script in LINSTOR's image that calls LINSTOR's program for databases.
type databaseScript struct {
	// configs are those of the databases that it opens. Its environment is the first one's.
	configs []ControllerConfig
	// file is the one of the claim that must hold the script's mark, and refusal what the script says if it does not.
	file, refusal string
	// words is how many of its arguments, after the mark, name no database.
	words int
	// databases is how many arguments name the databases of the first configs; the mark begins with that of the next.
	databases int
	// work is what it does then, in the directory that the containers share.
	work func(ctx context.Context, dir string) exit
}

// beginDatabaseScript starts such a script under the controller's election: while it runs no controller does. What the
// claim says it looks up once it has won: it may have waited for long.
func beginDatabaseScript(ctx context.Context, d *Driver, run *podRun, pod *corev1.Pod, c *corev1.Container,
	script *databaseScript) (task, error) {
	args, env, wrong := scriptCommand(slices.Concat(c.Command, c.Args), c.Name, 1+script.words+script.databases,
		script.configs[0].Env)
	if wrong != "" {
		return endedTask{exit{code: 127, message: wrong}}, nil
	}
	if _, err := d.files.mountedFile(ctx, pod, c, script.file); err != nil {
		return nil, err
	}
	dir, err := run.emptyDir()
	if err != nil {
		return nil, err
	}
	return beginElected(ctx, d, run, pod, env, true, func(ctx context.Context, _ func(bool)) exit {
		onKubernetes := func(config ControllerConfig) bool { return usesKubernetesDatabase(config.TOML) }
		if slices.ContainsFunc(script.configs, onKubernetes) {
			if err := d.checkDatabaseRights(ctx, pod); err != nil {
				return exit{code: 1, message: err.Error()}
			}
		}
		claimed, err := d.files.mountedFile(ctx, pod, c, script.file)
		if err != nil {
			return exit{code: 1, message: err.Error()}
		}
		if strings.TrimRight(claimed, "\n") != args[0] {
			return exit{code: 1, message: script.refusal}
		}
		if wrong := script.wrongDatabase(args); wrong != "" {
			return exit{code: 1, message: wrong}
		}
		return script.work(ctx, dir)
	}), nil
}

// wrongDatabase says which configuration does not name the database that the arguments do.
func (s *databaseScript) wrongDatabase(args []string) string {
	if s.databases == 0 {
		return ""
	}
	mark := args[0]
	for i, url := range append(slices.Clone(args[1:]), mark[:max(0, strings.LastIndex(mark, "@"))]) {
		if !slices.Contains(strings.Split(s.configs[i].TOML, "\n"), fmt.Sprintf("connection_url = %q", url)) {
			return "linstor.toml does not name the database " + url
		}
	}
	return ""
}

// scriptCommand are the n arguments in k8s-await-election /bin/sh -c SCRIPT NAME MARK…, of which the first is the
// mark, and the environment that the election sees: none without the entry point. The script is not read.
func scriptCommand(line []string, name string, n int, env map[string]string) (args []string, elects map[string]string,
	wrong string) {
	if len(line) > 0 && path.Base(line[0]) == awaitElection {
		line, elects = line[1:], env
	}
	if len(line) != 4+n || line[0] != "/bin/sh" || line[1] != "-c" || line[3] != name || slices.Contains(line[4:], "") {
		return nil, nil, fmt.Sprintf("the command %q is not simulated", line)
	}
	return line[4:], elects, ""
}

// endedAs is how a script ends with a command of LINSTOR's program for databases.
func endedAs(command string, err error) exit {
	if err != nil {
		return exit{code: 1, message: fmt.Sprintf("linstor-database %s ended with status 1: %v", command, err)}
	}
	return exit{}
}

// importInto imports the export that lies in the directory, and puts the one that is made afterwards beside it.
func importInto(ctx context.Context, machines Machines, config ControllerConfig, dir string) error {
	export, err := os.ReadFile(filepath.Join(dir, exportFile))
	if err != nil {
		return fmt.Errorf("Failed to read database backup: %w", err) //nolint:staticcheck // worded as LINSTOR's
	}
	restored, err := machines.ImportDatabase(ctx, config, export)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, restoredFile), restored, 0o600)
}
