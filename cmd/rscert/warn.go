package main

import (
	"fmt"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/warning"
)

// warnf prints a warning. The arguments may name parameters, as in param.Textf. It returns an error if the warning ends
// the command (--strict).
func (s streams) warnf(code warning.Code, format string, args ...any) error {
	return s.warn(warning.New(code, format, args...))
}

// warn prints a warning, as warnf does. All warnings are printed here.
func (s streams) warn(w warning.Warning) error {
	fmt.Fprintf(s.err, "warning: %s\n", quote.Line(w.Spell(asFlag)))
	return s.strict.take(w.Code)
}
