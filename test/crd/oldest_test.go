package crd

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// An API server accepts in a new schema only what the release before it can run too, so that it can be rolled back:
// 1.30, the oldest that the operator supports, accepts the CEL of 1.29.
var oldestCEL = version.MajorMinor(1, 29)

// Limits of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
const (
	ruleCostLimit   = 10_000_000
	schemaCostLimit = 100_000_000
)

// TestOldestKubernetes compiles every rule, and what makes its message, with the CEL library of the oldest supported
// Kubernetes, which lacks newer functions (IP addresses, formats), and adds up the estimated costs with room to spare.
func TestOldestKubernetes(t *testing.T) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(loadCRD(t).schema(), &internal,
		nil); err != nil {
		t.Fatal(err)
	}
	root, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	env := environment.MustBaseEnvSet(oldestCEL)
	rules, total := 0, uint64(0)
	var compile func(path string, s *structuralschema.Structural, isRoot bool, cardinality uint64)
	compile = func(path string, s *structuralschema.Structural, isRoot bool, cardinality uint64) {
		results, err := cel.Compile(s, model.SchemaDeclType(s, isRoot), celconfig.PerCallLimit, env,
			cel.NewExpressionsEnvLoader())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for i, r := range results {
			rules++
			rule := s.XValidations[i].Rule
			if r.Error != nil {
				t.Errorf("%s: %s: %v", path, rule, r.Error)
			}
			if r.MessageExpressionError != nil {
				t.Errorf("%s: the message of %s: %v", path, rule, r.MessageExpressionError)
			}
			for _, cost := range []uint64{r.MaxCost * cardinality, r.MessageExpressionMaxCost * cardinality} {
				total += cost
				if limit := uint64(ruleCostLimit * 3 / 4); cost > limit {
					t.Errorf("%s: estimated cost %d, three quarters of the limit are %d: %s", path, cost, limit, rule)
				}
			}
		}
		for name := range s.Properties {
			child := s.Properties[name]
			compile(path+"."+name, &child, isRoot && name == "metadata", cardinality)
		}
		if s.Items != nil {
			compile(path+"[]", s.Items, false, cardinality*bound(s.ValueValidation))
		}
	}
	compile("", root, true, 1)
	t.Logf("%d rules, estimated cost %d", rules, total)
	if rules < 50 {
		t.Errorf("only %d rules compiled", rules)
	}
	if total > schemaCostLimit/2 {
		t.Errorf("estimated cost %d, half of the limit is %d", total, schemaCostLimit/2)
	}
}

// bound is how many items a list can have; lists without maxItems have no rules in them.
func bound(v *structuralschema.ValueValidation) uint64 {
	if v == nil || v.MaxItems == nil {
		return 1
	}
	return uint64(*v.MaxItems)
}
