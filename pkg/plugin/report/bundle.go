package report

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/redact"
)

// bundle is the archive. All that goes into it passes through package redact.
type bundle struct {
	dir   string
	when  time.Time
	zip   *gzip.Writer
	tar   *tar.Writer
	room  int64 // how many bytes may still come, uncompressed
	holds []string
	// left says what is not in it, and why.
	left []string
}

func newBundle(w io.Writer, dir string, when time.Time, room int64) *bundle {
	zip := gzip.NewWriter(w)
	return &bundle{dir: dir, when: when, zip: zip, tar: tar.NewWriter(zip), room: room}
}

// leaveOut notes what is missing.
func (b *bundle) leaveOut(format string, args ...any) {
	b.left = append(b.left, redact.Text(fmt.Sprintf(format, args...)))
}

// full reports whether nothing more goes in.
func (b *bundle) full() bool { return b.room <= 0 }

// add puts a file in. One that does not fit is left out, and that is noted.
func (b *bundle) add(name, text string) error {
	text = redact.Text(text)
	if int64(len(text)) > b.room {
		b.leaveOut("%s: does not fit into the report (%d bytes)", name, len(text))
		return nil
	}
	b.room -= int64(len(text))
	b.holds = append(b.holds, fmt.Sprintf("%-9d %s", len(text), name))
	return b.write(name, text)
}

func (b *bundle) write(name, text string) error {
	header := &tar.Header{Name: path.Join(b.dir, name), Mode: 0o600, Size: int64(len(text)), ModTime: b.when,
		Typeflag: tar.TypeReg}
	if err := b.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := io.WriteString(b.tar, text); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// addObjects puts objects into one file of YAML documents.
func (b *bundle) addObjects(name string, objects []map[string]any) error {
	var text strings.Builder
	for _, o := range objects {
		redact.Object(o)
		data, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		text.WriteString("---\n")
		text.Write(data)
	}
	if text.Len() == 0 {
		text.WriteString("# none\n")
	}
	return b.add(name, text.String())
}

// close writes the list of what is in it and what is not, which always fits, and ends the archive.
func (b *bundle) close(about string) error {
	var text strings.Builder
	text.WriteString(about + "\nContents, with the size of each file in bytes:\n\n")
	for _, h := range b.holds {
		text.WriteString("  " + h + "\n")
	}
	if len(b.left) > 0 {
		text.WriteString("\nNot included:\n\n")
		for _, l := range b.left {
			text.WriteString("  " + l + "\n")
		}
	}
	if err := b.write("README.txt", redact.Text(text.String())); err != nil {
		return err
	}
	if err := b.tar.Close(); err != nil {
		return fmt.Errorf("finish the report: %w", err)
	}
	if err := b.zip.Close(); err != nil {
		return fmt.Errorf("finish the report: %w", err)
	}
	return nil
}
