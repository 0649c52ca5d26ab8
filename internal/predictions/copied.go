package predictions

import (
	"regexp"
	"slices"
	"strings"
)

// outputColumns lists columns about the answers of a classifier. The function isOutput also recognises other columns:
// the probabilities of single classes, and the probabilities of a Venn–Abers map.
var outputColumns = slices.Concat(probabilityArrays, PerturbationColumns, []string{"score", "confidence", "correct", "logit",
	"logits", "lower", "upper", "certified", "prediction", "predicted", adversarialConfidence, adversarialCorrect})

// vennAbersColumn matches the names of the columns that hold the two probabilities of a Venn–Abers map.
var vennAbersColumn = regexp.MustCompile(`^va_p[01](_\d+)?$`)

// isOutput reports whether a column is about the answers of a classifier. If a command changes the answers, it must not
// copy such a column to its output, because the column is about the old answers. isOutput ignores the case of the name.
func isOutput(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(outputColumns, name) || probabilityColumn.MatchString(name) || vennAbersColumn.MatchString(name)
}

// KeptName is for commands that change the scores. It returns the name of a column's copy in the output of the command,
// or "" if the command must not copy the column. The seed of a perturbation gets another name, because it is the seed
// of the old scores, not of the changed ones.
func KeptName(name string) string {
	switch {
	case strings.EqualFold(name, PerturbationColumns[1]):
		return EarlierSeed
	case isOutput(name):
		return ""
	}
	return name
}
