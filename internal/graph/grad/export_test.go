package grad

// Operators lists the operators with rules.
func Operators() (names []string) {
	for key := range rules {
		names = append(names, key.name)
	}
	return names
}
