package graph

import (
	"crypto/sha256"
	"encoding/hex"
)

// recipeKey is a key in the metadata of a model's file. Under this key, the Python function rscert.export stores the
// model's recipe, a text that says how the model was trained.
const recipeKey = "rscert.recipe"

// RecipeSHA256 returns the SHA-256 of the model's recipe, in hex. The recipe is the text that says how the model was
// trained. The result is empty if the file has no recipe.
func (f *File) RecipeSHA256() string {
	for _, p := range f.Model.MetadataProps {
		if p.GetKey() == recipeKey {
			sum := sha256.Sum256([]byte(p.GetValue()))
			return hex.EncodeToString(sum[:])
		}
	}
	return ""
}
