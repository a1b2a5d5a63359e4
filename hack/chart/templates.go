package main

import "github.com/linstor-dev/storagecluster-operator/hack/exact"

// templates are those that are made from manifests.
func templates() []template {
	return []template{
		{name: "crds.yaml", source: "deploy/crds/storage.linstor.dev_storageclusters.yaml",
			condition: ".Values.crds.enabled"},
		{name: "protection.yaml", source: "deploy/protection.yaml"},
		{name: "operator.yaml", source: "deploy/operator.yaml", edits: deployment()},
	}
}

// deployment makes values of what people set of the operator's Deployment.
func deployment() []exact.Edit {
	return []exact.Edit{
		{Old: "  replicas: 2\n", New: "  replicas: {{ .Values.replicas }}\n"},
		{Old: `    metadata:
      labels: {app.kubernetes.io/name: storagecluster-operator}
      annotations:
        kubectl.kubernetes.io/default-container: operator
`, New: `    metadata:
      labels: {{ include "storagecluster-operator.podLabels" . }}
      annotations: {{ include "storagecluster-operator.podAnnotations" . }}
`},
		{Old: `      enableServiceLinks: false
      priorityClassName: system-cluster-critical
      nodeSelector: {kubernetes.io/os: linux}
`, New: `      enableServiceLinks: false
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets: {{ toJson . }}
      {{- end }}
      priorityClassName: {{ .Values.priorityClassName | quote }}
      nodeSelector: {{ toJson .Values.nodeSelector }}
      {{- with .Values.affinity }}
      affinity: {{ toJson . }}
      {{- end }}
`},
		{Old: `      tolerations:
      - {key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}
      - {key: drbd.linbit.com/lost-quorum, operator: Exists, effect: NoSchedule}
      - {key: drbd.linbit.com/force-io-error, operator: Exists, effect: NoSchedule}
`, New: `      tolerations: {{ toJson .Values.tolerations }}
`},
		{Old: "image: storagecluster-operator:latest\n", New: "image: {{ include \"storagecluster-operator.image\" . }}\n"},
		{Old: `        imagePullPolicy: IfNotPresent
`, New: `        imagePullPolicy: {{ .Values.image.pullPolicy }}
`},
		{Old: "        - --catalogue=/catalogue/catalogue.yaml\n", New: `        - --catalogue=/catalogue/catalogue.yaml
        {{- range $flag, $value := .Values.args }}
        - {{ printf "--%s=%v" $flag $value | quote }}
        {{- end }}
`},
		{Old: `        # Makes Go free memory before the kernel kills the process. Set it 10% below the memory limit.
        - {name: GOMEMLIMIT, value: 460MiB}
`, New: `        {{- with include "storagecluster-operator.goMemoryLimit" . }}
        # Makes Go free memory before the kernel kills the process: 10% below the memory limit.
        - {name: GOMEMLIMIT, value: {{ . }}}
        {{- end }}
`},
		{Old: `        resources:
          # The limit is sufficient for a cluster of a few thousand nodes.
          requests: {cpu: 20m, memory: 64Mi}
          limits: {memory: 512Mi}
`, New: `        resources: {{ toJson .Values.resources }}
`},
		{Old: `    # Otherwise, the default node selector of OpenShift or of the admission plugin PodNodeSelector would be
    # added to every pod, including DaemonSet pods, and no satellites would run on infra nodes, even if spec.nodes
    # selects them.
    openshift.io/node-selector: ""
    scheduler.alpha.kubernetes.io/node-selector: ""
`, New: `    {{- range $name, $value := .Values.storageNamespace.annotations }}
    {{ $name | quote }}: {{ $value | quote }}
    {{- end }}
`},
		{Old: `kind: Namespace
metadata:
  name: linstor-storage
  labels:
`, New: `kind: Namespace
metadata:
  name: linstor-storage
  labels:
    {{- range $name, $value := .Values.storageNamespace.labels }}
    {{ $name | quote }}: {{ $value | quote }}
    {{- end }}
`},
	}
}
