// Package calib measures and bounds calibration: how well a classifier's confidences agree with how often it is right.
// Some of its bounds hold for finite samples, not only asymptotically, and others hold under attack. Rounding errors
// never make a bound false.
//
// # Metrics
//
// TopLabel and ClassOne make Predictions from probabilities and labels. EqualWidth and EqualCount sort predictions into
// bins.
//
//   - ECE, MCE and DebiasedL2 compute the expected, the largest and the debiased L2 calibration error of bins.
//     ClasswiseECE computes the mean of the ECE over classes. SmoothECE needs no bins.
//   - Predictions.TopLabelBrier, MulticlassBrier and NLL are proper scores. DecomposeBrier splits a Brier score.
//   - The type Ranked computes AUROC, average precision and the isotonic fit.
//   - AccuracyEstimate, ECEEstimate, MCEEstimate, ClasswiseEstimate, BrierEstimate and NLLEstimate add a confidence
//     interval. The field Method of an Estimate says how far the interval can be trusted.
//   - CalibrationTest and Spiegelhalter test whether the predictions are calibrated.
//
// FitTemperature finds the temperature T that minimises the NLL of softmax(z/T) for logits z.
//
// # Bounds on the calibration error
//
// The calibration error of a binary classifier with score s and label y is CE = E|s − η(s)|, where η(s) = P(y = 1 | s).
// A Sample of n pairs (s, y) gives bounds on CE. Every upper bound needs an assumption. BoundMethods lists the methods
// with their assumptions:
//
//   - η has bounded total variation (at most 1 if η is monotone): BinnedVariation, TotalVariation;
//   - the scores were perturbed by Sech, which makes η smooth: BinnedLipschitz, NadarayaWatson, Lipschitz.
//
// The function BettingLower bounds CE from below without an assumption. For bins of neighbouring scores, the function
// Curve bounds the mean of η over the scores of the bin. EstimateError estimates CE.
//
// With importance weights, the bounds are about a population that differs from the population of the rows. KeepByWeight
// keeps rows at random so that the kept rows are a sample of that population. WeightedVariation and WeightedLower use
// all rows of a WeightedSample. EstimateRatios estimates weights. BoundPlan.ComputeGroups bounds the errors of several
// groups together, and WorstOfGroups bounds the error of every mixture of the groups. If the rows of a cluster depend
// on each other, Clusters.KeepOne keeps one row of each cluster, so that the kept rows are independent. LooksCopied and
// Suspicions find mistakes in the data.
//
// # Calibration under attack
//
// A Bounded prediction has a confidence that an attack can move within an interval. Over all confidences in the
// intervals, CCE computes the largest expected calibration error and CBS the largest Brier score. LargestGap bounds the
// calibration error for every choice of bins. The type BoundRows takes such intervals from the columns of a table and
// groups them by radius. StateForAll returns a Statement about the whole dataset. The Statement holds even if a few
// intervals fail. CCE, CBS and LargestGap need every interval to hold. The type Thresholded gives a bound on the error
// of a classifier that answers only when it is confident. RejectionPlan and RejectionCurve estimate this error from the
// classifier's answers under given attacks.
//
// docs/metrics.md, docs/calibration-error.md and docs/calibration-under-attack.md show the commands that use these
// functions.
package calib
