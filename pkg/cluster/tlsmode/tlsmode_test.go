package tlsmode_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/tlsspec"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster/tlsmode"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/revision"
)

func TestOf(t *testing.T) {
	const managed, disabled = tlsspec.Managed, tlsspec.Disabled
	own := &tlsspec.AuthoritiesSpec{APISecret: "mine"}
	open, locked := &appsv1.Deployment{}, &appsv1.Deployment{}
	for _, d := range []*appsv1.Deployment{open, locked} {
		d.Labels = map[string]string{v1alpha1.LabelCluster: v1alpha1.ClusterName}
	}
	locked.Spec.Template.Annotations = map[string]string{apitls.Kind.Annotation: "leaf.trust"}
	claim := func(mode tlsspec.Mode) resources.ClaimData { return resources.ClaimData{Backend: "k8s", TLS: mode} }
	// keep keeps accepted specs, the oldest first.
	keep := func(modes ...tlsspec.Mode) map[string]*appsv1.ControllerRevision {
		out := map[string]*appsv1.ControllerRevision{}
		for i, mode := range modes {
			r := revision.Of(v1alpha1.ClusterName, int64(i), &v1alpha1.StorageClusterSpec{TLS: tlsspec.TLSSpec{Mode: mode}})
			out[r.Name] = r
		}
		return out
	}
	unreadable := keep(disabled)
	for _, r := range unreadable {
		r.Data.Raw = []byte(`{"version": 1}`)
	}
	released := claim(disabled)
	released.ReleasedBy = "earlier"
	for name, tc := range map[string]struct {
		spec       tlsspec.TLSSpec
		accepted   tlsspec.Mode
		claim      resources.ClaimData
		kept       map[string]*appsv1.ControllerRevision
		controller *appsv1.Deployment
		want       tlsspec.Mode
	}{
		"a new cluster":                             {want: managed},
		"a new cluster that is to be open":          {spec: tlsspec.TLSSpec{Mode: disabled}, want: disabled},
		"authorities":                               {spec: tlsspec.TLSSpec{Authorities: own}, want: managed},
		"accepted, and not claimed yet":             {accepted: managed, want: managed},
		"accepted by an operator of before":         {accepted: disabled, want: disabled},
		"Managed was taken out":                     {accepted: managed, claim: claim(managed), want: managed},
		"Managed was taken out of an older cluster": {accepted: managed, claim: claim(""), want: managed},
		"Disabled was taken out":                    {accepted: disabled, claim: claim(disabled), want: disabled},
		"the claim is behind, as one of a backup":   {accepted: managed, claim: claim(disabled), want: managed},
		"the claim is lost":                         {accepted: disabled, controller: open, want: disabled},
		"an open cluster is named Managed": {spec: tlsspec.TLSSpec{Mode: managed}, accepted: disabled,
			claim: claim(disabled), controller: open, want: managed},
		"an open cluster gets authorities": {spec: tlsspec.TLSSpec{Authorities: own}, accepted: disabled,
			claim: claim(disabled), want: managed},
		"a locked cluster is named Disabled": {spec: tlsspec.TLSSpec{Mode: disabled}, accepted: managed,
			claim: claim(managed), controller: locked, want: disabled},
		"made anew on a claim that was kept":        {claim: claim(managed), want: managed},
		"made anew on an open claim that was kept":  {claim: claim(disabled), want: disabled},
		"made anew on a claim of an older operator": {claim: claim(""), want: disabled},
		"made anew on a claim of a newer operator":  {claim: claim("External"), want: managed},
		"made anew, and the claim is behind": {claim: claim(disabled), kept: keep(disabled, managed),
			want: managed},
		"made anew on an older operator's locked one": {claim: claim(""), kept: keep(managed), want: managed},
		"made anew on an older operator's that was locked once": {claim: claim(""), kept: keep(managed, disabled),
			want: disabled},
		"made anew on an older operator's kept spec":    {claim: claim(""), kept: keep(""), want: disabled},
		"a kept spec that cannot be read":               {claim: claim(managed), kept: unreadable, want: managed},
		"a controller of somebody else":                 {controller: &appsv1.Deployment{}, want: managed},
		"made anew after the policy Delete":             {claim: released, kept: keep(disabled), want: managed},
		"made anew after it, on a cache that lags":      {claim: released, controller: open, want: managed},
		"the status is lost, of an older cluster":       {claim: claim(""), controller: open, want: disabled},
		"the status is lost, of an older, locked one":   {claim: claim(""), controller: locked, want: managed},
		"the status and the claim are lost":             {controller: open, want: disabled},
		"the status and the claim are lost of a locked": {controller: locked, want: managed},
		"what is remembered counts before what runs":    {claim: claim(managed), controller: open, want: managed},
	} {
		c := &v1alpha1.StorageCluster{}
		c.Name, c.Spec.TLS = v1alpha1.ClusterName, tc.spec
		got := tlsmode.Of(c, tc.accepted, tlsmode.Remains{Claim: &tc.claim, Revisions: tc.kept, Controller: tc.controller})
		if got != tc.want {
			t.Errorf("%s: %s, not %s", name, got, tc.want)
		}
	}
}

// read finds who reads the section of a spec.
var read = regexp.MustCompile(`[sS]pec(\(\))?\.TLS\b`)

// TestNobodyElseReadsTheMode: all others go by the accepted spec, in which it is always there. Who reads what the
// object says takes a locked cluster for an open one where it says nothing.
func TestNobodyElseReadsTheMode(t *testing.T) {
	good := []string{"Target.Spec.TLS", "WorkingSpec().TLS", "tlsmode.",
		"spec.TLS.Mode = cmp.Or(spec.TLS.Mode, tlsspec.Disabled)"}
	root := os.DirFS("../../..")
	found := 0
	for _, dir := range []string{"pkg", "cmd"} {
		if err := fs.WalkDir(root, dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				strings.HasPrefix(name, "pkg/cluster/tlsmode/") {
				return err
			}
			text, err := fs.ReadFile(root, name)
			for line := range strings.Lines(string(text)) {
				if !read.MatchString(line) || strings.HasPrefix(strings.TrimSpace(line), "//") {
					continue
				}
				found++
				if !hasOne(line, good) {
					t.Errorf("%s: %s", name, strings.TrimSpace(line))
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if found < 5 {
		t.Errorf("only %d lines were found", found)
	}
}

func hasOne(line string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(line, p) {
			return true
		}
	}
	return false
}
