package kubelet

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// VolumeIO is the command of a container that reads and writes volumes. Its arguments are done in order:
//
//	write PATH CONTENT   writes a file, PATH is below one of the container's volumeMounts, or one of its volumeDevices
//	read PATH            reads one; the content is the container's termination message
//	size PATH            tells the size of PATH's file system, or device, in KiB in the termination message
//	hold                 runs on afterwards; without it the container ends
//
// A step that fails ends the container with exit code 1 and the reason as the last line of its log.
const VolumeIO = "volume-io"

// beginVolumeIO does what the container's arguments say at once.
func (d storage) beginVolumeIO(run *podRun, c *corev1.Container) task {
	var said []string
	for _, arg := range c.Args {
		if arg == "hold" {
			return idleTask{}
		}
		words, err := d.volumeIO(run, c, arg)
		if err != nil {
			return endedTask{exit{code: 1, message: arg + ": " + err.Error()}}
		}
		if words != "" {
			said = append(said, words)
		}
	}
	return endedTask{exit{words: strings.Join(said, "\n")}}
}

func (d storage) volumeIO(run *podRun, c *corev1.Container, arg string) (string, error) {
	what, rest, _ := strings.Cut(arg, " ")
	file, content, _ := strings.Cut(rest, " ")
	m, name, err := run.volumeAt(c, file)
	if err != nil {
		return "", err
	}
	host := d.mountsOn(run.node)
	at, ok := host.At(m.target)
	if !ok {
		return "", fmt.Errorf("%s is not mounted", m.target)
	}
	switch what {
	case "write":
		if at.ReadOnly {
			return "", fmt.Errorf("%s: read-only file system", file)
		}
		return "", d.opts.CSI.Disks.WriteFile(run.node, at.Device, name, content)
	case "read":
		return d.opts.CSI.Disks.ReadFile(run.node, at.Device, name)
	case "size":
		size, err := host.FileSystemKiB(m.target)
		return fmt.Sprint(size), err
	}
	return "", fmt.Errorf("unknown step; there are write, read, size and hold")
}

// volumeAt is the volume that a path in a container is on, and the name of the file there. A device has no files: its
// content has an empty name.
func (r *podRun) volumeAt(c *corev1.Container, file string) (*claimMount, string, error) {
	for _, device := range c.VolumeDevices {
		if device.DevicePath == file {
			return r.claimMount(device.Name, "")
		}
	}
	for _, mount := range c.VolumeMounts {
		if name, below := strings.CutPrefix(path.Clean(file), path.Clean(mount.MountPath)+"/"); below {
			return r.claimMount(mount.Name, path.Join(mount.SubPath, name))
		}
	}
	return nil, "", fmt.Errorf("%s is on no volume of the container", file)
}

func (r *podRun) claimMount(volume, name string) (*claimMount, string, error) {
	for i := range r.claims {
		if r.claims[i].volume == volume {
			return &r.claims[i], name, nil
		}
	}
	return nil, "", fmt.Errorf("volume %s is no claim's", volume)
}
