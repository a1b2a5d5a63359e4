// Package model runs the operator against a world in memory, step by step, in an order that chance decides.
//
// The reconciler, its observer, its background tasks and its LINSTOR client are the real ones. Around them, instead of
// processes: an API server (controller-runtime's fake client, with the UIDs, generations and finalizers that it
// lacks), the controllers of DaemonSets and Deployments and the kubelets in a few screens each, and LINSTOR's
// simulator with its machines. Everything runs in a bubble of testing/synctest: the clock stands still while a step
// runs, and hours pass in a moment.
//
// A schedule is a list of steps, made from a seed: rounds in which every actor has its turn, in shuffled order, each
// left out or repeated three times in ten, with edits of the user, nodes that die and requests that fail in between.
// After every step the invariants must hold. After the last one nothing fails any more, everybody has their turn, an
// administrator answers what the operator asks, and the world must come to rest: Ready or gone, and nothing is written
// from then on.
//
// What fails is printed with its seed, and as the shortest list of steps that still fails. Such a list can be kept:
// see regressions.
package model
