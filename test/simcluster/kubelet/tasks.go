package kubelet

import (
	"cmp"
	"context"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// moduleRecheck is how often wait-for-module looks at /proc/modules.
	moduleRecheck = time.Second
	// satellitePort is LINSTOR's plain satellite port.
	satellitePort = 3366
	portName      = "linstor"
)

// begin starts a container's program. An error means that it cannot be started yet: something it refers to is missing.
func (d *Driver) begin(ctx context.Context, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	if e, crashes := d.faults.crash(c.Name, run.node); crashes {
		return endedTask{e}, nil
	}
	if d.opts.CSI != nil {
		if t, err := storageOf(d).begin(ctx, run, pod, c); t != nil || err != nil {
			return t, err
		}
	}
	switch c.Name {
	case ModuleLoader:
		return d.beginLoader(ctx, run, pod, c)
	case WaitForModule:
		return waitTask{machines: d.opts.Machines, node: run.node, spec: c}, nil
	case WaitForNode:
		return beginWait(ctx, d, run, pod, c)
	case Registrar:
		return beginRegistrar(ctx, d, run, c)
	case Inventory:
		return endedTask{exit{words: d.opts.Machines.Inventory(run.node)}}, nil
	case ShutdownGuard:
		return endedTask{}, nil
	case Satellite:
		return d.beginSatellite(ctx, run, pod, c), nil
	case DatabaseBackup, DatabaseDownload, DatabaseRestoreTest, ListVolumes, ServeListing, CompareBackup, FetchBackup,
		ImportDatabase, CheckImport, MoveDatabase, CheckMove:
		return beginAboutBackups(ctx, d, run, pod, c)
	case TakeMember, Etcd, LookForEtcd, SnapshotEtcd:
		return beginEtcd(ctx, d, run, pod, c)
	case RunMigration, Controller:
		return d.beginController(ctx, run, pod, c)
	default:
		return idleTask{}, nil
	}
}

// begin starts a program that has to do with volumes; nil for any other.
func (d storage) begin(ctx context.Context, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	switch {
	case c.Name == VolumeDriver:
		return d.beginVolumeDriver(ctx, run, pod, c)
	case realPrograms[c.Name]:
		return d.beginProcess(ctx, run, pod, c)
	case len(c.Command) == 1 && c.Command[0] == VolumeIO:
		return d.beginVolumeIO(run, c), nil
	case isScript(run, c):
		return d.beginScript(run, c), nil
	default:
		return nil, nil
	}
}

// idleTask is a program that runs and does nothing that matters here.
type idleTask struct{}

func (idleTask) state() taskState { return taskState{ready: true} }
func (idleTask) stop(bool)        {}

// endedTask is a program that ended as soon as it was started.
type endedTask struct{ exit exit }

func (t endedTask) state() taskState { return taskState{ended: true, exit: t.exit} }
func (endedTask) stop(bool)          {}

// loaderSigns is the environment variable that names the directory with the key to sign the module with (LINBIT/drbd,
// docker/entry.sh).
const loaderSigns = "LB_SIGN"

func (d *Driver) beginLoader(ctx context.Context, run *podRun, pod *corev1.Pod, c *corev1.Container) (task, error) {
	certificate := ""
	if dir := envValue(c, loaderSigns); dir != "" {
		var err error
		if certificate, err = d.files.mountedFile(ctx, pod, c, path.Join(dir, "signing_key.x509")); err != nil {
			return nil, err
		}
	}
	return endedTask{d.loadModule(run.node, c, certificate)}, nil
}

// loadModule is the module loader's work. One that finds the module loaded ends well and never replaces it
// (LINBIT/drbd, docker/entry.sh).
func (d *Driver) loadModule(node string, c *corev1.Container, certificate string) exit {
	if d.opts.Machines.ModuleVersion(node) != "" {
		return exit{}
	}
	if enrolled, on := d.faults.secureBoot(node); on && certificate != enrolled {
		reason := "Key was rejected by service"
		if certificate == "" {
			reason = "Operation not permitted"
		}
		return exit{code: 1, message: "insmod: ERROR: could not insert module ./drbd.ko: " + reason +
			"\n\nCould not load DRBD kernel modules"}
	}
	result := d.faults.loaderResult(node)
	if result.ExitCode != 0 {
		return exit{code: result.ExitCode, message: result.Message}
	}
	d.opts.Machines.LoadModule(node, LoadedVersion(cmp.Or(result.Version, ImageVersion(c.Image))))
	d.kick(node) // the pods that wait for the module
	return exit{message: result.Message}
}

// LoadedVersion is the DRBD version that a loader loads if it is to load that one: what is no version of DRBD 9 is the
// default's.
func LoadedVersion(version string) string {
	if !strings.HasPrefix(version, "9.") {
		return DefaultModuleVersion
	}
	return version
}

// WaitEnds reports whether wait-for-module ends while that version of the module is loaded; "" is none.
func WaitEnds(c *corev1.Container, loaded string) bool {
	return loaded != "" || envValue(c, "LB_MODULE_OPTIONAL") == "yes"
}

// waitTask ends when the machine's module is loaded. A test may load it behind the driver's back, so it looks again by
// itself; that costs no request.
type waitTask struct {
	machines Machines
	node     string
	spec     *corev1.Container
}

func (t waitTask) state() taskState {
	if version := t.machines.ModuleVersion(t.node); WaitEnds(t.spec, version) {
		return taskState{ended: true, exit: exit{words: version}}
	}
	return taskState{recheck: moduleRecheck}
}

func (waitTask) stop(bool) {}

// satelliteTask is a running satellite.
type satelliteTask struct {
	process Process
	ready   bool
}

func (d *Driver) beginSatellite(ctx context.Context, run *podRun, pod *corev1.Pod, c *corev1.Container) task {
	config := d.files.SatelliteConfig(ctx, pod, c, run.node, run.podIP)
	process, err := d.opts.Machines.StartSatellite(run.node, config)
	if err != nil {
		return endedTask{exit{code: 1, message: err.Error()}}
	}
	d.wakeWhenDone(process, run.key)
	return satelliteTask{process: process, ready: tcpProbeHits(c, config.Port)}
}

func (t satelliteTask) state() taskState {
	select {
	case <-t.process.Done():
		return taskState{ended: true, exit: exit{code: 1, message: "satellite ended"}}
	default:
		return taskState{ready: t.ready}
	}
}

func (t satelliteTask) stop(bool) {
	t.process.Stop()
	<-t.process.Done()
}

// tcpProbeHits reports whether the readiness probe, if any, asks the port that the program listens on.
func tcpProbeHits(c *corev1.Container, listening int) bool {
	probe := c.ReadinessProbe
	if probe == nil || probe.TCPSocket == nil {
		return true
	}
	if probe.TCPSocket.Port.Type == intstr.Int {
		return probe.TCPSocket.Port.IntValue() == listening
	}
	for _, p := range c.Ports {
		if p.Name == probe.TCPSocket.Port.StrVal {
			return int(p.ContainerPort) == listening
		}
	}
	return false
}

func (d *Driver) wakeWhenDone(p Process, key string) {
	go func() {
		<-p.Done()
		d.queue.Add(key)
	}()
}

func envValue(c *corev1.Container, name string) string {
	for _, env := range c.Env {
		if env.Name == name {
			return env.Value
		}
	}
	return ""
}
