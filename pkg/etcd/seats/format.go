package seats

import (
	"fmt"
	"strconv"
)

// format is the number of the form in which notes and orders are written. It rises with each field that an older
// operator must not drop: it would write the notes again without what it does not know.
const format = 1

// Format is written as that number. Something of a higher one is not read. Without a number it is the first.
type Format struct{}

// MarshalJSON implements json.Marshaler.
func (Format) MarshalJSON() ([]byte, error) { return []byte(strconv.Itoa(format)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (Format) UnmarshalJSON(text []byte) error {
	n, err := strconv.Atoi(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("format %s is not a number", text)
	case n > format:
		return fmt.Errorf("it is in format %d, but this operator supports formats up to %d: run the operator version that "+
			"wrote it", n, format)
	}
	return nil
}
