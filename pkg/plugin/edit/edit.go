// Package edit reads a manifest of the StorageCluster, and has the API server judge by a dry run what an edit of that
// kind would store: with the user's own rights, and without storing anything.
package edit

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

// Manifest reads the StorageCluster of a file, - for the standard input; nil if none was named. The file may have
// other objects beside it.
func Manifest(in io.Reader, name string) (*unstructured.Unstructured, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
	default:
		file, err := os.Open(name)
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
		return nil, exit.Usagef("%s exceeds the limit of %d MiB: use a file that contains only the StorageCluster", name,
			mostManifest>>20)
	}
	var found *unstructured.Unstructured
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		u := &unstructured.Unstructured{}
		switch err := d.Decode(&u.Object); {
		case errors.Is(err, io.EOF) && found == nil:
			return nil, exit.Usagef("%s contains no StorageCluster", name)
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", name, err)
		case u.GetKind() != kind.Kind:
		case found != nil:
			return nil, exit.Usagef("%s contains more than one StorageCluster, but a Kubernetes cluster can have only one",
				name)
		case u.GetName() == "":
			return nil, exit.Usagef("the StorageCluster in %s has no name: set metadata.name to %s", name, v1alpha1.ClusterName)
		default:
			found = u
		}
	}
}

// DryRun is an edit that the API server judges and does not store.
type DryRun struct {
	Cluster *access.Cluster
	// Manager is who would apply the manifest.
	Manager string
	// ServerSide stands for kubectl apply --server-side, and Force for its --force-conflicts.
	ServerSide, Force bool
}

// Judgement is what the API server says of an edit.
type Judgement struct {
	// Of says what was judged: an edit, or a new object.
	Of result.Subject
	// Stored is what it would store, as far as the operator judges that; nil where it refuses.
	Stored []byte
	// Refusal is why it would not take the edit; nil where it would.
	Refusal *result.Refusal
}

// Apply has the API server judge what applying a manifest would store.
func (d DryRun) Apply(ctx context.Context, manifest *unstructured.Unstructured) (*Judgement, error) {
	name := manifest.GetName()
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(kind)
	out := &Judgement{Of: result.Edit}
	err := d.Cluster.Get(ctx, client.ObjectKey{Name: name}, stored)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, d.explain(err, "get", name)
	case err != nil:
		out.Of, stored = result.Creation, nil
	}
	patch, err := d.patch(manifest, stored)
	if err != nil {
		return nil, err
	}
	edited := &unstructured.Unstructured{}
	edited.SetGroupVersionKind(kind)
	edited.SetName(name)
	options := []client.PatchOption{client.DryRunAll, client.FieldOwner(d.Manager), client.FieldValidation("Strict")}
	if d.Force && patch.Type() == types.ApplyPatchType {
		options = append(options, client.ForceOwnership)
	}
	err = d.Cluster.Patch(ctx, edited, patch, options...)
	if out.Refusal = refused(err); out.Refusal != nil {
		return out, nil
	}
	if err != nil {
		return nil, d.explain(err, "patch", name)
	}
	if out.Stored, err = json.Marshal(judged(edited)); err != nil {
		return nil, fmt.Errorf("read the result of the dry run: %w", err)
	}
	return out, nil
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
func (d DryRun) patch(manifest, stored *unstructured.Unstructured) (client.Patch, error) {
	data, err := json.Marshal(manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	if d.ServerSide || stored == nil {
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

func (d DryRun) explain(err error, verb, name string) error {
	return d.Cluster.Explain(err, verb, "storageclusters.storage.linstor.dev", name)
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
