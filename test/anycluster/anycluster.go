// Package anycluster tests a StorageCluster on any Kubernetes cluster, with whatever images, kernels and networks that
// has. A pod writes records (package iocheck) to a volume; after each fault, a pod on another node reads them back.
//
// Unless Options.IKnow is set, it changes nothing outside of a namespace that it creates and removes.
package anycluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// Options say what is tested, and how far the test may go.
type Options struct {
	Client client.Client
	// Kubectl runs kubectl against the cluster and returns what it prints. in is its input, out gets what it prints while
	// it runs; nil for none.
	Kubectl func(ctx context.Context, in io.Reader, out io.Writer, args ...string) (string, error)
	// Checker is the path of the program test/iocheck/program, compiled statically for the nodes.
	Checker string
	// Image is that of the pods. It needs a shell, cat, chmod and sleep.
	Image string
	// Class is the StorageClass of the volumes. Default: the first one of the StorageCluster that has more than one
	// replica.
	Class string
	// IKnow allows what affects others: satellites are restarted, nodes drained, evacuated and turned off.
	IKnow bool
	// PowerOff turns a node off and PowerOn turns it on. Cut takes its network away and Join gives it back. nil: unknown.
	PowerOff, PowerOn, Cut, Join func(ctx context.Context, node string) error
	// Evacuate is a node that is evacuated, "" for none; UpgradeTo a version of LINSTOR, "" for none.
	Evacuate, UpgradeTo string
	// Skip are the names of steps that are left out.
	Skip []string
	// Patience is how long a step may wait for one thing. Default 15 minutes.
	Patience time.Duration
	// Log says what is being done.
	Log io.Writer
}

// Run runs the test. It returns a report in any case; the error is about the test itself, such as a namespace that
// cannot be created. If records are not as they should be, the namespace stays, with the volumes.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Patience == 0 {
		o.Patience = 15 * time.Minute
	}
	r := &run{Options: o, Report: &Report{Began: time.Now()}}
	for _, name := range o.Skip {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.name == name }) {
			return r.Report, fmt.Errorf("there is no step %q to skip", name)
		}
	}
	if err := r.survey(ctx); err != nil {
		return r.Report, err
	}
	if err := r.createNamespace(ctx); err != nil {
		return r.Report, err
	}
	defer r.cleanUp(ctx)
	for _, s := range steps {
		if !r.do(ctx, s) {
			break
		}
	}
	return r.Report, nil
}

// run is a test that runs.
type run struct {
	Options
	*Report

	namespace string
	writer    *writer
	// evidence reports whether records were not as they should be.
	evidence bool
}

// step is a fault, and what is done so that it ends.
type step struct {
	name string
	// skip says why it is left out; "" if it is not.
	skip func(context.Context, *run) string
	do   func(context.Context, *run) error
}

// do does a step, and reads the records back. It returns false if the test must stop.
func (r *run) do(ctx context.Context, s step) bool {
	if why := r.skips(ctx, s); why != "" {
		r.add(Line{Step: s.name, Result: Skipped, Text: why})
		return true
	}
	r.say("%s …", s.name)
	began := time.Now()
	err := s.do(ctx, r)
	if err == nil {
		err = r.readBack(ctx)
	}
	if err == nil {
		err = r.waitReady(ctx)
	}
	line := Line{Step: s.name, Result: Passed, Took: time.Since(began), Text: fmt.Sprintf("%d records safe", r.safe())}
	if err != nil {
		line.Result, line.Text = Failed, err.Error()
	}
	r.add(line)
	return err == nil
}

// skips says why a step is left out; "" if it is not.
func (r *run) skips(ctx context.Context, s step) string {
	switch {
	case slices.Contains(r.Skip, s.name):
		return "as requested"
	case s.skip != nil:
		return s.skip(ctx, r)
	}
	return ""
}

func (r *run) say(format string, args ...any) { _, _ = fmt.Fprintf(r.Log, format+"\n", args...) }

// until waits until a condition holds.
func (r *run) until(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, r.Patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: not within %s: %w", what, r.Patience, errors.Join(last, context.Cause(ctx)))
	}
	return nil
}

// get reads the StorageCluster.
func (r *run) get(ctx context.Context) (*v1alpha1.StorageCluster, error) {
	var sc v1alpha1.StorageCluster
	return &sc, r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterName}, &sc)
}

// waitReady waits until the StorageCluster is Ready, with all volumes well.
func (r *run) waitReady(ctx context.Context) error {
	return r.until(ctx, "the StorageCluster is Ready", func(ctx context.Context) error {
		sc, err := r.get(ctx)
		if err != nil {
			return err
		}
		s := &sc.Status
		for _, c := range s.Conditions {
			if c.Type == "VolumesHealthy" && c.Status != metav1.ConditionTrue {
				return fmt.Errorf("%s: %s", c.Type, c.Message)
			}
		}
		if s.Phase != v1alpha1.PhaseReady || s.ObservedGeneration != sc.Generation {
			return fmt.Errorf("it is %s: %s", s.Phase, s.Message)
		}
		return nil
	})
}

// survey notes what the cluster is, and refuses one in which nothing can be tested.
func (r *run) survey(ctx context.Context) error {
	if err := r.waitReady(ctx); err != nil {
		return fmt.Errorf("the test needs a cluster that is well: %w", err)
	}
	sc, err := r.get(ctx)
	if err != nil {
		return err
	}
	if r.Class == "" {
		for i := range sc.Spec.Volumes.StorageClasses {
			if c := &sc.Spec.Volumes.StorageClasses[i]; c.Replicas > 1 {
				r.Class = c.Name
				break
			}
		}
	}
	if r.Class == "" {
		return errors.New("no StorageClass with more than one replica in spec.volumes.storageClasses: name one")
	}
	r.LINSTOR, r.StorageClass = sc.Status.Version, r.Class
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.HasLabels{v1alpha1.LabelMember}); err != nil {
		return err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		info := n.Status.NodeInfo
		r.Nodes = append(r.Nodes, strings.Join([]string{n.Name, info.OSImage, info.KernelVersion,
			info.KubeletVersion, info.ContainerRuntimeVersion}, ", "))
	}
	if len(nodes.Items) < 2 {
		return fmt.Errorf("the StorageCluster has %d nodes: the test needs two", len(nodes.Items))
	}
	return nil
}

func (r *run) createNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "storagecluster-test-"}}
	if err := r.Client.Create(ctx, ns); err != nil {
		return err
	}
	r.namespace = ns.Name
	return nil
}

// cleanUp removes all that the test has created, unless it is evidence. The volumes go with the namespace, as the
// StorageClass says.
func (r *run) cleanUp(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	r.stopWriting(ctx)
	if r.evidence {
		r.add(Line{Step: "clean up", Result: Skipped, Text: "namespace " + r.namespace + " has the volume with the fault"})
		return
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}
	err := r.Client.Delete(ctx, ns)
	if err == nil {
		err = r.gone(ctx, ns)
	}
	if err != nil {
		r.add(Line{Step: "clean up", Result: Failed, Text: err.Error()})
	}
}

// gone waits until an object is gone.
func (r *run) gone(ctx context.Context, o client.Object) error {
	return r.until(ctx, fmt.Sprintf("%T %s is gone", o, o.GetName()), func(ctx context.Context) error {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return errors.New("it is still there")
		}
		return client.IgnoreNotFound(err)
	})
}
