package membership

// Rows are the names of the table's rows, from its top.
func Rows() (names []string) {
	for _, r := range table.Rows {
		names = append(names, r.Name)
	}
	return names
}

// Unbounded are rows that neither end in a hold nor have a bound, but for the one that rests.
func Unbounded() (names []string) {
	for _, r := range rules {
		if r.limit.of == nil && !r.end.hold || r.end.do == nil {
			names = append(names, r.name)
		}
	}
	return names
}
