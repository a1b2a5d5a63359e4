package store

import (
	"maps"
	"strings"
	"testing"
)

// TestConnect: what cannot work is refused before anything is sent.
func TestConnect(t *testing.T) {
	good := Location{Endpoint: "https://s3.example", Bucket: "backups"}
	keys := map[string]string{AccessKeyID: "id", SecretAccessKey: "key-canary"}
	with := func(more map[string]string) map[string]string {
		out := maps.Clone(keys)
		maps.Copy(out, more)
		return out
	}
	for name, tc := range map[string]struct {
		location Location
		cluster  string
		keys     map[string]string
		says     string
	}{
		"no URL":            {Location{Endpoint: "s3.example", Bucket: "backups"}, localID, keys, "https://host[:port]"},
		"a path":            {Location{Endpoint: "https://s3.example/x", Bucket: "b"}, localID, keys, "https://host[:port]"},
		"a password":        {Location{Endpoint: "https://a:canary@s3", Bucket: "b"}, localID, keys, "https://host[:port]"},
		"no cluster":        {good, "", keys, "Cluster/LocalID"},
		"a path's cluster":  {good, "../other", keys, "Cluster/LocalID"},
		"the parent":        {good, "..", keys, "Cluster/LocalID"},
		"no key ID":         {good, localID, with(map[string]string{AccessKeyID: ""}), "has no AWS_ACCESS_KEY_ID key"},
		"no key":            {good, localID, with(map[string]string{SecretAccessKey: " "}), "no AWS_SECRET_ACCESS_KEY key"},
		"no certificate":    {good, localID, with(map[string]string{CA: "text"}), "ca.crt of the S3 credentials Secret"},
		"no directory":      {good, localID, nil, "has no AWS_ACCESS_KEY_ID key"},
		"an empty password": {good, localID, map[string]string{AccessKeyID: "id"}, "has no AWS_SECRET_ACCESS_KEY key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Connect(tc.location, tc.cluster, secretWith(t, tc.keys))
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v; it does not say %q", err, tc.says)
			}
		})
	}
	if _, err := Connect(good, localID, secretWith(t, keys)); err != nil {
		t.Error(err)
	}
}
