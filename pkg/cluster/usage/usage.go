// Package usage counts the objects that need the CSI driver.
package usage

import "slices"

// mostUsers bounds how many of the objects that need the CSI driver are named.
const mostUsers = 3

// Used counts objects of the CSI driver that need it until they are gone.
type Used struct {
	Count int
	// Names are the first of them.
	Names []string
	// ByClass counts them by their class.
	ByClass map[string]int
}

// Count counts objects, which are given with the class of each by their names.
func Count(classes map[string]string) Used {
	u := Used{Count: len(classes), ByClass: map[string]int{}}
	for name, class := range classes {
		u.ByClass[class]++
		u.Names = append(u.Names, name)
	}
	slices.Sort(u.Names)
	u.Names = u.Names[:min(len(u.Names), mostUsers)]
	return u
}
