package statusview

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linstor-dev/storagecluster-operator/pkg/apis/storage/v1alpha1"
	"github.com/linstor-dev/storagecluster-operator/pkg/plugin/tree"
	"github.com/linstor-dev/storagecluster-operator/pkg/text"
)

// Lines renders the view.
func (v *View) Lines(s tree.Style) []string {
	head := tree.Clean("StorageCluster/" + v.Name)
	phase := tree.Clean(string(v.Phase))
	if phase == "" {
		phase = "not checked yet"
	}
	since := ""
	if v.Since != nil {
		since = " for " + Ago(v.now.Sub(v.Since.Time))
	}
	out := []string{s.Bold(head) + "  " + s.Paint(v.State, phase) + since}
	if v.Version != "" {
		linstor := tree.Clean(fmt.Sprintf("LINSTOR %s on %s", v.Version, v.Database))
		if utf8.RuneCountInString(head+"  "+phase+since+"  "+linstor) <= s.Width {
			out[0] += "  " + linstor
		} else {
			out = append(out, "│  "+linstor)
		}
	}
	if message := v.headline(); message != "" {
		out = append(out, s.Wrap(message, "│  ")...)
	}
	if v.Attention != "" && !v.heldOnly() {
		out = append(out, s.Wrap("Attention: "+v.Attention, "│  ")...)
	}
	out = append(out, s.Lines(v.Sections)...)
	for i := range v.Holds {
		out = append(out, "")
		out = append(out, v.Holds[i].Lines(s, v.now)...)
	}
	for i, u := range v.Unread {
		if i == 0 {
			out = append(out, "")
		}
		out = append(out, s.Wrap("Incomplete: "+u, "")...)
	}
	return out
}

// headline is the operator's message. That of a held cluster is the hold's, which is shown in full below.
func (v *View) headline() string {
	for i := range v.Holds {
		if h := &v.Holds[i]; h.Cluster && h.Message == v.Message {
			return fmt.Sprintf("The operator is waiting for your decision on hold %s (%s); see below.", h.ID, h.Reason)
		}
	}
	return v.Message
}

// heldOnly reports whether the attention is about a hold, which is shown in full below.
func (v *View) heldOnly() bool {
	for i := range v.Holds {
		if strings.HasPrefix(v.Attention, string(v.Holds[i].Reason)) {
			return true
		}
	}
	return false
}

// mostDevices bounds the disks of a hold that are shown; the JSON has all.
const mostDevices = 12

// Lines renders a hold: what is wrong, what each answer does, and the commands. Commands stand by themselves, so that
// they can be copied.
func (h *Hold) Lines(s tree.Style, now time.Time) []string {
	head := tree.Clean(fmt.Sprintf("%s %s", h.ID, h.Reason))
	out := []string{s.Paint(tree.Bad, "Hold "+head) + " for " + Ago(now.Sub(h.Since.Time))}
	if about := h.About(); about != "" {
		out = append(out, s.Wrap("Affects "+about+".", "  ")...)
	}
	out = append(out, s.Wrap(h.Message, "  ")...)
	for i, d := range h.Devices {
		if i == mostDevices {
			out = append(out, s.Wrap(fmt.Sprintf("… and %d more; -o yaml lists all", len(h.Devices)-i), "    ")...)
			break
		}
		out = append(out, s.Wrap(DeviceText(&d), "    ")...)
	}
	if len(h.Resources) > 0 {
		out = append(out, s.Wrap("Volumes: "+strings.Join(h.Resources, ", "), "  ")...)
	}
	if h.Ends != "" {
		out = append(out, s.Wrap(h.Ends+":", "  ")...)
	}
	for i := range h.Options {
		out = append(out, h.Options[i].lines(s)...)
	}
	if len(h.Options) > 0 {
		out = append(out, "  Without this plugin, run:")
		out = append(out, s.Command(h.Options[0].Annotate, "    ")...)
	}
	if h.Runbook != "" {
		out = append(out, s.Wrap("Runbook: "+h.Runbook, "  ")...)
	}
	return out
}

func (o *Option) lines(s tree.Style) []string {
	var out []string
	for _, line := range s.Command(o.Command, "    ") {
		out = append(out, s.Bold(line))
	}
	return append(out, s.Wrap(o.Does, "        ")...)
}

// DeviceText is a disk in a line: the path may change, serial number and WWN do not.
func DeviceText(d *v1alpha1.HoldDevice) string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"", d.Node}, {"", d.Path}, {"serial ", d.Serial}, {"wwn ", d.WWN},
		{"", d.Model}, {"", d.Size.String()}} {
		if p.value != "" {
			parts = append(parts, p.name+p.value)
		}
	}
	return text.Listed(parts, len(parts))
}
