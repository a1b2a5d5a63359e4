// Package inputs declares files to the go command that a test uses only through another program.
//
// The go command reuses a test's result as long as its inputs are the same, and knows only those files that the test's
// own process opens. What kubectl or Helm reads must be declared here, or a cached "ok" hides that a file has changed.
package inputs

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Declare makes files, and directories with all that is in them, inputs of the running test. What does not exist is
// left out: whoever uses it says so better.
func Declare(paths ...string) {
	for _, path := range paths {
		_ = filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(name) // the go command takes note of it
			}
			return err
		})
	}
}

// DeclareArguments does so with those arguments of a command that are paths of something that exists.
func DeclareArguments(args []string) {
	for _, arg := range args {
		if _, err := os.Lstat(arg); err == nil {
			Declare(arg)
		}
	}
}
