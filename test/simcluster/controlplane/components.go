package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// controllers that the simulated cluster needs. Left out is what has no counterpart here: cloud, node IPAM, quota,
// autoscaling, device claims, volumes that belong to a pod.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"cronjob-controller",
	"daemonset-controller",
	"deployment-controller",
	"disruption-controller",
	"endpoints-controller",
	"endpointslice-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"node-lifecycle-controller",
	"persistentvolume-attach-detach-controller",
	"persistentvolume-binder-controller",
	"persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller",
	"pod-garbage-collector-controller",
	"replicaset-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"statefulset-controller",
	"taint-eviction-controller",
	"validatingadmissionpolicy-status-controller",
}

func (c *ControlPlane) controllerManagerFlags(kubeconfig string) []string {
	run := controllers
	if c.opts.LimitCriticalPods {
		run = append(slices.Clone(run), "resourcequota-controller")
	}
	flags := []string{
		"--kubeconfig=" + kubeconfig,
		"--root-ca-file=" + c.pki.caFile,
		"--service-account-private-key-file=" + c.pki.serviceAccountKey,
		"--secure-port=0", "--leader-elect=false",
	}
	if c.opts.NodeNetwork != "" {
		return append(flags, "--use-service-account-credentials", "--allocate-node-cidrs=false")
	}
	return append(flags,
		"--controllers="+strings.Join(run, ","),
		"--kube-api-qps=2000", "--kube-api-burst=4000",
		// Whoever deletes a claim or a pod waits for these; their defaults are 15 s and a minute.
		"--pvclaimbinder-sync-period=2s", "--attach-detach-reconcile-sync-period=5s",
		"--concurrent-daemonset-syncs=4", "--concurrent-namespace-syncs=4",
		"--node-eviction-rate=10", "--node-monitor-period=1s", "--node-monitor-grace-period="+NodeGracePeriod.String(),
		// The first nodes may be registered before kwok has written their first Lease.
		"--node-startup-grace-period="+NodeGracePeriod.String(),
	)
}

// auditPolicy keeps one line for every finished request but the API server's own and the probes, which would drown
// the rest.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
- level: None
  users: ["system:apiserver"]
- level: None
  users: ["system:kwok"]
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
`

// limitCriticalPods is what Kubernetes documents for keeping priority classes to namespaces with a quota.
const limitCriticalPods = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - {scopeName: PriorityClass, operator: In, values: [system-cluster-critical, system-node-critical]}
`

// kwokStages is what kwok does to nodes beside renewing their Leases: almost nothing, since the node driver writes
// their status. kwok wants at least one stage for a kind that it shall watch; without any for pods it leaves pods
// alone.
const kwokStages = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: node-heartbeat
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - key: '.status.conditions.[] | select( .type == "Ready" ) | .status'
      operator: In
      values: ["True"]
  delay:
    durationMilliseconds: 600000
    jitterDurationMilliseconds: 900000
  next:
    statusTemplate: |
      conditions:
      - type: Ready
        status: "True"
        reason: KubeletReady
        message: simulated kubelet is posting ready status
        lastHeartbeatTime: {{ Now | Quote }}
`

func (c *ControlPlane) auditPolicyPath() string {
	return filepath.Join(c.opts.Dir, "audit-policy.yaml")
}

func (c *ControlPlane) admissionPath() string { return filepath.Join(c.opts.Dir, "admission.yaml") }

func (c *ControlPlane) kwokConfigPath() string { return filepath.Join(c.opts.Dir, "kwok.yaml") }

func (c *ControlPlane) writePolicies() error {
	for path, content := range map[string]string{
		c.auditPolicyPath(): auditPolicy, c.kwokConfigPath(): kwokStages, c.admissionPath(): limitCriticalPods,
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the configuration of the control plane: %w", err)
		}
	}
	return nil
}
