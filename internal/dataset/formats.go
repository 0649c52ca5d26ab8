package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/param"
)

// format is a file format, recognised by the suffix of the name.
type format struct {
	suffixes  []string
	open      func(ctx context.Context, path string, opt Options) (*Dataset, error)
	ownLabels bool // the files hold their labels, so Options.Labels is refused
}

// The function 'formats' returns the formats that Open recognises by the name of the file. Open refuses files whose
// suffix is listed in 'remedies'. If any other file begins like a pickle, Open reads it as a pickle, otherwise as IDX.
func formats() []format {
	return []format{
		{[]string{".csv", ".csv.gz", ".tsv", ".tsv.gz"}, openCSV, false},
		{[]string{".bin"}, openCIFAR, true},
		{[]string{".npz"}, openNPZ, false},
		{[]string{".npy"}, openNPY, false},
		{[]string{".parquet"}, openParquet, true},
		{[]string{".tar"}, openTar, true},
	}
}

// A remedy tells the user how to convert a format that is not supported.
type remedy struct {
	suffixes []string
	magic    string // first bytes of files of this format, or "" if rscert looks only at the suffix
	text     param.Text
}

var remedies = []remedy{
	{[]string{".pt", ".pth", ".ckpt", ".t7"}, "", param.Textf(`a PyTorch file, which is a program; save the tensors in Python: numpy.savez("data.npz", x=x.numpy(), y=y.numpy())`)},
	{[]string{".pkl", ".pickle", ".joblib"}, pickleMagic, param.Textf(notPickle)},
	{[]string{".h5", ".hdf5", ".keras"}, "\x89HDF", param.Textf(`HDF5; in Python: f = h5py.File(FILE); numpy.savez("data.npz", x=f["x"][:], y=f["y"][:])`)},
	{[]string{".mat"}, "MATLAB", param.Textf(`a MATLAB file; in Python: m = scipy.io.loadmat(FILE); numpy.savez("data.npz", x=m["x"], y=m["y"].ravel())`)},
	{[]string{".tfrecord", ".tfrecords"}, "", param.Textf(`TFRecord; in Python: tensorflow_datasets.as_numpy gives arrays for numpy.savez("data.npz", x=x, y=y)`)},
	{[]string{".arrow", ".feather"}, "ARROW1", param.Textf(`Arrow; in Python: datasets.load_from_disk(FOLDER).to_parquet("data.parquet")`)},
	{[]string{".json", ".jsonl", ".ndjson"}, "", param.Textf(`JSON; in Python: pandas.read_json(FILE).to_csv("data.csv", index=False)`)},
	{[]string{".xlsx", ".xls", ".ods"}, "", param.Textf("a spreadsheet; save it as CSV")},
	{[]string{".arff"}, "", param.Textf("ARFF; save it as CSV")},
	{[]string{".libsvm", ".svm", ".svmlight"}, "", param.Textf(`svmlight; in Python: x, y = sklearn.datasets.load_svmlight_file(FILE); numpy.savez("data.npz", x=x.toarray(), y=y)`)},
	{[]string{".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".parquet.gz", ".npz.gz", ".npy.gz", ".bin.gz"}, "", param.Textf("a packed archive; unpack it first and give the folder")},
	{[]string{".zip", ".7z", ".rar"}, "PK\x03\x04", param.Textf("a packed archive; unpack it first and give the folder")},
	{[]string{".mdb", ".lmdb"}, "", param.Textf("LMDB; export the images into a folder for each class")},
	{[]string{".beton", ".rec", ".mds"}, "", param.Textf("made for one training library; export the images into a folder for each class, or arrays by numpy.savez")},
	{[]string{".safetensors"}, "", param.Textf(`safetensors; in Python: t = safetensors.numpy.load_file(FILE); numpy.savez("data.npz", x=t["x"], y=t["y"])`)},
	{[]string{".onnx"}, "", param.Textf("a model; %s takes the examples", param.Data)},
	{[]string{".zarr", ".zarray", ".zgroup", "zarr.json"}, "", param.Textf(`Zarr; in Python: g = zarr.open(FOLDER); numpy.savez("data.npz", x=g["x"][:], y=g["y"][:])`)},
	{[]string{".nc", ".nc4", ".cdf"}, "CDF", param.Textf(`NetCDF; in Python: d = xarray.open_dataset(FILE); numpy.savez("data.npz", x=d["x"].values, y=d["y"].values)`)},
	{[]string{".nii", ".nii.gz", ".dcm", ".mha", ".nrrd"}, "", param.Textf(`medical images; in Python (nibabel, pydicom) make an array [N,C,H,W] of what the model gets: numpy.savez("data.npz", x=x, y=y)`)},
	{[]string{".mp4", ".avi", ".mov", ".mkv", ".webm", ".wav", ".mp3", ".flac", ".ogg"}, "", param.Textf(`films and sounds are not read; save the arrays that the model gets: numpy.savez("data.npz", x=x, y=y)`)},
	{[]string{".txt", ".dat", ".data"}, "", param.Textf("text; if it is a table, call it .csv (fields separated by commas, semicolons) or .tsv (tabs)")},
	{[]string{".gif", ".tif", ".tiff", ".heic", ".avif", ".jp2", ".ppm", ".pgm"}, "", param.Textf("images of a format that is not read; convert them to PNG, in a folder for each class")},
	{[]string{".png", ".jpg", ".jpeg", ".bmp", ".webp"}, "", param.Textf("one image; give a folder with a subfolder of images for each class, or a folder of images and %s FILE, or %s none", param.Labels, param.Labels)},
}

func open(ctx context.Context, path string, dir bool, opt Options) (*Dataset, error) {
	if dir {
		return openFolder(ctx, path, opt)
	}
	name := strings.ToLower(filepath.Base(path))
	for _, f := range formats() {
		if !hasSuffix(name, f.suffixes) {
			continue
		}
		if f.ownLabels && opt.Labels != "" && !opt.unlabelled() {
			return nil, ownLabels(path, opt)
		}
		return f.open(ctx, path, opt)
	}
	for _, r := range remedies {
		if hasSuffix(name, r.suffixes) {
			return nil, r.error(path)
		}
	}
	if isPickle(path) {
		if opt.Labels != "" && !opt.unlabelled() {
			return nil, ownLabels(path, opt)
		}
		return openPickle(ctx, path, opt)
	}
	d, err := openIDX(ctx, path, opt)
	if err != nil {
		if r := remedyByMagic(path); r != nil {
			return nil, r.error(path)
		}
	}
	return d, err
}

// ownLabels returns the error for the case that the user gives Options.Labels, but the file holds its own labels.
func ownLabels(path string, opt Options) error {
	return fmt.Errorf("%s: holds its own labels, so %s has no use", path, opt.Labels)
}

func hasSuffix(name string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// The method 'error' returns the error for a file or folder whose format is not supported. The error contains the
// remedy's text.
func (r *remedy) error(path string) error {
	return param.Errorf("%s: not read by rscert: %s", path, r.text)
}

func remedyByMagic(path string) *remedy {
	f, _, err := openRegular(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 8)
	n, _ := io.ReadFull(f, head)
	for _, r := range remedies {
		if r.magic != "" && bytes.HasPrefix(head[:n], []byte(r.magic)) {
			return &r
		}
	}
	return nil
}

// openFolder finds the data in a folder, or in the subfolders that torchvision and the published archives create.
func openFolder(ctx context.Context, path string, opt Options) (*Dataset, error) {
	for _, sub := range []string{"", "raw", "MNIST/raw", "FashionMNIST/raw"} {
		dir := filepath.Join(path, filepath.FromSlash(sub))
		file, err := idxImagesIn(dir)
		if err != nil {
			return nil, err
		}
		if file != "" {
			return openIDX(ctx, file, opt)
		}
	}
	if file, err := cifarIn(path); err != nil {
		return nil, err
	} else if file != "" {
		return open(ctx, file, false, opt)
	}
	for _, pair := range arrayNames {
		if file := filepath.Join(path, pair[0]+".npy"); exists(file) {
			return openNPY(ctx, file, opt)
		}
	}
	if d, err := openArchives(ctx, path, opt); d != nil || err != nil {
		return d, err
	}
	d, err := openImages(ctx, path, opt)
	if err != nil {
		if r := remedyInFolder(path); r != nil {
			return nil, r.error(path)
		}
	}
	return d, err
}

// openArchives opens the Parquet files or tar archives in a folder. It returns nil if there are none.
func openArchives(ctx context.Context, path string, opt Options) (*Dataset, error) {
	for _, suffix := range []string{".parquet", ".tar"} {
		files, err := splitIn(path, suffix)
		switch {
		case err != nil:
			return nil, err
		case len(files) == 0:
			continue
		case opt.Labels != "" && !opt.unlabelled():
			return nil, fmt.Errorf("%s: hold their own labels, so %s has no use", files[0], opt.Labels)
		case suffix == ".tar":
			return openTars(ctx, files, opt)
		}
		return openParquets(ctx, files, opt)
	}
	return nil, nil
}

// cifarIn looks for CIFAR's test batch, in its binary or Python version. It looks in a folder and in the subfolders
// that torchvision creates there. It returns the path of the batch, or "" if there is none.
func cifarIn(path string) (string, error) {
	for _, sub := range []string{"", "cifar-10-batches-bin", "cifar-100-binary", "cifar-10-batches-py", "cifar-100-python"} {
		for _, name := range []string{"test_batch.bin", "test.bin", "test_batch", "test"} {
			file := filepath.Join(path, sub, name)
			if exists(file) && (strings.HasSuffix(name, ".bin") || isPickle(file)) {
				return file, nil
			}
		}
	}
	for _, name := range []string{"data_batch_1.bin", "data_batch_1"} {
		if exists(filepath.Join(path, name)) {
			return "", fmt.Errorf("%s: has CIFAR-10 training batches but no %s; name the batch to read", path, strings.Replace(name, "data_batch_1", "test_batch", 1))
		}
	}
	return "", nil
}

// remedyInFolder goes through the files of a folder. It returns the remedy for the first file that needs one, or nil if
// no file needs one.
func remedyInFolder(dir string) *remedy {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		// Of the JSON files, only zarr.json shows the format of the data. Any folder may hold other JSON files.
		if e.IsDir() || strings.HasSuffix(name, ".json") && name != "zarr.json" {
			continue
		}
		for _, r := range remedies {
			// A single image must be converted, but images in a folder need no conversion.
			if hasSuffix(name, r.suffixes) && !slices.Contains(r.suffixes, ".png") {
				return &r
			}
		}
		if r := remedyByMagic(filepath.Join(dir, e.Name())); r != nil {
			return r
		}
	}
	return nil
}

// splitIn returns the files of one split in a folder or in its subfolder "data". It prefers the split "test". If there
// is none, it takes "validation", "val" or "valid". If there is none of these either, it takes the only split, and
// returns an error if there are several. The split of a file is the part of its name before the first "-", "_" or ".".
// For example, test-00000-of-00003.parquet (Hugging Face) belongs to the split "test".
func splitIn(dir, suffix string) ([]string, error) {
	var all []string
	for _, sub := range []string{dir, filepath.Join(dir, "data")} {
		entries, err := os.ReadDir(sub)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil && sub == dir {
			return nil, fileError(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(strings.ToLower(e.Name()), suffix) && !strings.HasPrefix(e.Name(), ".") {
				all = append(all, filepath.Join(sub, e.Name()))
			}
		}
		if len(all) > 0 {
			break
		}
	}
	splits := map[string][]string{}
	for _, file := range all {
		base := filepath.Base(file)
		split := strings.ToLower(base[:strings.IndexAny(base+".", "-_.")])
		splits[split] = append(splits[split], file)
	}
	for _, want := range []string{"test", "validation", "val", "valid"} {
		if len(splits[want]) > 0 {
			return splits[want], nil
		}
	}
	if len(splits) > 1 {
		return nil, fmt.Errorf("%s: several splits (%s…), none of them test or validation; name the file to read", dir, all[0])
	}
	return all, nil
}

func exists(file string) bool {
	info, err := os.Stat(file)
	return err == nil && !info.IsDir()
}
