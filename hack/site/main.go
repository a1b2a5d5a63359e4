// Command site prepares the documentation for MkDocs: it writes what hack/site/build makes the site of. The pages stay
// as they are read in the repository; what MkDocs reads differently, and links that lead out of docs, are written anew
// in a copy.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	out := flag.String("out", ".cache/site", "output directory; its contents are removed first")
	flag.Parse()
	if err := run(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(root, out string) error {
	s, err := newSite(os.DirFS(root))
	if err != nil {
		return err
	}
	return s.write(out)
}
