// Package schedule says when backups are due, by a schedule as a CronJob of Kubernetes has one.
package schedule

import (
	"fmt"
	"regexp"
	"time"
	_ "time/tzdata" // the operator's image has no database of time zones

	"github.com/robfig/cron/v3"
)

// Schedule is a schedule in a time zone.
type Schedule struct {
	spec cron.Schedule
	zone *time.Location
}

// fiveFields keeps out what the library panics on or takes for a time zone: TZ= and descriptors.
var fiveFields = regexp.MustCompile(`^[0-9A-Za-z*,/?-]+( [0-9A-Za-z*,/?-]+){4}$`)

// Parse reads a schedule: minute, hour, day of the month, month and day of the week, and the name of a time zone. An
// error names the field of spec.backup. A schedule that never comes is an error, too.
func Parse(text, zone string) (*Schedule, error) {
	if !fiveFields.MatchString(text) {
		return nil, fmt.Errorf("spec.backup.schedule: %q does not have five fields: minute, hour, day of the month, month "+
			"and day of the week", text)
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, fmt.Errorf("spec.backup.timeZone: %q is not a known time zone", zone)
	}
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("spec.backup.schedule: %q: %w", text, err)
	}
	s := &Schedule{spec: parsed, zone: location}
	if s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("spec.backup.schedule: %q never fires: no such date exists", text)
	}
	return s, nil
}

// Next is when the schedule comes after a time. A time that a change of clocks leaves out is left out.
func (s *Schedule) Next(after time.Time) time.Time { return s.spec.Next(after.In(s.zone)) }
