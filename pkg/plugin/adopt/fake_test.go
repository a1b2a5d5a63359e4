package adopt_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/access"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/plugintest"
)

// change is a text in a file of testdata, and what is there in its place. The text must be there.
type change struct{ from, to string }

func text(t *testing.T, file string, changes []change) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	out := string(data)
	for _, c := range changes {
		if !strings.Contains(out, c.from) {
			t.Fatalf("%s has no %q", file, c.from)
		}
		out = strings.ReplaceAll(out, c.from, c.to)
	}
	return out
}

// apiServer serves objects as they are in a file, whatever kind they are, and refuses what is denied.
type apiServer struct {
	t       *testing.T
	objects []map[string]any
	denied  string
}

func newServer(t *testing.T, denied string, changes []change) *plugintest.Server {
	t.Helper()
	a := &apiServer{t: t, denied: denied}
	for _, doc := range strings.Split(text(t, "piraeus.yaml", changes), "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		a.objects = append(a.objects, o)
	}
	writes := errors.New("it writes")
	return plugintest.New(t, nil, plugintest.Faults{Get: a.get, List: a.list,
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return writes },
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return writes },
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return writes },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return writes
		}})
}

// find are the objects of a kind. The values of Secrets must not be asked for.
func (a *apiServer) find(into any, gvk schema.GroupVersionKind) ([]map[string]any, error) {
	switch into.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
	default:
		if gvk.Kind == "Secret" {
			a.t.Error("the values of Secrets were asked for")
		}
	}
	resource := schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind)}
	if a.denied != "" && strings.EqualFold(gvk.Kind, a.denied) {
		return nil, apierrors.NewForbidden(resource, "", errors.New("no"))
	}
	var out []map[string]any
	for _, o := range a.objects {
		if u := (unstructured.Unstructured{Object: o}); u.GroupVersionKind() == gvk {
			out = append(out, o)
		}
	}
	return out, nil
}

func (a *apiServer) get(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object,
	_ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, access.Scheme())
	if err != nil {
		return err
	}
	all, err := a.find(into, gvk)
	for _, o := range all {
		u := unstructured.Unstructured{Object: o}
		if u.GetName() == key.Name && u.GetNamespace() == key.Namespace {
			return reencode(o, into)
		}
	}
	if err != nil {
		return err
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
}

func (a *apiServer) list(_ context.Context, _ client.WithWatch, into client.ObjectList,
	options ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(into, access.Scheme())
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	all, err := a.find(into, gvk)
	if err != nil {
		return err
	}
	var how client.ListOptions
	how.ApplyOptions(options)
	var items []map[string]any
	for _, o := range all {
		u := unstructured.Unstructured{Object: o}
		kind, _ := o["type"].(string)
		if how.Namespace != "" && u.GetNamespace() != how.Namespace ||
			how.FieldSelector != nil && !strings.Contains(how.FieldSelector.String(), "type="+kind) {
			continue
		}
		items = append(items, o)
	}
	meta := map[string]any{}
	if how.Limit > 0 && int64(len(items)) > how.Limit {
		meta["remainingItemCount"] = int64(len(items)) - how.Limit
		items = items[:how.Limit]
	}
	list := map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind + "List", "metadata": meta,
		"items": items}
	if items == nil {
		list["items"] = []any{}
	}
	return reencode(list, into)
}

func reencode(from, into any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// linstor answers as LINSTOR's client does.
func linstor(t *testing.T, fails error, changes []change) func(context.Context, string, ...string) ([]byte, error) {
	t.Helper()
	var answers map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text(t, "linstor.json", changes)), &answers); err != nil {
		t.Fatal(err)
	}
	return func(_ context.Context, namespace string, args ...string) ([]byte, error) {
		what := args[len(args)-2]
		if namespace != "piraeus-datastore" || args[len(args)-1] != "list" || answers[what] == nil {
			t.Errorf("in %s: %q", namespace, args)
		}
		return answers[what], fails
	}
}
