package nodes

// KubectlFlags is what the tests of this package look at inside of it.
var KubectlFlags = kubectlFlags
