package simcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/test/machine"
)

const (
	fieldManager = "kubectl"
	// kindTimeout bounds the wait for a kind whose CustomResourceDefinition was applied just before.
	kindTimeout = 20 * time.Second
	// pollServed is how often WaitServed looks.
	pollServed = 50 * time.Millisecond
)

// ApplyFile does what "kubectl apply --server-side" does: it applies every object of the files, which may have many
// YAML documents, and of the .yaml and .yml files in directories (not below), in the order of their names. Unlike
// kubectl it waits for a kind whose definition comes in the same call.
func (c *Cluster) ApplyFile(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		files, err := manifestFiles(path)
		if err != nil {
			return err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("read manifest: %w", err)
			}
			if err := c.ApplyYAML(ctx, string(content)); err != nil {
				return fmt.Errorf("apply %s: %w", file, err)
			}
		}
	}
	return nil
}

// ApplyYAML applies the objects of a text with one or more YAML documents, see ApplyFile.
func (c *Cluster) ApplyYAML(ctx context.Context, text string) error {
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw json.RawMessage
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read YAML document: %w", err)
		}
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			return fmt.Errorf("read object: %w", err)
		}
		if err := c.applyObject(ctx, object); err != nil {
			return err
		}
	}
}

func (c *Cluster) applyObject(ctx context.Context, object *unstructured.Unstructured) error {
	name := strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
	if object.IsList() {
		return object.EachListItem(func(item runtime.Object) error {
			return c.applyObject(ctx, item.(*unstructured.Unstructured))
		})
	}
	resource, err := c.mapper.resource(ctx, object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), name, err)
	}
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), name, err)
	}
	if _, err := resource.Patch(ctx, object.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), name, err)
	}
	return nil
}

// WaitServed returns when the API server serves the kinds of lists. It serves the kind of a CustomResourceDefinition
// some time after it has taken it, and in between it names the definition's group and answers for none of its kinds.
func WaitServed(ctx context.Context, c *Cluster, lists ...client.ObjectList) error {
	for _, list := range lists {
		var last error
		err := machine.Poll(ctx, pollServed, kindTimeout, func(ctx context.Context) (bool, error) {
			last = c.client.List(ctx, list)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("wait until %T is served: %w: %w", list, err, last)
		}
	}
	return nil
}

func manifestFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find manifest: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if extension := filepath.Ext(entry.Name()); !entry.IsDir() && (extension == ".yaml" || extension == ".yml") {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

// mapper finds the API resource of an object.
type mapper struct {
	discovered *restmapper.DeferredDiscoveryRESTMapper
	dynamic    dynamic.Interface
}

func newMapper(config *rest.Config) (*mapper, error) {
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a dynamic client: %w", err)
	}
	return &mapper{
		discovered: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found)), dynamic: objects,
	}, nil
}

// resource waits a while for a kind that is not there: its definition may have been applied a moment ago.
func (m *mapper) resource(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	var mapping *meta.RESTMapping
	err := machine.Poll(ctx, 100*time.Millisecond, kindTimeout, func(context.Context) (bool, error) {
		var err error
		mapping, err = m.discovered.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			m.discovered.Reset()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("find the API resource of %s: %w", kind, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return m.dynamic.Resource(mapping.Resource), nil
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return m.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}
