package kubelet

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// ImageVersion is the version in an image's tag: quay.io/piraeusdatastore/piraeus-server:v1.35.3-2 is 1.35.3. An image
// without a tag has none.
func ImageVersion(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, found := strings.Cut(name, ":")
	if !found {
		return ""
	}
	tag = strings.TrimPrefix(tag, "v")
	if i := strings.IndexAny(tag, "-+_"); i >= 0 {
		tag = tag[:i]
	}
	return tag
}

// imageID is what a container runtime reports: the image's name with a digest, here made up from the reference.
func imageID(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	digest := sha256.Sum256([]byte(image))
	return name + "@sha256:" + hex.EncodeToString(digest[:])
}

const (
	messageBytes = 2048 // a kubelet's limits on what it takes from the end of a container's log
	messageLines = 80
)

// logTail is what terminationMessagePolicy FallbackToLogsOnError shows.
func logTail(log string) string {
	if log == "" {
		return ""
	}
	log = strings.TrimSuffix(log, "\n") + "\n" // the runtime ends the last line if the program has not
	if len(log) > messageBytes {
		log = log[len(log)-messageBytes:]
	}
	lines := slices.Collect(strings.Lines(log))
	return strings.Join(lines[max(0, len(lines)-messageLines):], "")
}
