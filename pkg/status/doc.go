// Package status projects what a reconcile saw and did into the status of the StorageCluster. It is pure: the same input
// gives the same status, so that a cluster at rest is never written. It is the only place where a status is made.
package status
