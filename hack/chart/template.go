package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/linstor-dev/storagecluster-operator/hack/exact"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
)

// template is a template of the chart that is made from a manifest.
type template struct {
	name, source string
	// condition is of a template action that has the objects, in whole; "" for none.
	condition string
	// edits make values of what people set. A manifest that was changed at such a place must not lose one in silence.
	edits []exact.Edit
}

// head is what templates begin with. It is a comment of the template, so that it is not in what is rendered.
const head = "{{- /* Generated from %s by `make generate`; do not edit. */ -}}\n"

// separator is a line between documents of a manifest.
var separator = regexp.MustCompile(`(?m)^---\n`)

// make makes the template from the text of its source.
func (t template) make(source string) (string, error) {
	if strings.Contains(source, "{{") {
		return "", errors.New("it contains {{, which the template would take for an action")
	}
	var kept []string
	for _, d := range separator.Split(source, -1) {
		document, err := installed(d)
		if err != nil {
			return "", err
		}
		if document != "" {
			kept = append(kept, document)
		}
	}
	out, err := exact.Apply(strings.Join(kept, "---\n"), t.edits...)
	if err != nil {
		return "", err
	}
	if t.condition != "" {
		out = "{{- if " + t.condition + " }}\n" + out + "{{- end }}\n"
	}
	return fmt.Sprintf(head, t.source) + out, nil
}

// An annotation goes behind the one, or before the other. Both are of the object's own metadata.
var (
	withAnnotations = regexp.MustCompile(`(?m)^  annotations:\n`)
	withLabels      = regexp.MustCompile(`(?m)^  labels:`)
)

// installed is a document as the chart installs it: "" for one that it leaves out.
func installed(document string) (string, error) {
	var o metav1.PartialObjectMetadata
	if err := yaml.Unmarshal([]byte(document), &o); err != nil {
		return "", fmt.Errorf("read a document: %w:\n%s", err, document)
	}
	switch {
	case o.Kind == "":
		return "", nil // nothing but comments
	case o.Kind == "Namespace" && o.Name == v1alpha1.OperatorNamespace:
		return "", nil // Helm makes the namespace of the release itself, and refuses one that is in the chart as well
	case !stays(&o):
		return document, nil
	}
	const policy = "helm.sh/resource-policy: keep"
	if at := withAnnotations.FindStringIndex(document); at != nil {
		return document[:at[1]] + "    " + policy + "\n" + document[at[1]:], nil
	}
	at := withLabels.FindStringIndex(document)
	if at == nil {
		return "", fmt.Errorf("%s %s has neither annotations nor labels", o.Kind, o.Name)
	}
	return document[:at[0]] + "  annotations: {" + policy + "}\n" + document[at[0]:], nil
}

// stays reports whether an object stays when the chart is uninstalled. Only what is the operator's own goes: LINSTOR
// runs on without it, with its volumes, so it must keep its rights, its ServiceAccounts, the policies that keep others
// from its API, and its namespace; and the definition, with which the StorageCluster would go.
func stays(o *metav1.PartialObjectMetadata) bool {
	switch o.Name {
	case "storagecluster-deletion", "storagecluster-protection", "storagecluster-node-labels":
		return true
	}
	return o.Labels["app.kubernetes.io/name"] != "storagecluster-operator"
}
