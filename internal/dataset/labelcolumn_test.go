package dataset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/param"
)

// TestLabelColumn finds the labels in common kinds of tables, and checks that unclear tables are refused.
func TestLabelColumn(t *testing.T) {
	names := "cat\ndog\n"
	for name, c := range map[string]struct {
		file, text string
		opt        Options
		labels     []int
		first      []float32 // values of the first row
		want       string    // part of the error
	}{
		"named last":         {text: "p0,p1,label\n0,255,7\n0,3,1\n", labels: []int{7, 1}, first: []float32{0, 1}},
		"named between":      {text: "a,Target,b\n0.5,7,2\n0.5,1,3\n", labels: []int{7, 1}, first: []float32{.5, 2}},
		"numbers and label":  {text: "0,1,label\n0.5,2,7\n0.5,3,1\n", labels: []int{7, 1}, first: []float32{.5, 2}},
		"two names":          {text: "class,label,a\n0,1,2\n", want: "line 1: columns \"class\" and \"label\" may both be the labels; choose by label-column NAME"},
		"two names settled":  {text: "class,label,a\n0,1,.5\n", opt: Options{LabelColumn: "label"}, labels: []int{1}, first: []float32{0, .5}},
		"first":              {text: "7,0.5,2.5\n1,0.5,3.5\n", labels: []int{7, 1}, first: []float32{.5, 2.5}},
		"first, bytes":       {text: "7,0,255,200\n1,9,4,20\n", labels: []int{7, 1}, first: []float32{0, 1, 200. / 255}},
		"last, floats":       {text: "0.5,2.5,7\n0.5,3.5,1\n", want: "line 1: label \"0.5\" is not an integer; the last column looks like the labels; say which by label-column"},
		"last, settled":      {text: "0.5,2.5,7\n0.5,3.5,1\n", opt: Options{LabelColumn: "last"}, labels: []int{7, 1}, first: []float32{.5, 2.5}},
		"last by index":      {text: "0.5,2.5,7\n0.5,3.5,1\n", opt: Options{LabelColumn: "2"}, labels: []int{7, 1}, first: []float32{.5, 2.5}},
		"last, dark pixels":  {text: "0,9,7\n0,8,1\n0,7,4\n", want: "the first and the last column both look like labels"},
		"last, pixels":       {text: "211,9,7\n34,8,1\n98,7,4\n", want: "the first and the last column both look like labels"},
		"last, binary":       {text: "0,9,2\n1,8,0\n0,7,1\n", want: "the first and the last column both look like labels"},
		"counting":           {text: "0,.5,7\n1,.5,1\n2,.5,4\n3,.5,4\n4,.5,4\n5,.5,4\n6,.5,4\n7,.5,4\n8,.5,4\n9,.5,4\n10,.5,4\n", want: "the first column counts the rows"},
		"one of each class":  {text: "0,.5,.7\n1,.5,.1\n2,.5,.4\n", labels: []int{0, 1, 2}, first: []float32{.5, .7}},
		"no such name":       {text: "a,b\n1,2\n", opt: Options{LabelColumn: "c"}, want: "no column has this name"},
		"no such index":      {text: "1,2\n", opt: Options{LabelColumn: "2"}, want: "the columns are 0 to 1"},
		"name, no header":    {text: "1,2\n", opt: Options{LabelColumn: "label"}, want: "the first line is no header"},
		"pandas index":       {text: ",a,label\n0,.5,7\n1,.25,1\n", labels: []int{7, 1}, first: []float32{.5}},
		"pandas again":       {text: "Unnamed: 0,label,a\n1,7,.5\n2,1,.25\n", labels: []int{7, 1}, first: []float32{.5}},
		"numbered, last":     {text: "pixel0,pixel1,pixel2,digit\n0,3,200,7\n1,4,9,2\n", labels: []int{7, 2}, first: []float32{0, 3. / 255, 200. / 255}},
		"numbered, first":    {text: "digit,x1,x2,x10\n7,3,9,4\n2,4,9,1\n", labels: []int{7, 2}, first: []float32{3. / 255, 9. / 255, 4. / 255}},
		"numbered, none":     {text: "pixel0,pixel1,pixel2\n0,3,7\n1,4,2\n", want: "\"pixel0\" and \"pixel2\" are not names of labels; label-column NAME"},
		"numbered, index":    {text: "id,pixel0,pixel1,pixel2\n0,3,7,1\n1,4,2,1\n", want: "\"id\" and \"pixel2\" are not names of labels"},
		"numbered, chosen":   {text: "pixel0,pixel1,pixel2\n0,3,7\n1,4,2\n", opt: Options{LabelColumn: "last"}, labels: []int{7, 2}, first: []float32{0, 3. / 255}},
		"index, no label":    {text: ",a,b\n0,.5,7\n1,.25,1\n", want: "no column is called label, class, target or y"},
		"shuffled index":     {text: ",a,label\n5,.5,7\n1,.25,1\n", want: "line 2: column \"\" seems to be an index"},
		"shuffled id":        {text: "id,a,label\n5,.5,7\n1,.25,1\n", want: "column \"id\" seems to be an index"},
		"names":              {text: "label,a\ndog,.5\ncat,.25\n", want: "line 2: label \"dog\" is not a number; if labels are names, class-names FILE"},
		"names settled":      {text: "label,a\ndog,.5\ncat,.25\n", opt: Options{ClassNames: names}, labels: []int{1, 0}, first: []float32{.5}},
		"names, no header":   {text: "dog,.5\ncat,.25\n", opt: Options{ClassNames: names}, labels: []int{1, 0}, first: []float32{.5}},
		"an unknown name":    {text: "label,a\ndog,.5\ncow,.25\n", opt: Options{ClassNames: names}, want: "line 3: label \"cow\" is not among the 2 class names"},
		"numbers, names":     {text: "label,a\n1,.5\n0,.25\n", opt: Options{ClassNames: names}, labels: []int{1, 0}, first: []float32{.5}},
		"last, names":        {text: "1,dog\n2,cat\n", opt: Options{ClassNames: names}, want: "the last column holds names, and the first column holds numbers"},
		"one-hot":            {text: "a,label_0,label_1\n.5,0,1\n.25,1,0\n", labels: []int{1, 0}, first: []float32{.5}},
		"one-hot, two":       {text: "a,y_0,y_1\n.5,1,1\n", want: "line 2: a one-hot label has one 1 among zeros"},
		"one-hot, none":      {text: "a,y_0,y_1\n.5,0,0\n", want: "this label is all zeros"},
		"from 1":             {text: "label,a\n2,.5\n1,.25\n", opt: Options{FirstLabel: 1}, labels: []int{1, 0}, first: []float32{.5}},
		"from 1, but 0":      {text: "label,a\n2,.5\n0,.25\n", opt: Options{FirstLabel: 1}, want: "line 3: label 0, but first-label is 1"},
		"semicolons":         {text: "a;b;label\n0.5;2;7\n", labels: []int{7}, first: []float32{.5, 2}},
		"decimal commas":     {text: "a;b;label\n0,5;2;7\n", want: "write decimal points, not commas"},
		"tabs":               {file: "d.tsv", text: "a\tb\tlabel\n0.5\t2\t7\n", labels: []int{7}, first: []float32{.5, 2}},
		"tab, value missing": {file: "d.tsv", text: "a\tb\tlabel\n\t2\t7\n", want: "line 2, column 1: \"\" is not a finite number; the value is missing"},
		"spaces":             {text: "7 0.5 2\n", want: "fields separated by spaces"},
		"names are numbers":  {text: "0,1,2,3,4,5,6,7\n.5,1,2,3,4,5,6,7\n", want: "line 2: label \".5\""},
		"names or a row":     {text: "0,1,2\n.5,1,2\n", want: "may be the columns' names or an example"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.file == "" {
				c.file = "d.csv"
			}
			if c.opt.ClassNames != "" {
				c.opt.ClassNames = write(t, filepath.Join(dir, "names.txt"), []byte(c.opt.ClassNames))
			}
			d := openWanted(t, write(t, filepath.Join(dir, c.file), []byte(c.text)), c.opt, c.want)
			if d == nil {
				return
			}
			values, labels := rows(t, d)
			if !slices.Equal(labels, c.labels) || !slices.Equal(values[0], c.first) {
				t.Errorf("labels %v, values %v, want %v, %v", labels, values[0], c.labels, c.first)
			}
		})
	}
}

// TestColumns checks that the method Columns returns the names of the columns that hold values. It must omit the
// columns of labels and indices.
func TestColumns(t *testing.T) {
	for text, want := range map[string][]string{
		"a,Target, b \n0.5,7,2\n0.5,1,3\n":             {"a", "b"},
		",a,label\n0,.5,7\n1,.25,1\n":                  {"a"},
		"b,a,label_0,label_1\n.5,.5,0,1\n.25,.5,1,0\n": {"b", "a"},
		"7,0.5,2.5\n1,0.5,3.5\n":                       nil,
	} {
		path := filepath.Join(t.TempDir(), "a.csv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := Open(context.Background(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Columns(); !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q: columns %q, want %q", text, got, want)
		}
	}
}

// TestLabelsApart opens a table and takes its labels from a separate file.
func TestLabelsApart(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "d.csv"), []byte("0.5,1\n0.25,2\n"))
	if mustOpen(t, write(t, filepath.Join(dir, "mixed.csv"), []byte("label,a\n1,.5\n0,.5\n1,.5\n"))).SortedByLabel() {
		t.Error("classes that alternate are said to stand one after the other")
	}
	y := write(t, filepath.Join(dir, "labels.npy"), npyFile("|u1", "2,", []byte{3, 4}))
	d, err := Open(context.Background(), path, Options{LabelColumn: "none", Labels: y})
	if err != nil {
		t.Fatal(err)
	}
	values, labels := rows(t, d)
	if !slices.Equal(labels, []int{3, 4}) || !slices.Equal(values[1], []float32{.25, 2}) {
		t.Errorf("labels %v, values %v", labels, values[1])
	}
	for _, opt := range []Options{{LabelColumn: "none"}, {Labels: y}, {FirstLabel: 2}} {
		if _, err := Open(context.Background(), path, opt); err == nil {
			t.Errorf("%+v is accepted", opt)
		}
	}
}

// TestLabelsFromOne checks data whose labels run from 1 to the number of classes. The method CheckLabels must refuse
// these labels. The method Warnings must return a warning about them, although it does not know the number of classes.
// The error and the warning must name the parameter for the first label as the command line spells it.
func TestLabelsFromOne(t *testing.T) {
	flag := func(n param.Name) string { return "--" + string(n) }
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "d.csv"), []byte("label,a\n2,.5\n1,.25\n"))
	d := mustOpen(t, path)
	if err := d.CheckLabels(2); err == nil || !strings.Contains(param.Spell(err, flag), "--first-label 1") {
		t.Errorf("error %v", err)
	}
	if w := d.Warnings(); len(w) != 1 || !strings.Contains(w[0].Text.Spell(flag), "--first-label 1") {
		t.Errorf("warnings %v", w)
	}
}

// TestClassNames parses the common forms of lists of names.
func TestClassNames(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		find  map[string]int
		count int
		want  string
	}{
		"lines":          {text: "cat\r\ndog\r\n", find: map[string]int{"cat": 0, " dog": 1, "cow": -1}, count: 2},
		"synsets":        {text: "n01440764 tench, Tinca tinca\nn01443537 goldfish\n", find: map[string]int{"n01440764": 0, "n01443537": 1, "goldfish": 1}, count: 2},
		"only synsets":   {text: "n01443537\nn01440764\n", find: map[string]int{"n01440764": 1}, count: 2},
		"keras":          {text: `{"1": ["n2", "crane"], "0": ["n1", "crane"], "2": ["n3", "owl"]}`, find: map[string]int{"n1": 0, "n2": 1, "crane": -1, "owl": 2}, count: 3},
		"transformers":   {text: `{"0": "cat", "1": "dog"}`, find: map[string]int{"dog": 1}, count: 2},
		"list":           {text: `["cat", "dog"]`, find: map[string]int{"dog": 1}, count: 2},
		"gap":            {text: "cat\n\ndog\n", want: "line 2: empty"},
		"twice":          {text: "cat\ndog\ncat\n", want: `classes 0 and 2 are both "cat"`},
		"one":            {text: "cat\n", want: "fewer than 2"},
		"missing":        {text: `{"0": "cat", "2": "dog"}`, want: `lacks "1"`},
		"not names":      {text: `["cat", 7]`, want: "class 1: \"7\" is neither"},
		"not quite":      {text: `["cat",`, want: "not a JSON list"},
		"by names":       {text: `{"cat": 0, "dog": 1}`, want: `lacks "0"`},
		"marked as text": {text: "\ufeffcat\ndog", find: map[string]int{"cat": 0}, count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := readClassNames(write(t, filepath.Join(t.TempDir(), "names"), []byte(c.text)))
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %s", err, c.want)
				}
				return
			}
			if err != nil || names.count != c.count || len(names.sum) != 64 {
				t.Fatalf("%v, %v", names, err)
			}
			for name, want := range c.find {
				if got, err := names.label(name); (err != nil) != (want < 0) || err == nil && got != want {
					t.Errorf("%s is %d, %v, want %d", name, got, err, want)
				}
			}
		})
	}
}

// TestClassFolders checks which label each class folder gets, without and with a file of class names. Without this
// file, CheckLabels must return an error if the model has more classes than there are folders.
func TestClassFolders(t *testing.T) {
	dir := t.TempDir()
	png := testFile(t, "images/ant/b.png")
	for k, class := range []string{"class2", "class10"} {
		write(t, filepath.Join(dir, "d", class, fmt.Sprintf("%d.png", k)), png)
	}
	d := mustOpen(t, filepath.Join(dir, "d"))
	if err := d.CheckLabels(3); err == nil || !strings.Contains(err.Error(), "2 class folders, but the model has 3 classes") || !strings.Contains(err.Error(), "class-names") {
		t.Errorf("error %v", err)
	}
	if err := d.CheckLabels(2); err != nil {
		t.Error(err)
	}
	if w := d.Warnings(); len(w) != 1 || !strings.Contains(w[0].Text.Spell(param.Plain), "class10 is numbered before class2") {
		t.Errorf("warnings %v", w)
	}
	if !d.SortedByLabel() || !strings.Contains(d.Note(), "0 class10, 1 class2") {
		t.Errorf("note %q, sorted %v", d.Note(), d.SortedByLabel())
	}
	names := write(t, filepath.Join(dir, "names"), []byte("class1\nclass2\nclass10\n"))
	d, err := Open(context.Background(), filepath.Join(dir, "d"), Options{ClassNames: names})
	if err != nil {
		t.Fatal(err)
	}
	if _, labels := rows(t, d); !slices.Equal(labels, []int{2, 1}) || d.CheckLabels(3) != nil || d.CheckLabels(4) == nil {
		t.Errorf("labels %v, %v, %v", labels, d.CheckLabels(3), d.CheckLabels(4))
	}
	if !d.SortedByLabel() {
		t.Error("classes one after the other, in the order of their folders, are not said to be so")
	}
	if from, sum := d.ClassNames(); from != names || len(sum) != 64 {
		t.Errorf("names of %q, %q", from, sum)
	}
	names = write(t, filepath.Join(dir, "names"), []byte("class1\nclass2\n"))
	if _, err = Open(context.Background(), filepath.Join(dir, "d"), Options{ClassNames: names}); err == nil || !strings.Contains(err.Error(), `folder "class10" is not among`) {
		t.Errorf("error %v", err)
	}
}

// TestFlatFolder opens folders of images with a file of labels. This file is a table, or it has one label per line, as
// in ImageNet's validation data.
func TestFlatFolder(t *testing.T) {
	png := testFile(t, "images/ant/b.png")
	names := "n01440764 tench\nn01443537 goldfish\n"
	for name, c := range map[string]struct {
		text, names, column string
		labels              []int
		want                string
	}{
		"header":         {text: "filename,label\nb.png,4\na.png,1\n", labels: []int{4, 1}},
		"other columns":  {text: "width,class,image\n5,4,b.png\n7,1,x/a.png\n", labels: []int{4, 1}},
		"no header":      {text: "b.png,4\na.png,1\n", labels: []int{4, 1}},
		"no suffix":      {text: "ImageId,PredictionString\nb,n01440764 85 1 499 272\na,n01443537 1 2 3 4 n01443537 5 6 7 8\n", names: names, labels: []int{0, 1}},
		"lines":          {text: "n01443537\nn01440764\n", names: names, labels: []int{1, 0}},
		"lines, names":   {text: "n01443537\nn01440764\n", want: "line 1: label \"n01443537\" is not a number; if labels are names, class-names"},
		"column":         {text: "image,fine,coarse\na.png,5,1\nb.png,6,2\n", column: "fine", labels: []int{5, 6}},
		"devkit":         {text: "1000\n1\n", want: "development kit's"},
		"too few lines":  {text: "1\n", want: "1 labels for the 2 images"},
		"missing image":  {text: "filename,label\nc.png,1\n", want: "line 2: no image \"c.png\""},
		"twice":          {text: "filename,label\na.png,1\na.png,1\n", want: "line 3: image \"a.png\" appears twice"},
		"unnamed":        {text: "filename,label\na.png,1\n", want: "1 labels for the 2 images"},
		"no such column": {text: "a,b,c\na.png,1,2\n", want: "want a header with the columns filename and label"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "d/a.png"), png)
			write(t, filepath.Join(dir, "d/b.png"), png)
			opt := Options{Labels: write(t, filepath.Join(dir, "labels.csv"), []byte(c.text)), LabelColumn: c.column}
			if c.names != "" {
				opt.ClassNames = write(t, filepath.Join(dir, "names"), []byte(c.names))
			}
			d := openWanted(t, filepath.Join(dir, "d"), opt, c.want)
			if d == nil {
				return
			}
			if _, labels := rows(t, d); !slices.Equal(labels, c.labels) {
				t.Errorf("labels %v, want %v", labels, c.labels)
			}
		})
	}
}

// TestRemedies checks that errors on unknown formats say how to convert the file.
func TestRemedies(t *testing.T) {
	for name, want := range map[string]string{
		"data.pt": "numpy.savez", "data.h5": "h5py", "test.tar.gz": "unpack", "data.arrow": "to_parquet", "data.mat": "loadmat",
		"test.tfrecord": "tensorflow_datasets", "one.png": "one image", "data.txt": "call it .csv", "m.onnx": "a model", "sklearn": "pickle",
		"data.pth": "numpy.savez", "model.ckpt": "numpy.savez", "data.pkl": "numpy.savez", "data.joblib": "numpy.savez", "m.keras": "h5py",
		"data.safetensors": "safetensors.numpy", "a.nc": "xarray", "a.nii.gz": "nibabel", "a.dcm": "pydicom", "a.mp4": "arrays that the model gets",
		"a.wav": "arrays that the model gets", "a.gif": "convert them to PNG", "a.tiff": "convert them to PNG", "a.zip": "unpack", "a.npz.gz": "unpack",
		"a.jsonl": "pandas.read_json", "a.xlsx": "save it as CSV", "a.arff": "save it as CSV", "a.svmlight": "load_svmlight_file",
		"a.lmdb": "folder for each class", "a.beton": "folder for each class", "a.feather": "to_parquet",
	} {
		_, err := Open(context.Background(), write(t, filepath.Join(t.TempDir(), name), []byte("\x80\x02csklearn.svm\nSVC\n")), Options{})
		if err == nil || !strings.Contains(err.Error(), name+": not read by rscert: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
}

// TestFolderRemedies checks that errors on folders of unknown formats say how to convert the files.
func TestFolderRemedies(t *testing.T) {
	for name, c := range map[string]struct{ file, data, want string }{
		"saved":   {"data-00000-of-00001.arrow", "ARROW1", "to_parquet"},
		"joblib":  {"model", "\x80\x04\x95", "pickle"},
		"lmdb":    {"data.mdb", "", "LMDB"},
		"zarr":    {".zgroup", "{}", "zarr.open"},
		"records": {"test.tfrecord", "", "TFRecord"},
		"gifs":    {"a.gif", "GIF89a", "convert them to PNG"},
		"mixed":   {"notes.md", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			write(t, filepath.Join(dir, c.file), []byte(c.data))
			write(t, filepath.Join(dir, "dataset_info.json"), []byte("{}"))
			_, err := Open(context.Background(), dir, Options{})
			refused := err != nil && strings.Contains(err.Error(), name+": not read by rscert: ")
			if err == nil || refused != (c.want != "") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func testFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNotOtherColumns checks that notOtherColumns names all columns that sound like labels, except the given column.
func TestNotOtherColumns(t *testing.T) {
	header := []string{"label", "weight", "fine_label", "labelled", "y_true", "class-name", "yield"}
	for column, want := range map[int]string{0: ", not of fine_label, class-name", 2: ", not of label, class-name", 1: ", not of label, fine_label, class-name"} {
		if got := notOtherColumns(header, column); got != want {
			t.Errorf("column %d: %q, want %q", column, got, want)
		}
	}
	if got := notOtherColumns([]string{"a", "b", "label"}, 2); got != "" {
		t.Errorf("%q", got)
	}
}
