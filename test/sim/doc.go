// Package sim is a LINSTOR controller, its satellites and the machines they run on, in one process and in memory.
//
// A [World] answers LINSTOR's REST API the way LINSTOR 1.30 to 1.35 answers it: the same status codes (an object that
// exists is an HTTP 500), the same signed return codes, the same half-finished results of a request that failed after
// its commit. Behind the API is a model of machines: disks with signatures, volume groups, zpools and the volumes on
// them. A client that calls LINSTOR carelessly loses simulated data here, and [Volumes.Data] and
// [World.Violations] show it.
//
// Time comes from an injected clock. Nothing runs in the background: whatever is due is carried out, in order, when
// somebody next looks at the world, so a test with a fake clock is deterministic.
package sim
