// Package nodes is the commands maintenance and evacuate: what an administrator does with a node by hand, as
// docs/how-to says, with a look at what it means for volumes first.
package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Linstor runs LINSTOR's own client and returns what it printed.
type Linstor func(ctx context.Context, args ...string) ([]byte, error)

// lookTime bounds a look into LINSTOR. Whoever wants to switch a node off does not wait for ever to learn about it.
const lookTime = 30 * time.Second

// inPod runs LINSTOR's client in the controller's pod, as the runbooks do, with kubectl and the flags of the plugin.
// That works where LINSTOR's API is locked, too, and takes the right to run commands in pods.
func inPod(flags *genericclioptions.ConfigFlags) Linstor {
	return func(ctx context.Context, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		all := append(kubectlFlags(flags), "-n", v1alpha1.WorkloadNamespace, "exec", "deploy/linstor-controller", "-c",
			"linstor-controller", "--", "linstor")
		cmd := exec.CommandContext(ctx, "kubectl", append(all, args...)...)
		var out, failure bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &failure
		if err := cmd.Run(); err != nil {
			said := strings.Join(strings.Fields(failure.String()), " ")
			return nil, fmt.Errorf("run LINSTOR's client: %w: %s", err, text.Head(said, 200))
		}
		return out.Bytes(), nil
	}
}

// kubectlFlags are the flags with which the plugin was called, for kubectl. Credentials that stand on the command line
// are not handed on, where others could read them.
func kubectlFlags(f *genericclioptions.ConfigFlags) []string {
	var out []string
	for _, flag := range []struct {
		name  string
		value *string
	}{{"kubeconfig", f.KubeConfig}, {"context", f.Context}, {"cluster", f.ClusterName}, {"user", f.AuthInfoName},
		{"server", f.APIServer}, {"as", f.Impersonate}, {"certificate-authority", f.CAFile}} {
		if flag.value != nil && *flag.value != "" {
			out = append(out, "--"+flag.name+"="+*flag.value)
		}
	}
	return out
}

// resource is a volume's copy on one node, as LINSTOR's API shows it.
type resource struct {
	Name  string   `json:"name"`
	Node  string   `json:"node_name"`
	Flags []string `json:"flags"`
	State struct {
		InUse *bool `json:"in_use"`
	} `json:"state"`
	Volumes []struct {
		State struct {
			Disk string `json:"disk_state"`
		} `json:"state"`
	} `json:"volumes"`
}

// diskful reports whether the copy has data, or shall have it.
func (r *resource) diskful() bool {
	return !slices.ContainsFunc(r.Flags, func(f string) bool {
		return slices.Contains([]string{"DISKLESS", "DRBD_DISKLESS", "TIE_BREAKER", "NVME_INITIATOR", "EBS_INITIATOR"}, f)
	})
}

// upToDate reports whether all volumes of the copy are known to be good. What is not known does not count as good.
func (r *resource) upToDate() bool {
	for _, v := range r.Volumes {
		if v.State.Disk != "UpToDate" && v.State.Disk != "Created" { // without DRBD there is nothing to be up to date with
			return false
		}
	}
	return len(r.Volumes) > 0 && !slices.Contains(r.Flags, "INACTIVE")
}

// parse reads LINSTOR's list of resources. Its client wraps the list of the API into one more.
func parse(data []byte) ([]resource, error) {
	var nested [][]resource
	if err := json.Unmarshal(data, &nested); err == nil {
		return slices.Concat(nested...), nil
	}
	var flat []resource
	if err := json.Unmarshal(data, &flat); err != nil {
		return nil, fmt.Errorf("read LINSTOR's list of resources: %w", err)
	}
	return flat, nil
}

// Copies are what LINSTOR has on a node.
type Copies struct {
	// All are the volumes with a copy there.
	All int
	// Last are those of which no other node is known to have a good copy.
	Last []string
	// InUse are those that are in use on the node.
	InUse []string
}

// copiesOn finds out what is on a node.
func copiesOn(ctx context.Context, linstor Linstor, node string) (*Copies, error) {
	data, err := linstor(ctx, "--machine-readable", "--output-version", "v1", "resource", "list")
	if err != nil {
		return nil, err
	}
	all, err := parse(data)
	if err != nil {
		return nil, err
	}
	good := map[string]bool{}
	for i := range all {
		if r := &all[i]; !sameNode(r.Node, node) && r.diskful() && r.upToDate() {
			good[r.Name] = true
		}
	}
	out := &Copies{}
	for i := range all {
		r := &all[i]
		if !sameNode(r.Node, node) {
			continue
		}
		if r.State.InUse != nil && *r.State.InUse {
			out.InUse = append(out.InUse, r.Name)
		}
		if !r.diskful() {
			continue
		}
		out.All++
		if !good[r.Name] {
			out.Last = append(out.Last, r.Name)
		}
	}
	slices.Sort(out.Last)
	slices.Sort(out.InUse)
	return out, nil
}

// sameNode compares names as LINSTOR does, in which case means nothing.
func sameNode(a, b string) bool { return strings.EqualFold(a, b) }

// consequences says what it means for volumes that a node goes away, for a while or for good.
func consequences(ctx context.Context, linstor Linstor, node string, forGood bool) []string {
	c, err := copiesOn(ctx, linstor, node)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return []string{"It could not be found out which volumes have their last copy there: " + err.Error(),
			"Look yourself: kubectl -n linstor-storage exec deploy/linstor-controller -c linstor-controller -- linstor " +
				"resource list --nodes " + node}
	}
	if c.All == 0 && len(c.InUse) == 0 {
		return []string{"No volume has a copy on " + node + "."}
	}
	out := []string{fmt.Sprintf("%s %s a copy on %s.", text.Amount(c.All, "volume", "volumes"),
		map[bool]string{true: "has", false: "have"}[c.All == 1], node)}
	switch {
	case len(c.Last) == 0:
		out = append(out, "Each of them has a good copy elsewhere.")
	case forGood:
		out = append(out, fmt.Sprintf("LAST COPY: no other node is known to have a good copy of %s. The operator does not "+
			"give a last copy up; it moves it, or asks (LastReplicaAtRisk).", text.ListSome(c.Last)))
	default:
		out = append(out, fmt.Sprintf("LAST COPY: no other node is known to have a good copy of %s. Nobody can use that "+
			"while the node is down.", text.ListSome(c.Last)))
	}
	if len(c.InUse) > 0 {
		out = append(out, fmt.Sprintf("In use there: %s. Drain the node.", text.ListSome(c.InUse)))
	}
	return out
}
