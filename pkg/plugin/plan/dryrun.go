package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plan/result"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/exit"
)

// kind is that of a StorageCluster.
var kind = v1alpha1.GroupVersion.WithKind("StorageCluster")

// mostManifest bounds what is read of a file.
const mostManifest = 4 << 20

// manifest reads the StorageCluster of the file; nil if none was named. The file may have other objects beside it.
func (c *command) manifest() (*unstructured.Unstructured, error) {
	in := c.In
	switch c.file {
	case "":
		return nil, nil
	case "-":
	default:
		file, err := os.Open(c.file)
		if err != nil {
			return nil, fmt.Errorf("read the manifest: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, mostManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if len(text) > mostManifest {
		return nil, exit.Usagef("%s is larger than %d MiB: name a file with the StorageCluster alone", c.file,
			mostManifest>>20)
	}
	var found *unstructured.Unstructured
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		u := &unstructured.Unstructured{}
		switch err := d.Decode(&u.Object); {
		case errors.Is(err, io.EOF) && found == nil:
			return nil, exit.Usagef("%s has no StorageCluster", c.file)
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", c.file, err)
		case u.GetKind() != kind.Kind:
		case found != nil:
			return nil, exit.Usagef("%s has two StorageClusters, and a Kubernetes cluster has one", c.file)
		case u.GetName() == "":
			return nil, exit.Usagef("the StorageCluster of %s has no name: metadata.name is %s", c.file, v1alpha1.ClusterName)
		default:
			found = u
		}
	}
}

// dryRun is an edit that the API server judges and does not store.
type dryRun struct {
	cluster           *access.Cluster
	manager           string
	serverSide, force bool
}

// apply is what the API server would store, as far as the operator judges it; a plan that says no if it would not.
func (d dryRun) apply(ctx context.Context, manifest *unstructured.Unstructured) ([]byte, *result.Plan, error) {
	name := manifest.GetName()
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(kind)
	of := result.Edit
	err := d.cluster.Get(ctx, client.ObjectKey{Name: name}, stored)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, nil, d.explain(err, "get", name)
	case err != nil:
		of, stored = result.Creation, nil
	}
	patch, err := d.patch(manifest, stored)
	if err != nil {
		return nil, nil, err
	}
	edited := &unstructured.Unstructured{}
	edited.SetGroupVersionKind(kind)
	edited.SetName(name)
	options := []client.PatchOption{client.DryRunAll, client.FieldOwner(d.manager), client.FieldValidation("Strict")}
	if d.force && patch.Type() == types.ApplyPatchType {
		options = append(options, client.ForceOwnership)
	}
	err = d.cluster.Patch(ctx, edited, patch, options...)
	if refusal := refused(err); refusal != nil {
		return nil, &result.Plan{Outcome: result.Refused, Of: of, Refusals: []result.Refusal{*refusal}}, nil
	}
	if err != nil {
		return nil, nil, d.explain(err, "patch", name)
	}
	data, err := json.Marshal(judged(edited))
	if err != nil {
		return nil, nil, fmt.Errorf("read what the API server would store: %w", err)
	}
	return data, nil, nil
}

// judged is the part of an object that the operator judges: the spec, and its own annotations. An operator of another
// version may not know a field of the status, and would refuse the whole object for it.
func judged(o *unstructured.Unstructured) map[string]any {
	annotations := map[string]any{}
	for k, v := range o.GetAnnotations() {
		if strings.HasPrefix(k, v1alpha1.Prefix) {
			annotations[k] = v
		}
	}
	return map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "spec": o.Object["spec"],
		"metadata": map[string]any{"name": o.GetName(), "annotations": annotations}}
}

// patch is what kubectl apply would send: without --server-side, a field that the manifest of before had and this one
// lacks is removed, and where nobody knows the one before, none is. An object that is not there yet has no other
// managers, and both ways make the same of it; stored is nil then.
func (d dryRun) patch(manifest, stored *unstructured.Unstructured) (client.Patch, error) {
	data, err := json.Marshal(manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if d.serverSide || stored == nil {
		return client.RawPatch(types.ApplyPatchType, data), nil
	}
	current, err := json.Marshal(stored)
	if err != nil {
		return nil, fmt.Errorf("read the StorageCluster: %w", err)
	}
	last := stored.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	data, err = jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(last), data, current)
	if err != nil {
		return nil, fmt.Errorf("compare the manifest with the StorageCluster: %w", err)
	}
	return client.RawPatch(types.MergePatchType, data), nil
}

func (d dryRun) explain(err error, verb, name string) error {
	return d.cluster.Explain(err, verb, "storageclusters.storage.linstor.dev", name)
}

// noRight is what the API server says where the user lacks a right: that is no judgement of the edit.
var noRight = regexp.MustCompile(` cannot \w+ resource `)

// undeclared is what server-side apply says of a field that the schema does not have, as an error without a reason
// (Kubernetes 1.36, apimachinery/pkg/util/managedfields).
var undeclared = regexp.MustCompile(`failed to create typed patch object`)

// strict is what the API server says of fields that the schema does not have, after the whole object that a merge
// patch would make (Kubernetes 1.36, apiserver/pkg/endpoints/handlers/patch.go).
var (
	strict       = regexp.MustCompile(`strict decoding error: (?s:.*)$`)
	unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)
)

// refused is the API server's judgement of an edit that it would not take; nil for other errors.
func refused(err error) *result.Refusal {
	status := apierrors.APIStatus(nil)
	takes := apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err) ||
		apierrors.IsForbidden(err) && !noRight.MatchString(err.Error()) ||
		err != nil && undeclared.MatchString(err.Error())
	if !takes || !errors.As(err, &status) {
		return nil
	}
	out := &result.Refusal{By: "API server", Reason: string(apierrors.ReasonForError(err)), Message: err.Error()}
	if said := strict.FindString(out.Message); said != "" {
		out.Message = said
		for _, m := range unknownField.FindAllStringSubmatch(said, -1) {
			out.Fields = append(out.Fields, m[1])
		}
		return out
	}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Field != "" && !slices.Contains(out.Fields, cause.Field) {
				out.Fields = append(out.Fields, cause.Field)
			}
		}
	}
	return out
}
