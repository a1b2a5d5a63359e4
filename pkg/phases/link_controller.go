package phases

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/fsm"
	"github.com/linstor-dev/storagecluster-operator/pkg/linstor"
	"github.com/linstor-dev/storagecluster-operator/pkg/resources"
	"github.com/linstor-dev/storagecluster-operator/pkg/work"
)

// propertiesKey is the task that sets the controller's properties.
const propertiesKey = "controller/properties"

// controllerLink starts the LINSTOR controller and sets its properties.
type controllerLink struct{}

func (controllerLink) State() fsm.State          { return fsm.Controller }
func (controllerLink) Missing() fsm.Event        { return fsm.ControllerMissing }
func (controllerLink) Condition() string         { return v1alpha1.ConditionControllerReady }
func (controllerLink) Hold() v1alpha1.HoldReason { return v1alpha1.HoldControllerFailed }

func (controllerLink) Evidence(s *Snapshot) Evidence {
	if h := s.passphraseHold(); h != nil {
		return Evidence{State: Failed, Reason: string(h.Reason), Message: h.Message, Hold: h}
	}
	if e := s.controllerTooNew(); e != nil {
		return *e
	}
	objects, err := s.controllerObjects()
	if err != nil {
		return Evidence{State: Missing, Reason: "CredentialsMissing", Message: err.Error()}
	}
	for _, o := range objects {
		if !o.ok {
			return Evidence{State: Missing, Reason: "ControllerObjectsMissing", Message: o.name + " is missing or was changed", Lost: true}
		}
	}
	if h := s.controllerTrouble(); h != nil {
		return Evidence{State: Failed, Reason: string(h.Reason), Message: h.Message, Hold: h}
	}
	switch v := s.Linstor.View; {
	case !s.Linstor.Asked:
		return Evidence{State: Missing, Reason: "ControllerStarting", Message: s.controllerPodMessage()}
	case v == nil:
		return Evidence{State: Unknown, Reason: "ControllerUnreachable", Message: oneLine(fmt.Sprintf("LINSTOR's API does not answer: %v", s.Linstor.Err))}
	case v.Version != s.controllerRelease().Version:
		return Evidence{State: Missing, Reason: "ControllerVersion", Message: fmt.Sprintf("the controller runs %s, wanted is %s", v.Version, s.controllerRelease().Version)}
	case s.oldConfiguration() != nil:
		return Evidence{State: Missing, Reason: reasonTidyingUp, Message: "the controller's configuration of before is being removed"}
	case !linstor.Diff(v.Properties, s.controllerProperties()).Empty():
		message := "LINSTOR's controller properties are being set"
		if err := s.TaskStates[propertiesKey].Err; err != nil {
			message += ": " + oneLine(err.Error())
		}
		return Evidence{State: Missing, Reason: reasonSettingProperties, Message: message}
	default:
		return Evidence{State: Satisfied, Reason: "ControllerRunning", Message: "LINSTOR " + v.Version + " answers"}
	}
}

func (controllerLink) Work(ctx context.Context, in *Input) error {
	if in.passphraseHold() != nil {
		return nil // a rollout with another passphrase would lock the controller out of encrypted volumes
	}
	if in.newerController() != "" {
		return nil
	}
	if err := in.recordPassphrase(ctx); err != nil {
		return err
	}
	objects, err := in.controllerObjects()
	if err != nil {
		return nil //nolint:nilerr // the evidence says that the credentials are missing; there is nothing to do until they come
	}
	for _, o := range objects {
		if !o.ok {
			if err := in.Writer.Apply(ctx, o.want); err != nil {
				return fmt.Errorf("apply %s: %w", o.name, err)
			}
		}
	}
	if v := in.Linstor.View; v != nil && v.Version == in.controllerRelease().Version {
		if old := in.oldConfiguration(); old != nil {
			if err := in.Writer.Delete(ctx, old); err != nil {
				return fmt.Errorf("remove the configuration of before: %w", err)
			}
		}
		if change := linstor.Diff(v.Properties, in.controllerProperties()); !change.Empty() {
			in.ensure(work.Task{Key: propertiesKey, Input: digest(change), Do: func(ctx context.Context) error {
				return in.API.SetProperties(ctx, change.Set, change.Delete)
			}})
		}
	}
	return nil
}

// What a controller that runs may lack without being in trouble.
const (
	reasonSettingProperties = "SettingProperties"
	reasonTidyingUp         = "TidyingUp"
)

// oldConfiguration is the controller's configuration in the form that it had before credentials of the database were given or
// taken away; nil if there is none. It must not stay: it may hold a password that nobody needs any more.
func (s *Snapshot) oldConfiguration() client.Object {
	var old client.Object
	if secret := s.Kube.Secrets[resources.ControllerConfigName]; secret != nil && credentialsSecret(&s.Target.Spec.Database) == "" {
		old = secret
	}
	if cm := s.Kube.ConfigMaps[resources.ControllerConfigName]; cm != nil && credentialsSecret(&s.Target.Spec.Database) != "" {
		old = cm
	}
	if old == nil || !ours(s.Cluster.Name, old) || old.GetDeletionTimestamp() != nil {
		return nil
	}
	return old
}

// managedObject is an object that a builder wants, and whether the live one is as wanted.
type managedObject struct {
	name string
	want client.Object
	ok   bool
}

// controllerObjects are the controller's objects in the order in which they must come to be: the pod mounts the
// configuration.
func (s *Snapshot) controllerObjects() ([]managedObject, error) {
	db, err := s.DatabaseAccess()
	if err != nil {
		return nil, err
	}
	p := s.Params()
	config := resources.ControllerConfig(p, db)
	hash := digest([]any{resources.ControllerConfig(p, resources.Database{URL: db.URL, User: db.User}), s.credentialsVersion()})
	deployment, service := resources.Controller(p, hash), resources.ControllerService(p)
	var configOK bool
	switch c := config.(type) {
	case *corev1.Secret:
		configOK = matches(s.Kube.Secrets[c.Name], c)
	case *corev1.ConfigMap:
		configOK = matches(s.Kube.ConfigMaps[c.Name], c)
	}
	return []managedObject{
		{"configuration " + config.GetName(), config, configOK},
		{"Service " + service.Name, service, matches(s.Kube.Services[service.Name], service)},
		{"Deployment " + deployment.Name, deployment, matches(s.Kube.Deployments[deployment.Name], deployment)},
	}, nil
}

// DatabaseAccess is the database's URL and credentials; an error names what is missing in the Secret.
func (s *Snapshot) DatabaseAccess() (resources.Database, error) {
	spec := &s.Target.Spec.Database
	db := resources.Database{URL: resources.DatabaseURL(spec)}
	name := credentialsSecret(spec)
	if name == "" {
		return db, nil
	}
	secret := s.Kube.Secrets[name]
	if secret == nil {
		return db, fmt.Errorf("there is no Secret %s/%s with keys username and password, which spec.database.%s.credentialsSecret names", v1alpha1.WorkloadNamespace, name, spec.Kind())
	}
	db.User, db.Password = string(secret.Data["username"]), string(secret.Data["password"])
	if db.User == "" {
		return db, fmt.Errorf("the Secret %s/%s has no key username, which spec.database.%s.credentialsSecret needs", v1alpha1.WorkloadNamespace, name, spec.Kind())
	}
	return db, nil
}

func credentialsSecret(spec *v1alpha1.DatabaseSpec) string {
	switch {
	case spec.Etcd != nil:
		return spec.Etcd.CredentialsSecret
	case spec.PostgreSQL != nil:
		return spec.PostgreSQL.CredentialsSecret
	case spec.MariaDB != nil:
		return spec.MariaDB.CredentialsSecret
	default:
		return ""
	}
}

// credentialsVersion restarts the controller when the credentials change. The annotation that does it is readable by
// whoever may read pods, so it must not be a hash of the password, which could be guessed from it.
func (s *Snapshot) credentialsVersion() string {
	if secret := s.Kube.Secrets[credentialsSecret(&s.Target.Spec.Database)]; secret != nil {
		return secret.ResourceVersion
	}
	return ""
}

// defaultProperties are set before the first node is registered, so that none is ever without them.
//
//   - AutoEvictAllowEviction: a fresh LINSTOR evicts nodes that are offline for long (CtrlNodeApi, "True" in a new
//     database), which would rebuild a whole node's data during a long maintenance. Nodes leave when a human says so.
//   - rr-conflict: after both sides of a connection were primary, DRBD tries again instead of staying disconnected.
//   - on-no-quorum, on-no-data-accessible: I/O waits for the data to come back. The alternative, I/O errors, turns a short
//     loss of the network into read-only file systems that a human must repair.
//   - on-suspended-primary-outdated: a primary that waited in vain gives way, so that the workload can start elsewhere.
//
// LINSTOR's own quorum and tie-breaker stay on.
func defaultProperties() map[string]string {
	return map[string]string{
		"DrbdOptions/AutoEvictAllowEviction":                 "false",
		"DrbdOptions/Net/rr-conflict":                        "retry-connect",
		"DrbdOptions/Resource/on-no-quorum":                  "suspend-io",
		"DrbdOptions/Resource/on-no-data-accessible":         "suspend-io",
		"DrbdOptions/Resource/on-suspended-primary-outdated": "force-secondary",
	}
}

func (s *Snapshot) controllerProperties() map[string]string {
	want := defaultProperties()
	for k, v := range s.Target.Spec.Controller.Properties {
		want[k] = v
	}
	return want
}

// controllerTrouble is the hold for a controller that cannot start; nil while it may.
func (s *Snapshot) controllerTrouble() *HoldRequest {
	for _, p := range s.Kube.ControllerPods {
		t := troubleOf(p)
		if t == nil || !t.lasting {
			continue
		}
		h := &HoldRequest{Reason: v1alpha1.HoldControllerFailed, Message: "the LINSTOR controller cannot start: " + t.String()}
		for _, f := range controllerFailures {
			if f.pattern.MatchString(t.message) {
				h.Reason = f.reason
				break
			}
		}
		return h
	}
	return nil
}

// controllerFailures tell apart what LINSTOR says when it exits at start (linstor-server 1.33–1.35: DatabaseDriverException,
// LinStorException "Automatic injection of passphrase failed").
var controllerFailures = []struct {
	pattern *regexp.Regexp
	reason  v1alpha1.HoldReason
}{
	{regexp.MustCompile(`(?i)passphrase`), v1alpha1.HoldPassphraseUnusable},
	{regexp.MustCompile(`(?i)connection.*refused|unknown ?host|password authentication|access denied|credentials|` +
		`database.*(unreachable|not available|connect)`), v1alpha1.HoldDatabaseUnreachable},
}

func (s *Snapshot) controllerPodMessage() string {
	for _, p := range s.Kube.ControllerPods {
		if t := troubleOf(p); t != nil {
			return t.String()
		}
		if p.Spec.NodeName == "" {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
					return oneLine("the controller's pod is not scheduled: " + c.Message)
				}
			}
		}
	}
	return "the LINSTOR controller's pod is not ready yet"
}

// digest is a short fingerprint of a value's JSON.
func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", v, err)) // only values of our own types come here
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// ControllerAnswers is whether LINSTOR should be asked at all: without a ready pod every call would only time out.
func ControllerAnswers(k *Kube) bool { return slices.ContainsFunc(k.ControllerPods, podReady) }

// quoteList names three examples at most.
func quoteList(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
