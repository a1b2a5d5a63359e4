package redact

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const canary = "CaNaRy-7f3a"

// TestCanaries: what opens something is taken out however it is written, and the words around it stay.
func TestCanaries(t *testing.T) {
	for name, c := range map[string]struct{ text, stays string }{
		"JSON":             {`{"level":"info","password":"` + canary + `","node":"n1"}`, `"node":"n1"`},
		"JSON within JSON": {`{"msg":"{\"password\":\"` + canary + `\",\"a\":1}"}`, `\"a\":1`},
		"TOML":             {"user = \"linstor\"\npassword = \"" + canary + "\"\nssl = true", "ssl = true"},
		"YAML":             {"passphrase: " + canary + "\nnext: 1", "next: 1"},
		"a JDBC address":   {"jdbc:postgresql://db/linstor?user=x&password=" + canary + "&ssl=on", "&ssl=on"},
		"a URL":            {"GET https://admin:" + canary + "@db.example.com/x", "@db.example.com/x"},
		"a header":         {"Authorization: Bearer " + canary + "abcdef", "Authorization"},
		"a token":          {"token " + jwt(), "token"},
		"a variable":       {"MASTER_PASSPHRASE=" + canary + " started", "started"},
		"S3":               {"AWS_SECRET_ACCESS_KEY=" + canary + ", region eu", "region eu"},
		"a key's ID":       {"key AKIA1234567890ABCDEF refused", "refused"},
		"a private key":    {"before\n" + pem("x\n"+canary+"\n") + "after", "after"},
		"a key in JSON": {`"k":"-----BEGIN EC PRIVATE KEY-----\n` + canary + `\n-----END EC PRIVATE KEY-----\n","z":1`,
			`"z":1`},
		"a key without end":   {"before\n-----BEGIN PRIVATE KEY-----\n" + canary, "before"},
		"a key without begin": {"Q2FOYVJ5LTdmM2FDYU5hUnktN2YzYQ==\n-----END PRIVATE KEY-----\nafter", "after"},
		"Java's key store":    {"javax.net.ssl.keyStorePassword=" + canary + " -Xmx", "-Xmx"},
		"a key cut at its front, in a log": {"2026-11-27T12:00:00.1234Z started the server\n" +
			"2026-11-27T12:00:00.1235Z Q2FOYVJ5LTdmM2FDYU5hUnktN2YzYQ==\n2026-11-27T12:00:00.1236Z Q2FO\n" +
			"2026-11-27T12:00:00.1237Z -----END EC PRIVATE KEY-----\n2026-11-27T12:00:00.1238Z after", "started the server"},
		"a key with times": {"2026-11-27T12:00:00.1Z -----BEGIN RSA PRIVATE KEY-----\n2026-11-27T12:00:00.2Z Q2FO\n" +
			"2026-11-27T12:00:00.3Z -----END RSA PRIVATE KEY-----\n2026-11-27T12:00:00.4Z after", "Z after"},
		"a short variable":     {"DB_PASS=" + canary + " started", "started"},
		"an API's key":         {"API_KEY=" + canary + "; next", "; next"},
		"arguments":            {"run --password " + canary + " --verbose", "--verbose"},
		"arguments as a list":  {`args: ["--token", "` + canary + `", "--verbose"]`, "--verbose"},
		"quoted with an apost": {"password='" + canary + " x' done", "done"},
	} {
		got := Text(c.text)
		if strings.Contains(got, canary) || strings.Contains(got, "eyJhb") || strings.Contains(got, "AKIA") ||
			strings.Contains(got, "Q2FO") {
			t.Errorf("%s: %s", name, got)
		}
		if !strings.Contains(got, c.stays) || !strings.Contains(got, Mark) {
			t.Errorf("%s: lost %q: %s", name, c.stays, got)
		}
	}
}

func pem(body string) string {
	return "-----BEGIN PRIVATE KEY-----\n" + body + "-----END PRIVATE KEY-----\n"
}

func jwt() string { return "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl" }

// TestHarmless: what a reader needs stays.
func TestHarmless(t *testing.T) {
	for _, text := range []string{
		"node-2: pool ssd: the operator never overwrites data, and no empty disk matches",
		"passphraseSecret: linstor-passphrase", "https://github.com/linstor-dev/x/blob/main/y.md",
		"2026-11-27T12:00:00Z h-b2f074:retry", "secretKeyRef: {name: db}", "tokens 3 of 4",
		"linstor --tls-secret=linstor-api-tls", "bypass: no", "--password --verbose",
	} {
		if got := Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestObject(t *testing.T) {
	o := map[string]any{}
	if err := json.Unmarshal([]byte(fmt.Sprintf(`{
		"metadata": {"name": "p", "managedFields": [{"x": "y"}], "annotations": {
			"kubectl.kubernetes.io/last-applied-configuration": %[1]q, "note": "password=%[1]s", "kept": "yes"}},
		"spec": {"passphraseSecret": "linstor-passphrase", "password": %[1]q, "containers": [{"name": "c",
			"args": ["--token=%[1]s", "--verbose", "--db-password", %[1]q, "--next", "--client-secret=%[1]s", "--password"],
			"env": [{"name": "OIDC_CLIENT_SECRET", "value": %[1]q}, {"name": "DB_PASS", "value": %[1]q},
				{"name": "API_KEY", "value": %[1]q}, {"name": "MYSQL_PWD", "value": %[1]q},
				{"name": "REGISTRY_SECRET", "valueFrom": {"secretKeyRef": {"name": "registry", "key": "k"}}},
				{"name": "DB_PASSWORD", "value": %[1]q}, {"name": "HOME", "value": "/tmp"},
				{"name": "MASTER_PASSPHRASE", "valueFrom": {"secretKeyRef": {"name": "pass", "key": "MASTER_PASSPHRASE"}}}]}],
			"nested": [["token: %[1]s"]]},
		"binaryData": {"store.p12": %[1]q},
		"data": {"passphraseCheck": %[1]q, "version": "1.35.3"}}`, canary)), &o); err != nil {
		t.Fatal(err)
	}
	Object(o)
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	got := string(data)
	if strings.Contains(got, canary) || strings.Contains(got, "managedFields") || strings.Contains(got, "last-applied") {
		t.Error(got)
	}
	for _, want := range []string{`"passphraseSecret":"linstor-passphrase"`, `"--verbose"`, `"--next"`, `"--password"]`,
		`"value":"/tmp"`, `{"key":"k","name":"registry"}`, `"store.p12"`,
		`"kept":"yes"`, `"secretKeyRef":{"key":"MASTER_PASSPHRASE","name":"pass"}`, `"version":"1.35.3"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}
