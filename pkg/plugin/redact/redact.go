// Package redact takes out of a text or an object what opens something: passwords, passphrases, tokens and private
// keys. It errs on the side of taking out too much: a report goes to people who must not have any of it.
//
// Nothing here knows a Secret's data: the plugin never reads a Secret. It is about what programs and people have put
// where it does not belong, such as a log, an annotation or an environment variable.
package redact

import (
	"regexp"
	"slices"
	"strings"
)

// Mark stands for what was taken out.
const Mark = "«redacted»"

// keys are private keys, whole or cut off at either end. Of one that was cut off at its front, only the end tells what
// the lines before it are; in a log, each of them begins with its time.
var keys = []*regexp.Regexp{
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`),
	regexp.MustCompile(`(?m)(?:^(?:.*[ \t])?[A-Za-z0-9+/=]{16,}[ \t\r]*\n)*(?:^(?:.*[ \t])?[A-Za-z0-9+/=]+[ \t\r]*\n)?` +
		`.*-----END [A-Z ]*PRIVATE KEY-----`),
}

// rules are applied to a line in this order, after the values of keys were taken out.
var rules = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?)(?:[a-z]+ )?[^\s"',]+`), "${1}" + Mark},
	{regexp.MustCompile(`(?i)\b(bearer|basic) [a-z0-9._~+/=-]{8,}`), "${1} " + Mark},
	// JSON Web Tokens, as those of ServiceAccounts are, and key IDs of AWS.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), Mark},
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), Mark},
	// The word after a flag, as in the arguments of a process.
	{regexp.MustCompile(`(?i)((?:^|[\s"'\[,])--?[a-z0-9_.-]*(?:password|passphrase|passwd|token|secret)["']?` +
		`[ \t,]+["']?)[^\s"',\]\[-][^\s"',\]]*`), "${1}" + Mark},
	// Credentials in an address.
	{regexp.MustCompile(`(://)[^/\s:@"']+:[^/\s@"']+@`), "${1}" + Mark + "@"},
}

// assigned are the ways in which Java, Go, JSON, TOML, YAML, a shell and the parameters of a URL give a key its value.
// A key that ends in "secret" names one here, as credentialsSecret does.
var assigned = regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:password|passphrase|passwd|token|passphrasecheck` +
	`|[_.-]pass|dbpass|pwd|api[_-]?key` +
	`|(?:client|shared|aws)[_-]?secret|(?:private|secret|access)[_-]?(?:access[_-]?)?key(?:[_-]?id)?)` +
	`\\?["']?[ \t]*[:=][ \t]*)(\\?"(?:[^"\\]|\\[^"])*(?:\\?"|$)|'[^']*'|[^\s,;&{}\[\]()"]+)`)

// plain are values that open nothing.
var plain = regexp.MustCompile(`^(true|false|null|nil|` + Mark + `)$`)

// hints are in each line, in lower case, in which a rule finds anything. Most lines have none, and logs are long.
var hints = []string{"pass", "pwd", "token", "key", "secret", "authorization", "bearer", "basic", "eyj", "akia",
	"asia", "@"}

// Text takes out of a text what opens something.
func Text(s string) string {
	if strings.Contains(s, "PRIVATE KEY") {
		for _, r := range keys {
			s = r.ReplaceAllString(s, Mark)
		}
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lower := strings.ToLower(l)
		if slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(lower, h) }) {
			lines[i] = line(l)
		}
	}
	return strings.Join(lines, "\n")
}

func line(s string) string {
	s = assigned.ReplaceAllStringFunc(s, func(found string) string {
		parts := assigned.FindStringSubmatch(found)
		if plain.MatchString(parts[2]) {
			return found
		}
		return parts[1] + Mark
	})
	for _, r := range rules {
		s = r.what.ReplaceAllString(s, r.with)
	}
	return s
}

// telling is what the name of a field, variable or key says of its value.
var telling = regexp.MustCompile(`(?i)(password|passphrase|passwd|token|private[_-]?key|secret|access[_-]?key` +
	`|api[_-]?key|credential)`)

// harmless are endings of names whose values name something, and are not it.
var harmless = regexp.MustCompile(`(?i)(secrets?|secret_?name|seconds|file|path|mode|ref|service_?account_?token)$`)

// Secretive reports whether the value that has this name is to be taken out.
func Secretive(name string) bool {
	return telling.MatchString(name) && !harmless.MatchString(name) || strings.EqualFold(name, "MASTER_PASSPHRASE")
}

// variables are names of environment variables whose literal values open something. Only there "secret" at the end
// says so: a field of such a name names a Secret.
var variables = regexp.MustCompile(`(?i)(secret|pass|pwd|api_?key)$`)

// flagOnly is a flag whose value is the next argument, and flagged one that has it in itself.
var (
	flagOnly = regexp.MustCompile(`(?i)^--?[a-z0-9_.-]*(password|passphrase|passwd|pwd|token|secret|api[_-]?key)$`)
	flagged  = regexp.MustCompile(`(?i)^(--?[a-z0-9_.-]*(?:password|passphrase|passwd|pwd|token|secret|api[_-]?key)=).`)
)

// lastApplied holds the whole object once more, as somebody applied it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Object takes out of an object, as JSON decodes it, what opens something, and what nobody reads. It changes the
// object.
func Object(o map[string]any) {
	if meta, ok := o["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			delete(annotations, lastApplied)
		}
	}
	object(o)
}

func object(o map[string]any) {
	name, _ := o["name"].(string)
	for key, value := range o {
		if data, ok := value.(map[string]any); ok && key == "binaryData" { // nobody can look into it
			for k := range data {
				data[k] = Mark
			}
		}
		switch v := value.(type) {
		case string:
			switch {
			case Secretive(key), key == "value" && (Secretive(name) || variables.MatchString(name)):
				o[key] = Mark
			default:
				o[key] = Text(v)
			}
		case map[string]any:
			object(v)
		case []any:
			list(v)
		}
	}
}

func list(l []any) {
	secret := false // whether the last argument was a flag that wants one
	for i, value := range l {
		switch v := value.(type) {
		case string:
			switch found := flagged.FindStringSubmatch(v); {
			case secret:
				l[i] = Mark
			case found != nil:
				l[i] = found[1] + Mark
			default:
				l[i] = Text(v)
			}
			secret = flagOnly.MatchString(v)
		case map[string]any:
			object(v)
		case []any:
			list(v)
		}
	}
}
