// Package calib measures calibration, how well a classifier's confidences agree with how often it is right, and bounds
// it: from finite data, and under attack. It takes slices and returns values. Rounding keeps every bound true.
//
// # Metrics
//
// TopLabel and ClassOne make Predictions from probabilities and labels. EqualWidth and EqualCount sort these into bins.
//
//   - ECE, MCE and DebiasedL2 are the expected, the largest and the debiased L2 calibration error of bins, ClasswiseECE
//     the mean over classes; SmoothECE needs no bins;
//   - Predictions.TopLabelBrier, MulticlassBrier and NLL are proper scores, DecomposeBrier their parts;
//   - Ranked has AUROC, average precision and the isotonic fit;
//   - AccuracyEstimate, ECEEstimate, MCEEstimate, ClasswiseEstimate, BrierEstimate and NLLEstimate add a confidence
//     interval, whose method says how far it can be trusted;
//   - CalibrationTest and Spiegelhalter test whether the predictions are calibrated.
//
// FitTemperature scales logits by one temperature.
//
// # Bounds on the calibration error
//
// CE = E|s − η(s)|, η(s) = P(y = 1 | s), of a binary classifier with score s and label y is bounded from a Sample of
// n pairs. No upper bound exists without an assumption; BoundMethods lists the methods with theirs:
//
//   - η has bounded total variation (1 if it is monotone): BinnedVariation, TotalVariation;
//   - the scores were perturbed by Sech, which makes η smooth: BinnedLipschitz, NadarayaWatson, Lipschitz.
//
// BettingLower bounds CE from below without an assumption. Curve bounds η in bins, EstimateError estimates CE.
//
// # Calibration under attack
//
// A Bounded prediction has a confidence that an attack can move within an interval. Over all confidences in the
// intervals, CCE is the largest expected calibration error, CBS the largest Brier score, and LargestGap bounds the
// calibration error for every choice of bins. BoundRows reads such intervals from the columns of a table, by radius.
// StateForAll turns bounds that need every interval to hold into a Statement about the whole dataset, whichever
// intervals fail. Thresholded bounds the error of a classifier that answers only when it is confident; RobustTestError
// estimates it from attacks at hand.
//
// docs/metrics.md, docs/calibration-error.md and docs/calibration-under-attack.md show these functions at work.
package calib
