package graph

import (
	"crypto/sha256"
	"encoding/hex"
)

// recipeKey is the key of a model's recipe in the metadata of its file. The Python function rscert.export writes the
// recipe under this key.
const recipeKey = "rscert.recipe"

// RecipeSHA256 returns the SHA-256, in hex, of the text that says how the model was trained. The result is empty if the
// file has no such text.
func (f *File) RecipeSHA256() string {
	for _, p := range f.Model.MetadataProps {
		if p.GetKey() == recipeKey {
			sum := sha256.Sum256([]byte(p.GetValue()))
			return hex.EncodeToString(sum[:])
		}
	}
	return ""
}
