// Package secret tells LINSTOR's properties that hold keys and passphrases from all others. LINSTOR returns them to
// everyone who can read properties.
package secret

import (
	"maps"
	"strings"
)

// Without returns properties without those that are secret, so that they cannot get into a log or a status.
func Without(props map[string]string) map[string]string {
	kept := make(map[string]string, len(props))
	maps.Copy(kept, props)
	maps.DeleteFunc(kept, func(key, _ string) bool { return Is(key) })
	return kept
}

// Is reports whether a property is the master key (encrypted/*) or a password of a key store (NetCom/*/KeyPasswd and
// the like).
func Is(key string) bool {
	key = strings.ToLower(strings.TrimPrefix(key, "/"))
	return strings.HasPrefix(key, "encrypted/") || strings.Contains(key, "passwd") || strings.Contains(key, "passphrase")
}

// Values returns the values in props that must not be repeated in an error.
func Values(props map[string]string) []string {
	var secrets []string
	for k, v := range props {
		if Is(k) {
			secrets = append(secrets, v)
		}
	}
	return secrets
}

// Redact removes secrets from a text, such as LINSTOR's messages, which repeat them.
func Redact(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}
