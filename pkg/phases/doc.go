// Package phases decides and does: links of the chain, interrupts, and one handler for each state of the machine.
//
// A reconcile observes (package observe) into an immutable Snapshot; here interrupts and handlers read it. A handler acts
// only through the narrow interfaces in Input, repeats itself safely, and never blocks: writes to LINSTOR run as keyed
// background tasks. What a handler did shows in the next observation; nothing is remembered as done.
//
// A source that failed is Unknown: never absent, never fine. The package imports neither golinstor nor looplab/fsm.
package phases
