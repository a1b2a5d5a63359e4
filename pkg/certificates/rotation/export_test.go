package rotation

// Rows are the names of the table's rows, from its top.
func Rows() (names []string) {
	for _, r := range table.Rows {
		names = append(names, r.Name)
	}
	return names
}
