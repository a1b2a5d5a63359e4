package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	for name, tc := range map[string]struct{ schedule, zone, after, want string }{
		"every six hours":     {"0 */6 * * *", "UTC", "2026-11-25T05:59:59Z", "2026-11-25T06:00:00Z"},
		"it has just come":    {"0 */6 * * *", "UTC", "2026-11-25T06:00:00Z", "2026-11-25T12:00:00Z"},
		"elsewhere":           {"30 1 * * *", "Europe/Berlin", "2026-11-25T00:00:00Z", "2026-11-25T00:30:00Z"},
		"in summer":           {"30 1 * * *", "Europe/Berlin", "2026-07-25T00:00:00Z", "2026-07-25T23:30:00Z"},
		"on Sundays":          {"0 3 * * SUN", "UTC", "2026-11-25T00:00:00Z", "2026-11-29T03:00:00Z"},
		"clocks leave it out": {"30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z", "2026-03-30T00:30:00Z"},
		"once in four years":  {"0 0 29 2 *", "UTC", "2026-11-25T00:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		s, err := Parse(tc.schedule, tc.zone)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		after, err := time.Parse(time.RFC3339, tc.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Next(after).UTC().Format(time.RFC3339); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ schedule, zone, says string }{
		{"", "UTC", "five fields"},
		{"0 * * *", "UTC", "five fields"},
		{"0 0 0 * * *", "UTC", "five fields"},
		{"@daily", "UTC", "five fields"},
		{"TZ=", "UTC", "five fields"},
		{"TZ=Europe/Berlin 0 0 * * *", "UTC", "five fields"},
		{"60 * * * *", "UTC", "spec.backup.schedule"},
		{"* * * * MOO", "UTC", "spec.backup.schedule"},
		{"*/0 * * * *", "UTC", "spec.backup.schedule"},
		{"0 0 31 2 *", "UTC", "never fires"},
		{"0 0 * * *", "Mars/Olympus", "spec.backup.timeZone"},
		{"0 0 * * *", "Local", "spec.backup.timeZone"},
	} {
		if _, err := Parse(tc.schedule, tc.zone); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q in %q: %v; it does not say %q", tc.schedule, tc.zone, err, tc.says)
		}
	}
}

// FuzzParse: whatever the spec says, nothing panics, and what is taken comes.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"0 0 * * *", "TZ=", "CRON_TZ=UTC", "0 0 31 2 *", "1-5/2 ? * JAN-MAR 7",
		"*/99999999999 * * * *"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text, "Europe/Berlin")
		if err != nil {
			return
		}
		if now := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC); !s.Next(now).After(now) {
			t.Errorf("%q comes at %s", text, s.Next(now))
		}
	})
}
