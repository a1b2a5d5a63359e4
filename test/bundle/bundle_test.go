package bundle

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
)

const directory = "../../deploy/olm/bundle"

// validators are all that the library has, but for those that it calls deprecated, and the one that pulls images.
var validators = validator.Validators{
	validation.ClusterServiceVersionValidator,
	validation.CustomResourceDefinitionValidator,
	validation.BundleValidator,
	validation.OperatorHubV2Validator,
	validation.StandardCategoriesValidator,
	validation.StandardCapabilitiesValidator,
	validation.ObjectValidator,
	validation.OperatorGroupValidator,
	validation.AlphaDeprecatedAPIsValidator,
	validation.GoodPracticesValidator,
}

// released is a copy of the bundle as a release has it: with a version. In the repository it has none.
func released(t *testing.T) string {
	t.Helper()
	// The go command does not see files outside this module. What it sees is the variable, which "make test-bundle" sets
	// to their hash: without it a cached result could hide that the bundle has changed.
	_ = os.Getenv("BUNDLE_SUM")
	to := t.TempDir()
	err := fs.WalkDir(os.DirFS(directory), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(directory, name))
		return errors.Join(err, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o750),
			os.WriteFile(filepath.Join(to, name), []byte(strings.ReplaceAll(string(text), "0.0.0", "0.2.0")), 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// TestValid: the library that catalogues check bundles with finds no error, and warns of the icon alone, of which
// there is none.
func TestValid(t *testing.T) {
	b, err := manifests.GetBundleFromDir(released(t))
	if err != nil {
		t.Fatal(err)
	}
	if b.CSV == nil || b.Package != "storagecluster-operator" || b.DefaultChannel != "candidate" || len(b.V1CRDs) != 1 ||
		len(b.Objects) < 9 {
		t.Fatalf("package %q, channel %q, %d definitions, %d objects", b.Package, b.DefaultChannel, len(b.V1CRDs),
			len(b.Objects))
	}
	var warnings []string
	for _, v := range validators {
		for _, r := range v.Validate(b.ObjectsToValidate()...) {
			for _, e := range r.Errors {
				t.Errorf("%s: %s", r.Name, e.Error())
			}
			for _, e := range r.Warnings {
				warnings = append(warnings, e.Detail)
			}
		}
	}
	if want := []string{"(storagecluster-operator.v0.2.0) csv.Spec.Icon not specified"}; !slices.Equal(warnings, want) {
		t.Errorf("it warns %q, want %q", warnings, want)
	}
}

// TestInvalid: the validators see what is wrong.
func TestInvalid(t *testing.T) {
	for want, spoil := range map[string]func(*manifests.Bundle){
		"not found in bundle": func(b *manifests.Bundle) { b.V1CRDs = nil },
		"install mode":        func(b *manifests.Bundle) { b.CSV.Spec.InstallModes = nil },
		"valid capabilities":  func(b *manifests.Bundle) { b.CSV.Annotations["capabilities"] = "Everything" },
		"invalid value":       func(b *manifests.Bundle) { b.CSV.Spec.MinKubeVersion = "new" },
	} {
		b, err := manifests.GetBundleFromDir(released(t))
		if err != nil {
			t.Fatal(err)
		}
		spoil(b)
		var found []string
		for _, v := range validators {
			for _, r := range v.Validate(b.ObjectsToValidate()...) {
				for _, e := range r.Errors {
					found = append(found, e.Error())
				}
			}
		}
		if !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("no error says %q: %q", want, found)
		}
	}
}
