// Package work runs slow writes in the background, so that a reconcile never waits for one.
//
// A [Runner] holds keyed tasks. Reconciles call [Runner.Ensure] with the tasks that the last observation asks for, as
// often as they like: a task that is queued, running or backing off is not started again. Nothing is remembered across
// a restart, and nothing needs to be: what is still missing is observed and ensured again.
//
// The runner is a controller-runtime Runnable that needs leadership. Before it runs, and after it ended, Ensure starts
// nothing; when leadership is lost, the contexts of all running tasks end.
package work
