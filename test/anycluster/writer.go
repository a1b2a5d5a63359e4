package anycluster

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Sizes of the volumes, and of what is written to them: blocks of 4 KiB.
const (
	volumeSize = "256Mi"
	blocks     = "4096"
)

// writer is a pod that uses a volume.
type writer struct {
	claim, pod, node string
	id               string
	// safe is the last record that this pod or an earlier one reported as safe.
	safe *atomic.Uint64
	stop context.CancelFunc
	// done is closed when the writer has ended, with failure as the reason.
	done    chan struct{}
	failure error
}

// iocheck is a command in pods: the checker, applied to the records.
func (w *writer) iocheck(verb string) string {
	return fmt.Sprintf("/checker/iocheck %s /data/records %s %s", verb, w.id, blocks)
}

// safe is the last record that the writer has reported as safe.
func (r *run) safe() uint64 {
	if r.writer == nil {
		return 0
	}
	return r.writer.safe.Load()
}

// createVolume creates a claim, with the content of a snapshot if one is named.
func (r *run) createVolume(ctx context.Context, name, snapshot string) error {
	var from *corev1.TypedLocalObjectReference
	if snapshot != "" {
		from = &corev1.TypedLocalObjectReference{APIGroup: ptr.To("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot",
			Name: snapshot}
	}
	return r.Client.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &r.Class, DataSource: from,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(volumeSize)}}}})
}

// startPod starts a pod with a volume, on another node than the one that is named, and copies the checker into it.
func (r *run) startPod(ctx context.Context, claim, notOn string) (name, node string, err error) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, GenerateName: claim + "-"},
		Spec: corev1.PodSpec{AutomountServiceAccountToken: ptr.To(false), RestartPolicy: corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			Containers: []corev1.Container{{Name: "main", Image: r.Image,
				Command: []string{"/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"},
					{Name: "checker", MountPath: "/checker"}}}},
			Volumes: []corev1.Volume{
				{Name: "checker", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
	if notOn != "" {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{notOn}}}}}}}}
	}
	if err := r.Client.Create(ctx, p); err != nil {
		return "", "", err
	}
	if err := r.until(ctx, "pod "+p.Name+" runs", func(ctx context.Context) error {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s on node %q", p.Status.Phase, p.Spec.NodeName)
		}
		return err
	}); err != nil {
		return p.Name, "", err
	}
	return p.Name, p.Spec.NodeName, r.copyChecker(ctx, p.Name)
}

func (r *run) copyChecker(ctx context.Context, pod string) error {
	f, err := os.Open(r.Checker)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = r.exec(ctx, f, nil, pod, "cat >/checker/iocheck && chmod +x /checker/iocheck")
	return err
}

// exec runs a script in a pod.
func (r *run) exec(ctx context.Context, in io.Reader, out io.Writer, pod, script string) (string, error) {
	args := []string{"-n", r.namespace, "exec", pod}
	if in != nil {
		args = append(args, "-i")
	}
	return r.Kubectl(ctx, in, out, append(args, "--", "/bin/sh", "-c", script)...)
}

// startWriting creates the volume and starts to write to it.
func (r *run) startWriting(ctx context.Context) error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	if err := r.createVolume(ctx, "data", ""); err != nil {
		return err
	}
	r.writer = &writer{claim: "data", id: hex.EncodeToString(id), safe: &atomic.Uint64{}}
	var err error
	if r.writer.pod, r.writer.node, err = r.startPod(ctx, r.writer.claim, ""); err != nil {
		return err
	}
	if _, err := r.exec(ctx, nil, nil, r.writer.pod, r.writer.iocheck("clear")); err != nil {
		return err
	}
	return r.write(ctx)
}

// write lets the pod write, until stopWriting, or until the pod is gone.
func (r *run) write(ctx context.Context) error {
	w := r.writer
	from := w.safe.Load()
	var writing context.Context
	writing, w.stop = context.WithCancel(ctx)
	w.done = make(chan struct{})
	lines, out := io.Pipe()
	go func() {
		_, err := r.exec(writing, nil, out, w.pod, "echo $$ >/checker/pid; exec "+w.iocheck("write"))
		_ = out.CloseWithError(err)
		w.failure = err
		close(w.done)
	}()
	go func() {
		scanner := bufio.NewScanner(lines)
		for scanner.Scan() {
			if word, found := strings.CutPrefix(scanner.Text(), "safe "); found {
				if n, err := strconv.ParseUint(word, 10, 64); err == nil {
					w.safe.Store(n)
				}
			}
		}
	}()
	ended := false
	err := r.until(ctx, "records are written", func(context.Context) error {
		select {
		case <-w.done:
			ended = true
			return nil
		default:
		}
		if n := w.safe.Load(); n < from+100 {
			return fmt.Errorf("%d are safe", n-from)
		}
		return nil
	})
	if ended {
		return errors.Join(errors.New("the writer has ended"), w.failure)
	}
	return err
}

// stopWriting ends the writer, in the pod too if that can be reached.
func (r *run) stopWriting(ctx context.Context) {
	w := r.writer
	if w == nil || w.stop == nil {
		return
	}
	limit, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, _ = r.exec(limit, nil, nil, w.pod, "p=$(cat /checker/pid) && kill $p && while [ -e /proc/$p ]; do sleep 1; done")
	w.stop()
	<-w.done
	w.stop = nil
}

// readBack moves the volume to another node, checks there that all records are there, and continues to write.
func (r *run) readBack(ctx context.Context) error {
	w := r.writer
	r.stopWriting(ctx)
	safe := w.safe.Load()
	if err := r.deletePod(ctx, w.pod); err != nil {
		return err
	}
	var err error
	if w.pod, w.node, err = r.startPod(ctx, w.claim, w.node); err != nil {
		return err
	}
	if err := r.check(ctx, w.pod, safe); err != nil {
		return err
	}
	return r.write(ctx)
}

// check checks the records of a volume up to one.
func (r *run) check(ctx context.Context, pod string, safe uint64) error {
	out, err := r.exec(ctx, nil, nil, pod, fmt.Sprintf("%s %d", r.writer.iocheck("check"), safe))
	if err != nil {
		r.evidence = true
		return fmt.Errorf("the records up to %d: %s: %w", safe, strings.TrimSpace(out), err)
	}
	return nil
}

// deletePod deletes a pod, if it is still there, and waits until it is gone.
func (r *run) deletePod(ctx context.Context, name string) error {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, p)); err != nil {
		return err
	}
	return r.gone(ctx, p)
}
