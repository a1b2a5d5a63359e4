package sim

import (
	"fmt"
	"strings"
)

// Inventory lists the disks in the form of util-linux' lsblk with the columns that the satellite's inventory asks for.
func (m *Machine) Inventory() string {
	var b strings.Builder
	for _, d := range m.Disks() {
		rotational := 0
		if d.Rotational {
			rotational = 1
		}
		fmt.Fprintf(&b, "NAME=%q TYPE=\"disk\" SIZE=\"%d\" ROTA=\"%d\" SERIAL=%q WWN=%q MODEL=%q FSTYPE=%q PTTYPE=\"\"\n",
			d.Name, d.SizeBytes, rotational, d.Serial, d.WWN, d.Model, d.Signature)
	}
	return b.String()
}
