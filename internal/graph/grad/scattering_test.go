package grad_test

// The function 'shaped' returns a function that adds a constant. The constant holds the indices v and has the given
// shape.
func shaped(shape []int64, v ...int64) func(*function) string {
	return func(f *function) string {
		name := f.ints(v...)
		f.Graph.Initializer[len(f.Graph.Initializer)-1].Dims = shape
		return name
	}
}

func scatteringCases() []ruleCase {
	box := list[int64](2, 3, 4)
	elements := shaped(list[int64](2, 2, 4), 0, 1, 2, -1, 2, 1, 0, 0, 1, 1, 1, 1, 0, 2, 1, 2)
	// three indices of rows of 4 elements; the first and the last index select the same row
	rows := shaped(list[int64](3, 2), 0, 1, 1, -1, 0, 1)
	within := shaped(list[int64](2, 3, 1), 0, 2, 2, -1, 0, 1) // indices within each of two batches
	apart := shaped(list[int64](2, 2), 0, 1, 1, -1)
	places := shaped(list[int64](2, 1, 4), 0, 1, 2, -1, 2, 1, 0, 0)
	both := func(kind string, updates []int64, indices func(*function) string, reduction string) []ruleCase {
		attribute := list(text("reduction", reduction))
		if kind == "ScatterElements" {
			attribute = append(attribute, integer("axis", 1))
		}
		name := kind + " " + reduction
		return []ruleCase{
			{name: name, shape: box, build: func(f *function) string {
				return f.op(kind, in("x", indices(f), f.weights(-1, 1, updates...)), attribute...)
			}},
			{name: name + ", updates", shape: updates, build: func(f *function) string {
				return f.op(kind, in(f.weights(-1, 1, box...), indices(f), "x"), attribute...)
			}},
		}
	}
	all := []ruleCase{
		{name: "ReduceProd with zeros", shape: list[int64](4, 3), build: func(f *function) string {
			kept := f.floats(list[int64](4, 3), 1, 1, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1)
			return f.op("ReduceProd", in(f.op("Mul", in("x", kept)), f.ints(1)), integer("keepdims", 0))
		}},
		{name: "indices from the data", shape: box, build: func(f *function) string {
			return f.op("GatherElements", in("x", f.op("ArgMax", in("x"), integer("axis", 1))), integer("axis", 1))
		}},
	}
	for _, opset := range list[int64](13, 20) {
		set := map[int64]string{13: " in set 13"}[opset]
		all = append(all,
			ruleCase{name: "GatherElements" + set, opset: opset, shape: box, build: constantSecond("GatherElements", elements, integer("axis", 1))},
			ruleCase{name: "GatherND" + set, opset: opset, shape: box, build: constantSecond("GatherND", rows)},
			ruleCase{name: "GatherND in batches" + set, opset: opset, shape: box, build: constantSecond("GatherND", within, integer("batch_dims", 1))})
	}
	for _, reduction := range list("none", "add") {
		all = append(all, both("ScatterND", list[int64](2, 4), apart, reduction)...)
	}
	all = append(all, both("ScatterElements", list[int64](2, 1, 4), places, "none")...)
	return append(all, both("ScatterElements", list[int64](2, 2, 4), elements, "add")...)
}
