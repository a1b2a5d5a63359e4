package access

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

// Output is the flag --output of a command that shows something: as lines for people, or as the structure itself.
type Output string

// formats are its values.
var formats = []Output{"", "json", "yaml"}

// Bind gives a command the flag.
func (o *Output) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", "", "output format: json or yaml")
}

// Check is an error for a value that the flag does not take.
func (o *Output) Check() error {
	if !slices.Contains(formats, *o) {
		return exit.Usagef("--output must be json or yaml, not %q", *o)
	}
	return nil
}

// Print prints a structure, or its lines. what is the structure's name in an error.
func (o *Output) Print(env *Env, what string, structure any, lines func() []string) error {
	var out []byte
	var err error
	switch *o {
	case "json":
		out, err = json.MarshalIndent(structure, "", "  ")
		out = append(out, '\n')
	case "yaml":
		out, err = yaml.Marshal(structure)
	default:
		Show(env.Out, lines()...)
	}
	if err != nil {
		return fmt.Errorf("print %s: %w", what, err)
	}
	_, err = env.Out.Write(out)
	return err
}
