package database

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/controlplane"
	"github.com/linstor-dev/storagecluster-operator/test/simcluster/kubebin"
)

const (
	definitionName           = "nodes.internal.linstor.linbit.com"
	propertiesDefinitionName = "propscontainers.internal.linstor.linbit.com"
)

func TestKubernetes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // the binaries are built once
	defer cancel()
	bin, err := kubebin.Ensure(ctx, kubebin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: t.TempDir(), BinDir: bin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin := clientFor(t, plane, "admin", "system:masters")
	grantRead(t, admin, "reader")
	reader := patient(clientFor(t, plane, "reader"))
	reader.pageSize = 5

	look(t, reader, nil) // no definitions

	// A LINSTOR of long ago, and then a newer one that serves its version too.
	define(t, admin, "v1-19-1")
	lookUntil(t, reader, nil)
	for i, name := range foreignNodes() {
		createNode(t, admin, "v1-19-1", i, map[string]any{"node_dsp_name": name})
	}
	look(t, reader, firstForeignNodes)
	define(t, admin, "v1-99-0", "v1-19-1")
	look(t, reader, firstForeignNodes)
	t.Run("whose they are", func(t *testing.T) { lookForOwner(t, admin, reader) })
	createNode(t, admin, "v1-19-1", 98, map[string]any{"node_name": "CAPITALS"})
	createNode(t, admin, "v1-19-1", 99, nil)
	all := append([]string{nodeObject(99), "CAPITALS"}, firstForeignNodes[:8]...)
	look(t, reader, all)
	t.Run("one who discovers both versions", func(t *testing.T) {
		look(t, patient(clientFor(t, plane, "reader")), all)
	})
	t.Run("no right to list", func(t *testing.T) {
		_, err := patient(clientFor(t, plane, "nobody")).Look(t.Context(), &v1alpha1.DatabaseSpec{}, connection.Settings{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("error %v, want forbidden", err)
		}
	})

	// The reader knows the definition from before.
	if err := admin.Delete(ctx,
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definitionName}}); err != nil {
		t.Fatal(err)
	}
	lookUntil(t, reader, nil)
}

func TestKubernetesUnreachable(t *testing.T) {
	port := freePort(t)
	c, err := client.New(&rest.Config{Host: fmt.Sprintf("http://127.0.0.1:%d", port)}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = patient(c).Look(t.Context(), &v1alpha1.DatabaseSpec{}, connection.Settings{URL: "k8s"})
	if !errors.Is(err, errUnreachable) {
		t.Fatalf("error %v, want %v", err, errUnreachable)
	}
	checkText(t, err, []string{decimal(port)})
}

func TestKubernetesNeedsMapper(t *testing.T) {
	_, err := New(struct{ client.Reader }{}).Look(t.Context(), &v1alpha1.DatabaseSpec{}, connection.Settings{URL: "k8s"})
	if err == nil {
		t.Fatal("a reader that cannot discover versions found something out")
	}
	checkText(t, err, []string{"RESTMapper"})
}

func look(t *testing.T, p *Prober, want []string) {
	t.Helper()
	got, err := p.Look(t.Context(), &v1alpha1.DatabaseSpec{}, connection.Settings{URL: "k8s"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Nodes); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// lookForOwner defines LINSTOR's properties, which the reader may read in part, and looks for those that say whose
// data it is.
func lookForOwner(t *testing.T, admin client.Client, reader *Prober) {
	defineKind(t, admin, propertiesDefinitionName, propertiesKind.Kind, "v1-19-1")
	names := map[string]bool{}
	eachProperty(foreignID, func(instance, key, value string) {
		row := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"props_instance": instance, "prop_key": key, "prop_value": value}}}
		row.SetGroupVersionKind(propertiesKind.WithVersion("v1-19-1"))
		row.SetName(propertyObject(instance, key))
		names[row.GetName()] = true
		create(t, admin, row)
	})
	// The name that LINSTOR gives this row (GenCrdCurrent.deriveKey).
	if name := "61f66494ccb203ed69793961f89ecd070910dd56ee9bbd44d1fb827c723108a4"; !names[name] {
		t.Errorf("%s is none of %v", name, names)
	}
	waitUntil(t, nil, func(ctx context.Context) error {
		got, err := reader.Look(ctx, &v1alpha1.DatabaseSpec{}, connection.Settings{URL: "k8s"})
		if err == nil && !cmp.Equal(foreign(), got) {
			err = errors.New(cmp.Diff(foreign(), got))
		}
		return err
	})
}

// lookUntil waits for the API server, which changes what it serves a moment after the definition.
func lookUntil(t *testing.T, p *Prober, want []string) {
	t.Helper()
	waitUntil(t, nil, func(ctx context.Context) error {
		got, err := p.Look(ctx, &v1alpha1.DatabaseSpec{}, connection.Settings{URL: "k8s"})
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got.Nodes); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func clientFor(t *testing.T, plane *controlplane.ControlPlane, user string, groups ...string) client.Client {
	t.Helper()
	config, err := plane.Config(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// grantRead gives the user what deploy/operator.yaml gives the operator, and no more.
func grantRead(t *testing.T, admin client.Client, user string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "linstor-nodes"}
	create(t, admin, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{nodesKind.Group}, Resources: []string{"nodes"}, Verbs: []string{"list"}},
		{APIGroups: []string{nodesKind.Group}, Resources: []string{"propscontainers"}, Verbs: []string{"get"},
			ResourceNames: readable()},
	}})
	create(t, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// readable are the names of the objects that are read.
func readable() (names []string) {
	for _, instance := range instances {
		for _, property := range properties {
			names = append(names, propertyObject(instance, property))
		}
	}
	return names
}

// define installs LINSTOR's definition of its nodes with these versions; the first is stored.
func define(t *testing.T, admin client.Client, versions ...string) {
	t.Helper()
	defineKind(t, admin, definitionName, nodesKind.Kind, versions...)
}

func defineKind(t *testing.T, admin client.Client, name, kind string, versions ...string) {
	t.Helper()
	text, number := apiextensionsv1.JSONSchemaProps{Type: "string"}, apiextensionsv1.JSONSchemaProps{Type: "integer"}
	plural, _, _ := strings.Cut(name, ".")
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: nodesKind.Group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: plural, Kind: kind},
		},
	}
	for i, version := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"uuid": text, "node_name": text, "node_dsp_name": text, "node_flags": number, "node_type": number,
						"props_instance": text, "prop_key": text, "prop_value": text,
					},
				}},
			}},
		})
	}
	live := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: crd.ObjectMeta}
	err := admin.Get(t.Context(), client.ObjectKeyFromObject(crd), live)
	switch {
	case apierrors.IsNotFound(err):
		create(t, admin, crd)
	case err != nil:
		t.Fatal(err)
	default:
		live.Spec.Versions = crd.Spec.Versions
		if err := admin.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range versions {
		waitUntil(t, nil, func(ctx context.Context) error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: nodesKind.Group, Version: version, Kind: kind + "List"})
			return admin.List(ctx, list)
		})
	}
}

func createNode(t *testing.T, admin client.Client, version string, number int, spec map[string]any) {
	t.Helper()
	node := &unstructured.Unstructured{Object: map[string]any{}}
	node.SetGroupVersionKind(nodesKind.WithVersion(version))
	node.SetName(nodeObject(number))
	if spec != nil {
		node.Object["spec"] = spec
	}
	create(t, admin, node)
}

// nodeObject is an object's name: a hash in LINSTOR's database.
func nodeObject(number int) string { return fmt.Sprintf("%064x", number) }

func create(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}
