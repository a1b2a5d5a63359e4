package phases

// Notice is an Event about something that was done to LINSTOR. What a background task did is told by the task itself, right
// after LINSTOR took it: no status shows that moment.
type Notice struct {
	// Warning is for what an administrator should look at; other notices are normal.
	Warning bool
	// Reason is one word; docs/conditions-and-events.md lists each.
	Reason string
	// Action tells one Event of a reason from the next, the node's name for example: the recorder folds Events of equal reason
	// and action. The API bounds it to 128 bytes.
	Action string
	// Note is what happened, in one sentence.
	Note string
}

// poolOn is the action of a notice about a node's pool. The node alone would not do: of two pools that go from a node the
// second one's Event would be folded into the first one's, and its name not be told.
func poolOn(pool, node string) string { return pool + " on " + node }

// announce tells a notice; whoever runs without a listener tells nobody.
func (in *Input) announce(n Notice) {
	if in.Announce != nil {
		in.Announce(n)
	}
}
