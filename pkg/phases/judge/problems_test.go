package judge_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/clustertest"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/module"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/platform"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// The messages are those of the kernel, of insmod and of LINBIT's loader script.
func TestLoaderProblem(t *testing.T) {
	for _, tc := range []struct {
		message string
		reason  v1alpha1.HoldReason
		explain string // part of the message
	}{
		{"insmod: ERROR: could not insert module drbd.ko: Required key not available", v1alpha1.HoldSecureBootKeyMissing,
			"Secure Boot"},
		{"insmod: ERROR: could not insert module drbd.ko: Key was rejected by service", v1alpha1.HoldSecureBootKeyMissing,
			"Secure Boot"},
		{"insmod: ERROR: could not insert module drbd.ko: Operation not permitted", v1alpha1.HoldSecureBootKeyMissing,
			"Secure Boot"},
		{"Lockdown: insmod: unsigned module loading is restricted; see man kernel_lockdown.7",
			v1alpha1.HoldSecureBootKeyMissing, "Secure Boot"},
		{"- load DRBD with module option 'usermode_helper=disabled'", v1alpha1.HoldKernelModuleFailed, "usermode helper"},
		{"DRBD module version 8.4.11 is loaded", v1alpha1.HoldKernelModuleFailed, "DRBD 8"},
		{"Could not find the expexted kernel headers in /usr/src", v1alpha1.HoldKernelModuleFailed, "headers"},
		{"    KDIR=/lib/modules/6.12.88+deb13-amd64/build\n\nmake -C /lib/modules/6.12.88+deb13-amd64/build ...\n" +
			"/usr/src/linux-headers-6.12.88+deb13-common/Makefile:366: /usr/src/linux-headers-6.12.88+deb13-common/scripts/" +
			"Kbuild.include: No such file or directory", v1alpha1.HoldKernelModuleFailed, "linux-kbuild of the same release"},
		{"/tmp/pkg/drbd-9.3.3/drbd/drbd_int.h:42:10: fatal error: linux/lru_cache.h: No such file or directory",
			v1alpha1.HoldKernelModuleFailed, "does not compile against the node's kernel"},
		{"insmod: ERROR: could not insert module ./drbd.ko: Invalid module format", v1alpha1.HoldKernelModuleFailed,
			"does not match the node's kernel"},
		{"SORRY, kernel makefile not found.\nYou need to tell me a correct KDIR,", v1alpha1.HoldKernelModuleFailed,
			"headers are missing"},
		{"make: *** /lib/modules/6.1.0-40-amd64/build: No such file or directory.  Stop.", v1alpha1.HoldKernelModuleFailed,
			"headers are missing"},
		// The loader names the directory of the headers whenever it compiles: that alone does not say that they are missing.
		{"    KDIR=/lib/modules/6.19.0/build\nERROR: modpost: \"memcmp\" [drbd.ko] undefined!\n\n" +
			"Could not find the expexted *.ko, see stderr for more details", v1alpha1.HoldKernelModuleFailed,
			"does not compile against the node's kernel"},
		{"make[2]: *** [/usr/src/linux-headers-6.19.0/Makefile:1940: drbd] Error 2", v1alpha1.HoldKernelModuleFailed,
			"does not compile against the node's kernel"},
		{"DRBD kernel module version loaded does not satisfy the minimum version requirements ('9')",
			v1alpha1.HoldKernelModuleFailed, "DRBD 8"},
		{"Could not find matching rpm package for your kernel", v1alpha1.HoldKernelModuleFailed,
			"does not contain a module for the node's kernel"},
		{"Expected to find 1 matching package, but got: 0", v1alpha1.HoldKernelModuleFailed,
			"does not contain a module for the node's kernel"},
		{"something that nobody has seen before", v1alpha1.HoldKernelModuleFailed, "something that nobody has seen before"},
		{"", v1alpha1.HoldKernelModuleFailed, "CrashLoopBackOff"},
	} {
		for _, lasting := range []bool{false, true} {
			p := module.LoaderProblem(&poddiagnosis.Trouble{Container: "drbd-module-loader", Reason: "CrashLoopBackOff",
				Message: tc.message, Lasting: lasting},
				platform.ProfileOf(v1alpha1.PlatformGeneric))
			if p.Reason != string(tc.reason) || !strings.Contains(p.Message, tc.explain) ||
				!strings.Contains(p.Message, tc.message) {
				t.Errorf("%q: got %s: %s", tc.message, p.Reason, p.Message)
			}
			if want := map[bool]v1alpha1.HoldReason{true: tc.reason}[lasting]; p.Hold != want {
				t.Errorf("%q, lasting %t: hold %q, want %q", tc.message, lasting, p.Hold, want)
			}
		}
	}
}

func TestOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "text") + strings.Repeat(rapid.StringN(0, 40, -1).Draw(t, "more"), 20)
		out := text.OneLine(in)
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\n\r\t") || utf8.RuneCountInString(out) > 256 {
			t.Fatalf("oneLine(%q) = %q", in, out)
		}
		if text.OneLine(out) != out {
			t.Fatalf("not stable: %q becomes %q", out, text.OneLine(out))
		}
	})
	if got := text.OneLine(strings.Repeat("x", 300) + " the end"); !strings.HasSuffix(got, "x the end") ||
		!strings.HasPrefix(got, "…") {
		t.Errorf("the end is not kept: %q", got)
	}
	if got := text.OneLine("a\xffb"); got != "a?b" {
		t.Errorf("bytes that are no text: %q", got)
	}
}

func TestSentence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "text") + strings.Repeat(rapid.StringN(0, 40, -1).Draw(t, "more"), 20)
		out := text.Sentence(in)
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\n\r\t") || utf8.RuneCountInString(out) > 256 ||
			text.Sentence(out) != out {
			t.Fatalf("sentence(%q) = %q", in, out)
		}
	})
	got := text.Sentence("the fact: " + strings.Repeat("x", 300) + ": the cause")
	if !strings.HasPrefix(got, "the fact: x") || !strings.HasSuffix(got, "x: the cause") || strings.Count(got, "…") != 1 {
		t.Errorf("it does not keep its beginning and its end: %q", got)
	}
}

// What a scheduler says at length leaves room for the fact and for what to do.
func TestPodWithoutANode(t *testing.T) {
	w := clustertest.NewWorld(t, 1)
	w.UnreadyPod(v1alpha1.ComponentSatellite, "n01")
	w.States = map[string]cluster.StateSince{"n01": {State: v1alpha1.NodeStartingSatellite}} // for long
	p := w.Kube.Pods[v1alpha1.ComponentSatellite]["n01"]
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled,
		Status: corev1.ConditionFalse, Message: "0/1 nodes are available: " + strings.Repeat("no room. ", 40)})
	got := w.Snapshot().Members[0].Problem
	if got == nil || !strings.HasPrefix(got.Message, "its satellite pod is not ready (0/1 nodes are available: no") ||
		!strings.HasSuffix(got.Message, "=satellite") {
		t.Errorf("%+v", got)
	}
}
