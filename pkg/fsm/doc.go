// Package fsm holds the state machine of a StorageCluster: the transition table, which is the only truth about what may
// follow what, and a machine that moves along it.
//
// A state names work in progress. The handler of the state does that work on every reconcile until the evidence says done;
// nothing happens on entering a state, so that a crash, a restart and a new leader are the same as reconciling again.
//
// The package imports nothing of Kubernetes. looplab/fsm is used here only: a Machine is built anew for every reconcile,
// because an FSM of looplab v1.0.3 that was fired with a cancelled context refuses every later event.
package fsm
