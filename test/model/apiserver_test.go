package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// runningFinalizer keeps a pod until its kubelet has ended it, as a grace period does.
const runningFinalizer = "model/running"

// apiServer is the fake client with what it lacks of an API server: UIDs, times of creation, generations that count
// changes of the spec, and the precondition of a deletion.
//
// It answers reads from a copy of its own: the fake client turns everything that it reads into JSON and back.
type apiServer struct {
	uids int
	now  objects
}

// newAPIServer makes an empty API server.
func newAPIServer(scheme *runtime.Scheme) (client.WithWatch, objects) {
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	store := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.StorageCluster{}).
		WithIndex(&v1alpha1.StorageCluster{}, metav1.ObjectNameField, byName).WithIndex(&corev1.Node{},
		metav1.ObjectNameField, byName).Build()
	s := &apiServer{now: objects{}}
	return interceptor.NewClient(store, interceptor.Funcs{
		Create: s.create, Update: s.update, Patch: s.patch, Apply: s.apply, Delete: s.remove,
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			opts ...client.SubResourceUpdateOption) error {
			return s.landed(ctx, c, o, c.SubResource(sub).Update(ctx, o, opts...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			return s.landed(ctx, c, o, c.SubResource(sub).Patch(ctx, o, p, opts...))
		},
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object,
			_ ...client.GetOption) error {
			return s.now.get(key, o)
		},
		List: func(_ context.Context, _ client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			return s.now.list(l, opts...)
		},
	}), s.now
}

// landed takes over what a write has made of an object.
func (s *apiServer) landed(ctx context.Context, c client.Reader, o client.Object, err error) error {
	if err != nil {
		return err
	}
	switch found, err := live(ctx, c, o); {
	case apierrors.IsNotFound(err):
		s.now.drop(o)
	case err != nil:
		return err
	default:
		s.now.set(found)
	}
	return nil
}

// born gives an object what the API server gives to a new one.
func (s *apiServer) born(o client.Object) {
	s.uids++
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	o.SetGeneration(1)
}

func (s *apiServer) create(ctx context.Context, c client.WithWatch, o client.Object,
	opts ...client.CreateOption) error {
	s.born(o)
	return s.landed(ctx, c, o, c.Create(ctx, o, opts...))
}

func (s *apiServer) update(ctx context.Context, c client.WithWatch, o client.Object,
	opts ...client.UpdateOption) error {
	before, err := live(ctx, c, o)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(specOf(before), specOf(o)) {
		o.SetGeneration(before.GetGeneration() + 1)
	}
	return s.landed(ctx, c, o, c.Update(ctx, o, opts...))
}

func (s *apiServer) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
	opts ...client.PatchOption) error {
	before, err := live(ctx, c, o)
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, o, p, opts...); err != nil {
		return err
	}
	if reflect.DeepEqual(specOf(before), specOf(o)) {
		return s.landed(ctx, c, o, nil)
	}
	o.SetGeneration(before.GetGeneration() + 1)
	return s.landed(ctx, c, o, c.Update(ctx, o))
}

func (s *apiServer) apply(ctx context.Context, c client.WithWatch, a runtime.ApplyConfiguration,
	opts ...client.ApplyOption) error {
	o, err := typed(c.Scheme(), a)
	if err != nil {
		return err
	}
	before, err := live(ctx, c, o)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	isNew := err != nil
	if err := c.Apply(ctx, a, opts...); err != nil {
		return err
	}
	if o, err = live(ctx, c, o); err != nil {
		return err
	}
	switch {
	case isNew:
		s.born(o)
	case reflect.DeepEqual(specOf(before), specOf(o)):
		return s.landed(ctx, c, o, nil)
	default:
		o.SetGeneration(before.GetGeneration() + 1)
	}
	return s.landed(ctx, c, o, c.Update(ctx, o))
}

// remove judges the precondition, which the fake client does not know.
func (s *apiServer) remove(ctx context.Context, c client.WithWatch, o client.Object,
	opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if p := options.Preconditions; p != nil && p.UID != nil {
		found, err := live(ctx, c, o)
		if err != nil {
			return err
		}
		if found.GetUID() != *p.UID {
			return apierrors.NewConflict(schema.GroupResource{}, o.GetName(),
				errors.New("the UID in the precondition does not match"))
		}
	}
	return s.landed(ctx, c, o, c.Delete(ctx, o))
}

// live reads the object that is stored under the name of another.
func live(ctx context.Context, c client.Reader, o client.Object) (client.Object, error) {
	out, ok := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", o)
	}
	return out, c.Get(ctx, client.ObjectKeyFromObject(o), out)
}

// typed is the object that an apply configuration is about, with its name alone.
func typed(scheme *runtime.Scheme, a runtime.ApplyConfiguration) (client.Object, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", a, err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, u); err != nil {
		return nil, fmt.Errorf("decode %T: %w", a, err)
	}
	made, err := scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	o, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", made)
	}
	o.SetNamespace(u.GetNamespace())
	o.SetName(u.GetName())
	return o, nil
}

func specOf(o client.Object) any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	return content["spec"]
}
