// Package manifests reads the manifests below deploy/ as texts, so that what is generated from them keeps their
// comments, and knows which of their objects belong to the operator alone.
package manifests

import (
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Document is one object of a manifest.
type Document struct {
	metav1.PartialObjectMetadata
	// Text is all between two separators: the object with the comments before it, and those before the next separator.
	Text string
}

// separator is a line between documents of a manifest.
var separator = regexp.MustCompile(`(?m)^---\n`)

// Split are the objects of a manifest. What holds nothing but comments is left out.
func Split(text string) ([]Document, error) {
	var out []Document
	for _, t := range separator.Split(text, -1) {
		d := Document{Text: t}
		if err := yaml.Unmarshal([]byte(t), &d.PartialObjectMetadata); err != nil {
			return nil, fmt.Errorf("read a document: %w:\n%s", err, t)
		}
		if d.Kind != "" {
			out = append(out, d)
		}
	}
	return out, nil
}

// Stays reports whether the object stays when the operator is uninstalled. Only what is the operator's own goes:
// LINSTOR runs on without it, with its volumes, so it must keep its rights, its ServiceAccounts, the policies that
// keep others from its API, and its namespace; and the definition, with which the StorageCluster would go.
func (d Document) Stays() bool {
	switch d.Name {
	case "storagecluster-deletion", "storagecluster-protection", "storagecluster-node-labels":
		return true
	}
	return d.Labels["app.kubernetes.io/name"] != "storagecluster-operator"
}

// String names the object by its kind and its name.
func (d Document) String() string { return d.Kind + " " + d.Name }
