// Package prose checks the English that users read. styles/Plain/Marked.yml lists the marked phrases. The package's
// test looks for them in the string literals of the Go code, and Vale in the pages (vale.ini); "make lint" runs both.
package prose
