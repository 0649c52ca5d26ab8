package warning

import "github.com/rscert/rscert/internal/param"

// These are the codes. The table has an entry for each.
const (
	SuspectLayout Code = iota + 1
	SuspectScale
	SuspectLabels
	NearChance
	WeakUnderNoise
	FolderOrder
	ExifOrientation
	ScalesFromResults
	ModelOutputs
	ModelBatch
	ModelDevice
	OtherConditions
	NotFinite
	WorkOnHost
	CloseFailed
	ShardSeed
	FlagWithoutEffect
	RunUnfinished
	RunUnreadable
	RunTruncated
	RunUnbound
	DifferentExamples
	ChosenExamples
	FloatNoise
	LabelBounds
	FittedRows
	CopiedRows
	EstimatedWeights
	LabelMissing
	ScoresBackwards
	ScoresPercent
	LabelsSeparated
	PoorOverlap
	SetsOfAllClasses
	SetsUnlabelled
	AuditByScores
	ZeroGradients
	ScoresBetter
	RandomScores
	Probabilities
	FewClasses
	ExposedKey
	OpenToNetwork
	QueueSilent
)

// entry describes a code.
type entry struct {
	name, title string
	explanation param.Text
}

// table has the entry of each code.
var table = [...]entry{
	SuspectLayout: {"suspect-layout", "the values of the images may be in another order than the model's", param.Textf(
		"The model is right more often if the values of an image are read in the other order (chw: one channel after the other; "+
			"hwc: one pixel after the other). Give the order of the data by %s.", param.Layout)},
	SuspectScale: {"suspect-scale", "the values may have another scale than the model's inputs", param.Textf(
		"The values of the data do not look like values on which the model was trained: they may be bytes from 0 to 255, or they may "+
			"be normalised already. The certified radii are in the units of the data, so a wrong scale also makes the radii wrong. "+
			"Give the model's own normalisation by %s and %s, and data before normalisation.", param.Mean, param.Std)},
	SuspectLabels: {"suspect-labels", "the labels may not be numbered as the model's classes", param.Textf(
		"The labels do not match the classes of the model: they may count from 1, or the classes may be in another order. "+
			"Give the model's order by %s, or the number of the first label by %s.", param.ClassNames, param.FirstLabel)},
	NearChance: {"near-chance", "the model is hardly better than guessing", param.Textf(
		"Without noise, the model is right about as often as a guess. The preprocessing is probably not the one of the training. "+
			"Compare %s, %s, %s and %s with the training, and try a small run with another layout.",
		param.Mean, param.Std, param.Layout, param.ClassNames)},
	WeakUnderNoise: {"weak-under-noise", "the model loses most of its accuracy under noise", param.Textf(
		"Under noise of this size, the model is right less than half as often as without noise, so it can certify little. "+
			"Train the model under noise, take a smaller %s, or put a denoiser in front (%s).", param.Sigma, param.Denoiser)},
	FolderOrder: {"folder-order", "the order of class folders is ambiguous", param.Textf(
		"The labels of the images follow from the names of their folders, and programs differ in how they order names with numbers "+
			"(class2 and class10). Give the model's order by %s.", param.ClassNames)},
	ExifOrientation: {"exif-orientation", "some images are turned by their Exif orientation", param.Textf(
		"Some images say by a field Exif Orientation that viewers should turn them. rscert turns them upright. If the training did not " +
			"turn such images, the model sees other images than in the training. Remove the field from the files, or turn the images " +
			"in the files.")},
	ScalesFromResults: {"scales-from-results", "the scales of the noise come from the data to certify", param.Textf(
		"The file of %s is the file to certify, so the noise depends on the examples of the results. Name the training data instead.",
		param.ScaleData)},
	ModelOutputs: {"model-outputs", "rscert may have misunderstood the outputs of the model", param.Textf(
		"The model has several outputs that could be the scores, or it ends in another operation than %s says. "+
			"Name the output by %s, and its kind by %s.", param.Outputs, param.ScoresOutput, param.Outputs)},
	ModelBatch: {"model-batch", "the model runs in smaller calls than it could", param.Textf(
		"The scores of an input must not depend on other inputs of a call. rscert could not prove this for large calls, or the memory " +
			"is too small, so it uses smaller calls. The results hold, but the run is slower. The warning says which part of the model " +
			"is the reason: export the model without this part, and with a free batch dimension.")},
	ModelDevice: {"model-device", "a device is not used", param.Textf(
		"A device does not work, so the other devices or the CPU run the model. The results hold, but the run is slower. "+
			"'rscert doctor' says what each device lacks. Name the wanted device by %s, to get an error instead.", param.Device)},
	OtherConditions: {"other-conditions", "results come from different devices or libraries", param.Textf(
		"Devices and versions of ONNX Runtime round differently, so the same noise can give other votes where two classes are nearly "+
			"equal. A certificate holds for the classifier as it ran; a repeated run may differ in a few votes. Use the recorded device "+
			"and library (%s, %s) if you need the same votes.", param.Device, param.ONNXRuntime)},
	NotFinite: {"not-finite", "the model returned NaN or infinity", param.Textf(
		"Some outputs of the model are NaN or infinite. These votes count against every class, so the certificates hold, but they are "+
			"smaller. Find the operation that overflows; with %s f16, try f32.", param.Precision)},
	WorkOnHost: {"work-on-host", "the CPU does work that the device should do", param.Textf(
		"The device cannot make the noise or compute the gradients, so the CPU does. The results hold, but the run is slower. " +
			"The warning names the reason, for example an old operator set: export the model with a newer one.")},
	CloseFailed: {"close-failed", "ONNX Runtime failed after the work", param.Textf(
		"ONNX Runtime returned an error when rscert closed the model. The results were complete before. If it happens again, " +
			"'rscert doctor' tests the library.")},
	ShardSeed: {"shard-seed", "each shard draws its own seed", param.Textf(
		"A shard without %s draws its own seed, and shards with different seeds cannot be merged. Give all shards the same %s.",
		param.Seed, param.Seed)},
	FlagWithoutEffect: {"flag-without-effect", "a flag changes nothing here", param.Textf(
		"The flag has an effect only together with another flag, which is missing. Add the other flag, or remove this flag.")},
	RunUnfinished: {"run-unfinished", "examples of a run are missing", param.Textf(
		"The results are about the examples that the run has. The missing examples may be harder or easier. Repeat the command of the "+
			"run with %s, or merge all shards.", param.Resume)},
	RunUnreadable: {"run-unreadable", "a folder looks like a run but cannot be read", param.Textf(
		"The folder has files of a run that are damaged or of an unknown format. Read it with the version of rscert that wrote it, or " +
			"restore it from a copy.")},
	RunTruncated: {"run-truncated", "the last results of a run are cut off", param.Textf(
		"The program or the machine stopped while rscert wrote the last lines. rscert drops these examples and samples them again. " +
			"No action is needed.")},
	RunUnbound: {"run-unbound", "the lines of an old run do not name their run", param.Textf(
		"Runs of format 2 do not record in each line to which run it belongs, so rscert cannot notice lines that were copied from " +
			"another run. Check where the files come from, or certify again for the present format.")},
	ChosenExamples: {"chosen-examples", "another run selected the examples by its results", param.Textf(
		"The run certifies only examples on which another run abstained or failed (%s). Each certificate holds. But an accuracy or a "+
			"calibration error of these examples says nothing about the whole dataset. Read the run beside the other run (docs/only.md).",
		param.Only)},
	DifferentExamples: {"different-examples", "the compared runs have different examples", param.Textf(
		"An upper envelope is meaningful only over the same examples. Certify the same examples in all runs (%s, %s, %s).",
		param.Skip, param.Max, param.Select)},
	FloatNoise: {"float-noise", "the noise was added in floating-point numbers", param.Textf(
		"The noise of this run was not on a lattice, so its bounds assume arithmetic without rounding. "+
			"Certify with %s lattice for bounds that hold on a computer.", param.Noise)},
	LabelBounds: {"label-bounds", "the run certifies the label, not the prediction", param.Textf(
		"The run certified the class of the label, so wrong predictions have no bounds. Certify with %s predicted for bounds on all "+
			"predictions.", param.Class)},
	FittedRows: {"fitted-rows", "rows of the fit are among the rows of a metric", param.Textf(
		"A calibration map is too good on the rows on which it was fitted, so metrics on these rows mislead. Either the metrics are too " +
			"good, or rscert left these rows out; the warning says which. Use rows that the fit did not see.")},
	CopiedRows: {"copied-rows", "rows may be copies of each other", param.Textf(
		"Rows with equal scores have equal labels more often than chance explains. Bounds, intervals and tests need independent rows. " +
			"Remove copies, for example augmented images.")},
	EstimatedWeights: {"estimated-weights", "the weights are estimates", param.Textf(
		"'rscert weights' estimates weights from two files. The error of such weights cannot be bounded. The results are about the " +
			"population that these weights describe, which may differ from the target. 'rscert ce' can allow for wrong weights " +
			"by a factor.")},
	LabelMissing: {"label-missing", "a class has no row, or all rows have one class", param.Textf(
		"The labels may count from 1, the file may have a column of a class that does not exist, or the rows are sorted and some are cut off. " +
			"Check the column of the labels.")},
	ScoresBackwards: {"scores-backwards", "wrong answers have higher scores than right ones", param.Textf(
		"The AUROC is far below 0.5. The score is probably the probability of the other class: give 1 minus the score.")},
	ScoresPercent: {"scores-percent", "the scores may be percentages of small rates", param.Textf(
		"The mean score is about 100 times the share of class 1. If the scores are percentages, divide them by 100. " +
			"A model also has such scores if its training data had many more examples of class 1 than these rows.")},
	LabelsSeparated: {"labels-separated", "a calibration map was fitted on rows without an error", param.Textf(
		"The probabilities tell the labels of the fitted rows apart without error. The best map for such rows gives probabilities of 0 " +
			"and 1, and one wrong new row contradicts these. Check that the labels were not made from the scores. " +
			"Fit the map on more rows, and not on the training data of the model.")},
	PoorOverlap: {"poor-overlap", "few rows resemble the target population", param.Textf(
		"The mean of the weights should be 1, and the effective sample size should not be far below the number of rows. Otherwise the " +
			"target has examples that are rare or missing among the rows, and no weight can replace them. " +
			"Collect rows that resemble the target.")},
	SetsOfAllClasses: {"sets-of-all-classes", "every prediction set contains every class", param.Textf(
		"With so few calibration examples or draws, only the set of all classes has the stated coverage. Give more examples or more "+
			"draws (%s), or a larger %s.", param.CalibrationDraws, param.Miss)},
	SetsUnlabelled: {"sets-unlabelled", "some prediction sets have no label", param.Textf(
		"The coverage counts only sets with a label. If labels are missing where an example is hard, the coverage is too good. " +
			"Add the missing labels.")},
	AuditByScores: {"audit-by-scores", "the audit cannot use gradients", param.Textf(
		"The model has an operator whose gradient rscert does not know, so the audit searches by scores alone. It finds larger " +
			"perturbations, so it is less likely to find a wrong certificate. The warning names the operator.")},
	ZeroGradients: {"zero-gradients", "the attack met gradients that are zero", param.Textf(
		"Where the gradient is zero, an attack by gradients cannot move, and the robust accuracy looks too good. "+
			"Compare %s square, which uses no gradients.", param.Attack)},
	ScoresBetter: {"scores-better", "attacks without gradients are stronger than attacks by gradients", param.Textf(
		"An attack that uses only scores broke examples that attacks by gradients had left, so the gradients mislead. "+
			"Give %s square more queries (%s).", param.Attack, param.Steps)},
	RandomScores: {"random-scores", "the model gives other scores to the same input", param.Textf(
		"The attacks do not average over the randomness of the model, so the robust accuracy looks too good. " +
			"Export the model for inference, without dropout.")},
	Probabilities: {"probabilities", "the model returns probabilities to an attack by gradients", param.Textf(
		"The gradients of probabilities vanish where the model is sure, so the robust accuracy looks too good. " +
			"Export the model without its softmax.")},
	FewClasses: {"few-classes", "an attack needs more classes", param.Textf(
		"One attack of the preset needs more classes than the model has, so it is left out. The others run. "+
			"Choose a single attack by %s to avoid the warning.", param.Attack)},
	ExposedKey: {"exposed-key", "others can read the secret key", param.Textf(
		"The permissions of the key's file let other users read it, so they can sign in your name. " +
			"'chmod 600 FILE' keeps the key to you; make a new key if somebody may have copied it.")},
	OpenToNetwork: {"open-to-network", "the server accepts requests from the network", param.Textf(
		"The server listens on an address that other machines reach, without encryption or without a token. "+
			"Listen on 127.0.0.1, or give a certificate and a token; 'rscert serve %s' names the flags.", param.Help)},
	QueueSilent: {"queue-silent", "Slurm's queue does not answer", param.Textf(
		"rscert could not ask Slurm for the state of the jobs. It asks again, and gives up if Slurm stays silent. "+
			"The jobs continue; the same command with %s waits for them again.", param.Wait)},
}
