// Package controller is the link that runs LINSTOR's controller, and says why it does not answer.
package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1/conditions"
	"github.com/linstor-dev/storagecluster-operator/pkg/catalogue"
	"github.com/linstor-dev/storagecluster-operator/pkg/cluster"
	"github.com/linstor-dev/storagecluster-operator/pkg/database/connection"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/advice"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/netcom"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/poddiagnosis"
	"github.com/linstor-dev/storagecluster-operator/pkg/phases/step"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/apitls"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/memory"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources/netcomtls"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// epochKey is the task that sets the claim's number, and listenerKey the one that keeps LINSTOR from opening a
// listener without a use.
const (
	epochKey    = "controller/epoch"
	listenerKey = "controller/debug-listener"
)

// Link starts the LINSTOR controller and sets its properties.
func Link() step.Link {
	return step.Link{State: fsm.Controller, Missing: fsm.ControllerMissing, Condition: conditions.ControllerReady,
		Hold: v1alpha1.HoldControllerFailed, ByTrying: true, Judge: judge, Work: act,
		ClearsOn: []v1alpha1.HoldReason{v1alpha1.HoldControllerFailed, v1alpha1.HoldDatabaseUnreachable}}
}

func judge(s *cluster.Snapshot) cluster.Evidence {
	if why := stopped(s); why != "" {
		return cluster.Missing.Because("ControllerStopped", why)
	}
	if h := PassphraseHold(&s.Facts); h != nil {
		return cluster.Asks(h.Message, *h)
	}
	if message := tooNew(s); message != "" {
		return cluster.Missing.Because("ControllerNewer", message)
	}
	list, err := objects(s)
	if err != nil {
		return lacks(err)
	}
	foreign := ""
	for _, o := range list {
		foreign += o.foreign
		if o.undone != "" {
			e := cluster.Missing.Because("ControllerObjectsMissing", o.undone)
			e.Lost = true
			return e
		}
	}
	if h := Trouble(&s.Facts); h != nil {
		return cluster.Asks(h.Message, *h)
	}
	switch v := s.Linstor.View; {
	case !s.Linstor.Asked:
		return cluster.Missing.Because("ControllerStarting", PodMessage(&s.Facts))
	case s.Linstor.Foreign != nil:
		return cluster.Unknown.Because(string(s.Linstor.Why), text.OneLine(s.Linstor.Err.Error()))
	case v == nil:
		return cluster.Unknown.Because("ControllerUnreachable",
			text.OneLine(fmt.Sprintf("LINSTOR's API does not respond: %v%s", s.Linstor.Err, silent(s))))
	case v.Version != s.ControllerRelease().Version:
		return cluster.Missing.Because("ControllerVersion",
			fmt.Sprintf("the controller is running LINSTOR %s instead of %s", v.Version, s.ControllerRelease().Version))
	case olderPod(&s.Facts) != nil:
		return cluster.Missing.Because(reasonReplacingController, replacingMessage(&s.Facts))
	case oldConfiguration(&s.Facts) != nil:
		return cluster.Missing.Because(reasonTidyingUp, "the controller's previous configuration is being removed")
	}
	change := PropertyChange(&s.Facts)
	if !change.Empty() {
		return settingProperties(s)
	}
	return cluster.Satisfied.Because("ControllerRunning", "LINSTOR "+s.Linstor.View.Version+" responds"+
		endingPods(&s.Facts)+foreign+step.UnkeptNote(propertyField, s.Linstor.View.Version, change.Unkept)+
		step.Note(advice.OfRelease(s.ControllerRelease()))+
		step.Note(memory.Controller.Problem(&s.Target.Spec.Controller.Resources)))
}

// lacks is the evidence for what the controller cannot be built without.
func lacks(err error) cluster.Evidence {
	if errors.Is(err, errListener) {
		return cluster.Missing.Because(reasonClosingListener, err.Error())
	}
	if errors.Is(err, errNoCertificate) {
		return cluster.Missing.Because("CertificatesMissing", err.Error()+"; see the CertificatesValid condition")
	}
	return cluster.Missing.Because("CredentialsMissing", err.Error())
}

// stopped says why no controller may run; "" if one may. Started on half of a backup it would write to that.
func stopped(s *cluster.Snapshot) string {
	if r := s.Restore; r != nil {
		return fmt.Sprintf("LINSTOR is stopped so that backup %s can be restored", r.ID)
	}
	if m := s.Move; m != nil && m.Stopped {
		return "LINSTOR is stopped so that its data can be moved to " + m.To
	}
	if _, claimed := s.Claim(); !claimed && len(s.Kube.Restores) > 0 {
		return "LINSTOR is stopped: its database may contain a partially imported backup, but the claim that records the " +
			"import is missing"
	}
	for _, p := range s.Kube.Restores {
		if !poddiagnosis.Ended(p) {
			return "LINSTOR is stopped: pod " + p.Name + ", which writes to one of its databases, has not finished"
		}
	}
	return ""
}

func act(ctx context.Context, in *step.Input) error {
	s := in.Snapshot
	// A rollout with another passphrase would lock the controller out of encrypted volumes.
	if stopped(s) != "" || PassphraseHold(&s.Facts) != nil || newerVersion(s) != "" {
		return nil
	}
	closeDebugListener(in)
	list, err := objects(s)
	if err != nil {
		return nil //nolint:nilerr // the evidence says that the credentials are missing
	}
	changed, err := applyMissing(ctx, in, list)
	if err != nil {
		return step.IgnoreOutdated(err)
	}
	if !changed { // else the pod that answers was started with what was wanted before
		if err := recordPassphrase(ctx, in); err != nil {
			return err
		}
	}
	if v := s.Linstor.View; v != nil && v.Version == s.ControllerRelease().Version {
		if old := oldConfiguration(&s.Facts); old != nil {
			if err := in.Writer.Delete(ctx, old); err != nil {
				return fmt.Errorf("remove the previous configuration: %w", err)
			}
		}
		setProperties(in)
		setEpoch(in)
	}
	return nil
}

// What a controller that runs may lack without being in trouble.
const (
	reasonSettingProperties   = "SettingProperties"
	reasonTidyingUp           = "TidyingUp"
	reasonReplacingController = "ReplacingController"
	reasonClosingListener     = "ClosingListener"
)

// RunsAllTheSame reports whether a controller that is not as wanted for that reason is in no trouble.
func RunsAllTheSame(reason string) bool {
	return slices.Contains([]string{reasonSettingProperties, reasonTidyingUp, reasonReplacingController,
		reasonClosingListener, step.ReasonPropertyRefused}, reason)
}

// oldConfiguration is the controller's configuration in the form that it had before credentials of the database were
// given or taken away; nil if there is none. It must not stay: it may hold a password that nobody needs any more.
func oldConfiguration(s *cluster.Facts) client.Object {
	var old client.Object
	secret, cm := s.Kube.Secrets[resources.ControllerConfigName], s.Kube.ConfigMaps[resources.ControllerConfigName]
	switch withCredentials := connection.CredentialsSecret(&s.Target.Spec.Database) != ""; {
	case secret != nil && !withCredentials:
		old = secret
	case cm != nil && withCredentials:
		old = cm
	default:
		return nil
	}
	if !cluster.Ours(s.Cluster.Name, old) || old.GetDeletionTimestamp() != nil {
		return nil
	}
	return old
}

// managedObject is one of the objects that LINSTOR's controller consists of.
type managedObject struct {
	name string
	want client.Object
	// undone says that it is not as wanted; "" if it is.
	undone string
	// foreign says what a policy has made of it, as the end of a message.
	foreign string
}

func managed[T client.Object](kind string, live, want T) managedObject {
	name := kind + " " + want.GetName()
	return managedObject{name, want, step.Undone(name, live, want), step.ForeignNote(kind, live, want)}
}

// Want are the objects that LINSTOR's controller shall consist of.
func Want(s *cluster.Snapshot) (want []client.Object, err error) {
	list, err := objects(s)
	for _, o := range list {
		want = append(want, o.want)
	}
	return want, err
}

// objects are the controller's objects in the order in which they must come to be: the pod mounts the
// configuration.
func objects(s *cluster.Snapshot) ([]managedObject, error) {
	db, err := DatabaseAccess(&s.Facts, &s.Target.Spec.Database)
	if err != nil {
		return nil, err
	}
	if missing := s.Certificates.Missing(&s.Target.Spec.TLS, apitls.Controller, apitls.Operator); missing != "" {
		return nil, fmt.Errorf("%w: %s", errNoCertificate, missing)
	}
	if missing := netcom.Missing(&s.Facts, netcomtls.Controller); missing != "" {
		return nil, fmt.Errorf("%w: %s", errNoCertificate, missing)
	}
	if listenerFirst(s) {
		return nil, errListener
	}
	p := s.Params()
	config := resources.ControllerConfig(p, db)
	version := credentialsVersion(&s.Facts, config)
	hash := text.Digest([]any{resources.ControllerConfig(p, connection.Settings{URL: db.URL, User: db.User}), version})
	if version != "" {
		config.SetAnnotations(map[string]string{resources.AnnotationCredentialsVersion: version})
	}
	deployment, service := resources.Controller(p, hash), resources.ControllerService(p, runsLocked(&s.Facts))
	if keepsPod(&s.Facts, deployment) {
		resources.KeepController(deployment)
	}
	configured := managedObject{name: "configuration " + config.GetName(), want: config}
	switch c := config.(type) {
	case *corev1.Secret:
		configured.undone = step.Undone(configured.name, s.Kube.Secrets[c.Name], c)
	case *corev1.ConfigMap:
		configured.undone = step.Undone(configured.name, s.Kube.ConfigMaps[c.Name], c)
	default:
		return nil, fmt.Errorf("%s has an unexpected type: %T", configured.name, c)
	}
	return []managedObject{configured,
		managed("Service", s.Kube.Services[service.Name], service),
		managed("Deployment", s.Kube.Deployments[deployment.Name], deployment)}, nil
}

// Answers reports whether LINSTOR should be asked at all: without a ready pod every call would only time out.
func Answers(k *cluster.Kube) bool {
	return slices.ContainsFunc(k.ControllerPods, cluster.PodReady)
}

// newerVersion is the version that the database may have been moved to already, if it is newer than the one that
// shall run; "" otherwise. The controller is never made older: a newer one migrates the database at its start, and an
// older one must not touch it after that. Nothing of the operator's own does so, but a claim that was read before
// the upgrade began, from a cache that lags behind, would: the controller's Deployment shows the upgrade then. And
// where such a claim let a spec of before be accepted, the claim itself shows it later.
func newerVersion(s *cluster.Snapshot) string {
	claim, claimed := s.Claim()
	if claimed && cluster.NeverStarted(claim) {
		return "" // on a database that LINSTOR has not used yet another version may be tried
	}
	if TakenTooFar(s, claim) {
		return claim.UpgradeTo
	}
	d := s.Kube.Deployments[resources.ControllerName]
	if d == nil {
		return ""
	}
	image := cluster.ImageOf(&d.Spec.Template.Spec, resources.ControllerContainer)
	for _, v := range s.Catalogue.Versions() {
		release, _ := s.Catalogue.Release(v)
		if cluster.SameImage(image, release.Controller) && catalogue.Newer(v, s.ControllerRelease().Version) {
			return v
		}
	}
	return ""
}

// TakenTooFar reports whether the database is being moved to a newer version than the accepted spec's.
func TakenTooFar(s *cluster.Snapshot, claim resources.ClaimData) bool {
	return claim.UpgradeTo != "" && catalogue.Newer(claim.UpgradeTo, s.ControllerRelease().Version)
}

// tooNew says that the database is one of a newer LINSTOR; "" if it is not.
func tooNew(s *cluster.Snapshot) string {
	v := newerVersion(s)
	if v == "" {
		return ""
	}
	if claim, _ := s.Claim(); TakenTooFar(s, claim) {
		return fmt.Sprintf("the database has already been migrated to LINSTOR %s, which cannot be undone: set spec.version "+
			"to %s", v, v)
	}
	return fmt.Sprintf("the Deployment is running LINSTOR %s, but the recorded database version is %s: the operator "+
		"never replaces the controller with an older version", v, s.ControllerRelease().Version)
}
