package kube

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

func TestDiscovery(t *testing.T) {
	api := http.NewServeMux()
	api.HandleFunc("/apis/some/v1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"some/v1","resources":[
			{"name":"bs","kind":"B"},{"name":"bs/status","kind":"B"},{"name":"as","kind":"A"}]}`))
	})
	api.HandleFunc("/apis/ill/v1", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "it is ill", http.StatusServiceUnavailable)
	})
	server := httptest.NewServer(api)
	defer server.Close()
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]struct {
		kinds []string
		fails bool
	}{
		"some":   {kinds: []string{"A", "B"}},
		"absent": {},
		"ill":    {fails: true},
	} {
		kinds, err := Discovery{client}.Kinds(t.Context(), schema.GroupVersion{Group: group, Version: "v1"})
		if !slices.Equal(kinds, want.kinds) || (err != nil) != want.fails {
			t.Errorf("%s: %v, %v", group, kinds, err)
		}
	}
}
