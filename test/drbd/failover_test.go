package drbd

// failOver cuts the power of the node that writes, and looks for what it has written on the other one, and on the
// first one when it is back.
func (l *lab) failOver() {
	l.record("n01")
	l.guest("n01").PowerOff()
	safe := l.safe("n01")
	l.shows(volume, "n01 ", "n02 UpToDate 10101 n01:down n03:up", "n03 ")
	l.checkRecords("n02", safe)
	l.powerOn("n01")
	l.online("n01")
	l.allWell(volume, plain)
	l.checkRecords("n01", safe)
}
