package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/linstor-dev/storagecluster-operator/hack/exact"
	"github.com/linstor-dev/storagecluster-operator/hack/manifests"
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

// make makes the template from the text of its source.
func (t template) make(source string) (string, error) {
	if strings.Contains(source, "{{") {
		return "", errors.New("it contains {{, which Helm would treat as a template action")
	}
	documents, err := manifests.Split(source)
	if err != nil {
		return "", err
	}
	var kept []string
	for _, d := range documents {
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
func installed(d manifests.Document) (string, error) {
	switch {
	case d.Kind == "Namespace" && d.Name == v1alpha1.OperatorNamespace:
		return "", nil // Helm makes the namespace of the release itself, and refuses one that is in the chart as well
	case !d.Stays():
		return d.Text, nil
	}
	const policy = "helm.sh/resource-policy: keep"
	if at := withAnnotations.FindStringIndex(d.Text); at != nil {
		return d.Text[:at[1]] + "    " + policy + "\n" + d.Text[at[1]:], nil
	}
	at := withLabels.FindStringIndex(d.Text)
	if at == nil {
		return "", fmt.Errorf("%s has neither annotations nor labels", d)
	}
	return d.Text[:at[0]] + "  annotations: {" + policy + "}\n" + d.Text[at[0]:], nil
}
