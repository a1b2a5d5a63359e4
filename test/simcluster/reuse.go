package simcluster

import (
	"context"
	"fmt"
	"os"
)

// Stored are the keys of all objects in a cluster's etcd; see [controlplane.ControlPlane.Keys].
func Stored(ctx context.Context, c *Cluster) ([]string, error) { return c.plane.Keys(ctx) }

// Changed reports whether a component of the control plane was killed, or pods still have a fault to suffer from.
func Changed(c *Cluster) bool { return c.killed || c.driver.Faults().Any() }

// StartAudit makes a cluster's AuditEvents start with the next request.
func StartAudit(c *Cluster) error {
	if !c.opts.AuditLog {
		return nil
	}
	info, err := os.Stat(c.plane.AuditLogPath())
	if err != nil {
		return fmt.Errorf("find the end of the audit log: %w", err)
	}
	c.auditFrom = info.Size()
	return nil
}
