package simcluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controllerPod is a pod with nothing but a controller, with linstor.toml from the Secret and the passphrase from a
// variable.
func controllerPod(name, serviceAccount, secret string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: byHand, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			ServiceAccountName: serviceAccount,
			Volumes: []corev1.Volume{{Name: "linstor-config", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: secret},
			}}},
			Containers: []corev1.Container{{
				Name: "linstor-controller", Image: "example.com/linstor-controller:v1.35.3",
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				VolumeMounts:             []corev1.VolumeMount{{Name: "linstor-config", MountPath: "/etc/linstor"}},
				Env: []corev1.EnvVar{{Name: "MASTER_PASSPHRASE",
					ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
						LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: "passphrase",
					}}}},
			}},
		},
	}
}

func createForTest(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Client().Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // the test's own context has ended by now
		if err := client.IgnoreNotFound(cluster.Client().Delete(ctx, object)); err != nil {
			t.Error(err)
		}
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				return apierrors.IsNotFound(cluster.Client().Get(ctx, client.ObjectKeyFromObject(object), object)), nil
			})
		if err != nil {
			t.Errorf("%s stays: %v", object.GetName(), err)
		}
	})
}

func secretWith(name, url string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: byHand},
		StringData: map[string]string{
			"linstor.toml": fmt.Sprintf("[db]\nconnection_url = %q\n", url), "passphrase": "correct horse",
		},
	}
}

// failsWith waits until the pod's only container crash-loops and its last message has the text.
func failsWith(pod *corev1.Pod, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := cluster.Client().Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		for _, s := range pod.Status.ContainerStatuses {
			if last := s.LastTerminationState.Terminated; s.State.Waiting != nil &&
				s.State.Waiting.Reason == "CrashLoopBackOff" &&
				last != nil && last.ExitCode == 1 && strings.Contains(last.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("status %+v", pod.Status.ContainerStatuses)
	}
}

func TestControllerShowsItsStartError(t *testing.T) {
	createForTest(t, secretWith("etcd", "etcd://etcd.example.com:2379"))
	pod := controllerPod("on-etcd", "controller", "etcd") // no longer supported by this version
	createForTest(t, pod)
	eventually(t, "start error", failsWith(pod, "etcd"))
}

func TestControllerNeedsTheRightsForItsDatabase(t *testing.T) {
	createForTest(t, secretWith("kubernetes", "k8s"))
	pod := controllerPod("without-rights", "default", "kubernetes")
	createForTest(t, pod)
	eventually(t, "refused database", failsWith(pod, "forbidden"))
}

func TestControllerWaitsForItsSecret(t *testing.T) {
	pod := controllerPod("early", "controller", "late")
	createForTest(t, pod)
	// As with a real kubelet, a volume whose Secret is missing keeps every container from starting, and only an Event
	// says why.
	eventually(t, "missing secret", func(ctx context.Context) error {
		if err := cluster.Client().Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Waiting != nil && s.State.Waiting.Reason == "ContainerCreating" {
				return nil
			}
		}
		return fmt.Errorf("status %+v", pod.Status)
	})
	createForTest(t, secretWith("late", "jdbc:postgresql://db.example.com/linstor"))
	eventually(t, "controller on its database", func(ctx context.Context) error {
		if err := cluster.Client().Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if !ready(pod) || cluster.World().Database("jdbc:postgresql://db.example.com/linstor").SchemaVersion() == "" {
			return fmt.Errorf("status %+v", pod.Status)
		}
		return nil
	})
}
