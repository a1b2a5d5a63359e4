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
	text, err := io.ReadAll(io.LimitReader(in, mostManifest))
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
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
	cluster *access.Cluster
	manager string
	force   bool
}

// apply is what the API server would store; a refusal if it would not.
func (d dryRun) apply(ctx context.Context, manifest *unstructured.Unstructured) ([]byte, *result.Refusal, error) {
	name := manifest.GetName()
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(kind)
	err := d.cluster.Get(ctx, client.ObjectKey{Name: name}, stored)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, d.explain(err, "get", name)
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
		return nil, refusal, nil
	}
	if err != nil {
		return nil, nil, d.explain(err, "patch", name)
	}
	edited.SetManagedFields(nil)
	data, err := json.Marshal(edited)
	if err != nil {
		return nil, nil, fmt.Errorf("read what the API server would store: %w", err)
	}
	return data, nil, nil
}

// patch is what kubectl apply would send. It goes by how the object was applied before: a manifest without a field
// takes away what the same way of applying has put there, and nothing else.
func (d dryRun) patch(manifest, stored *unstructured.Unstructured) (client.Patch, error) {
	data, err := json.Marshal(manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	last, classic := stored.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"]
	if !classic {
		return client.RawPatch(types.ApplyPatchType, data), nil
	}
	current, err := json.Marshal(stored)
	if err != nil {
		return nil, fmt.Errorf("read the StorageCluster: %w", err)
	}
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
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			if cause.Field != "" && !slices.Contains(out.Fields, cause.Field) {
				out.Fields = append(out.Fields, cause.Field)
			}
		}
	}
	return out
}
