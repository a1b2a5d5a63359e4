{{- define "storagecluster-operator.image" -}}
{{- if and .Values.image.digest .Values.image.tag }}
{{- fail "image.tag and image.digest are both set: clear one of them, for example with --set image.digest=" }}
{{- end -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end -}}
{{- end -}}

{{- /* The label that the Deployment selects by must not be overridden. */ -}}
{{- define "storagecluster-operator.podLabels" -}}
{{ merge (dict "app.kubernetes.io/name" "storagecluster-operator") .Values.podLabels | toJson }}
{{- end -}}

{{- /* The operator reads its catalogue when it starts: another one needs new pods. */ -}}
{{- define "storagecluster-operator.podAnnotations" -}}
{{- $own := dict "kubectl.kubernetes.io/default-container" "operator" -}}
{{- with .Values.catalogue -}}
{{- $own = merge $own (dict "storage.linstor.dev/catalogue" (toJson . | sha256sum)) -}}
{{- end -}}
{{ merge $own .Values.podAnnotations | toJson }}
{{- end -}}

{{- /* A tenth below the limit of memory, in MiB. Nothing if there is none. */ -}}
{{- define "storagecluster-operator.goMemoryLimit" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources -}}
{{- if $limit -}}
{{- $number := regexFind "^[0-9]+" $limit | int64 -}}
{{- if hasSuffix "Gi" $limit }}{{ $number = mul $number 1024 }}{{ end -}}
{{ div (mul $number 9) 10 }}MiB
{{- end -}}
{{- end -}}
