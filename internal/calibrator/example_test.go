package calibrator_test

import (
	"encoding/json"
	"fmt"

	"github.com/rscert/rscert/internal/calibrator"
)

// In the data 'overconfident', the two logits of each row differ by 2·ln 3, and the larger logit is right in three of
// four rows. The temperature T = 2 makes the confidence 0.75.
var overconfident = calibrator.Data{
	Input: calibrator.Logits, Columns: 2, Classes: 2,
	Values: []float64{2.1972245773362196, 0, 2.1972245773362196, 0, 2.1972245773362196, 0, 2.1972245773362196, 0},
	Label:  []int{0, 0, 0, 1},
}

// The example prints probabilities before and after temperature scaling.
func ExampleMethod_Fit() {
	temperature, err := calibrator.Choices().Parse("temperature")
	if err != nil {
		panic(err)
	}
	m, err := temperature.Fit(overconfident, calibrator.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("before %.2f\n", calibrator.Identity(overconfident).Apply(overconfident.Values[:2]))
	fmt.Printf("after %.2f\n", m.Apply(overconfident.Values[:2]))
	// Output:
	// before [0.90 0.10]
	// after [0.75 0.25]
}

// Half of the examples with score 0.9 have label 1, and no example with score 0.1 has label 1. The isotonic fit maps
// each score to the share of label 1 among the examples with this score.
func ExampleMap_Apply() {
	d := calibrator.Data{
		Input: calibrator.Probabilities, Columns: 1, Classes: 2,
		Values: []float64{0.9, 0.9, 0.1, 0.1}, Label: []int{1, 0, 0, 0},
	}
	isotonic, err := calibrator.Choices().Parse("isotonic")
	if err != nil {
		panic(err)
	}
	m, err := isotonic.Fit(d, calibrator.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.2f\n", m.Apply([]float64{0.9, 0.1}))
	// Output: [0.50 0.50 1.00 0.00]
}

// A map can be saved as JSON and parsed again.
func ExampleParse() {
	temperature, err := calibrator.Choices().Parse("temperature")
	if err != nil {
		panic(err)
	}
	m, err := temperature.Fit(overconfident, calibrator.Options{})
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	again, err := calibrator.Parse(text)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: weight %.2f\n", again.Method, again.Weight)
	// Output: temperature: weight [0.50]
}

// ONNX writes the map as an ONNX model. The model takes the outputs of the classifier as its input.
func ExampleMap_ONNX() {
	graph, err := calibrator.Identity(overconfident).ONNX()
	if err != nil {
		panic(err)
	}
	fmt.Println(len(graph) > 0, calibrator.GraphInput, calibrator.GraphOutput)
	// Output: true outputs probabilities
}

// Half of the rows are held out.
func ExampleData_Split() {
	fitted, rest := overconfident.Split([]bool{true, false, true, false})
	fmt.Println(fitted.N(), fitted.Label, rest.N(), rest.Label)
	// Output: 2 [0 1] 2 [0 0]
}

// The example prints the names of the methods.
func ExampleChoices() {
	fmt.Println(calibrator.Choices())
	// Output: temperature, vector, matrix, dirichlet, structured-vector, structured-matrix, platt, isotonic, beta, venn-abers or histogram
}
