package selection

// What the tests of this package look at inside of it.
var DrivesAway = drivesAway
