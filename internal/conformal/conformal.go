// Package conformal computes prediction sets that contain the true class with a stated probability, also under attack.
// It computes sets, and statistics such as coverage, from scores and counts. It reads no files and runs no model.
//
// A score s(u, y) says how well the class y conforms to the noisy input u. For a query x′, m′ noisy copies of x′ are
// drawn. The set of the query includes the class y if at least t′ of the m′ scores s(u, y) are at least the threshold
// τ̂. Calibration draws m noisy copies of each of n clean examples and counts how many of the m scores of the true
// class reach a threshold. These counts are exchangeable, so the guarantee needs no confidence interval and no union
// bound over the examples.
//
// # Theorem
//
// Let p_τ(x, y) be the probability that a noisy score reaches τ. An attack of the given radius can lower a probability
// p. Let g(p) be the lowest value that p can then have. For Gaussian noise and ρ = radius/σ, g(p) = Φ(Φ⁻¹(p) − ρ). Let
// H(p) = P(Bin(m′, p) ≥ t′), and let the weights w(0) ≤ … ≤ w(m) satisfy
//
//	B_w(p) = Σ_k w(k)·P(Bin(m, p) = k) ≤ H(g(p))  for all p in [0, 1].
//
// Let N_i(τ) be the number of the m scores of example i that are at least τ, and let
//
//	τ̂ = max{τ: Σ_i (1 − w(N_i(τ))) + 1 − w(0) ≤ (n+1)a},
//
// or −∞ if there is no such τ. The theorem says P(Y ∈ C(X′)) ≥ 1 − a, where X′ is the attacked query, Y is its true
// class and C(X′) is its set. It assumes that the n examples and the query are exchangeable before the attack, and that
// the attack does not know the noise of the query. Proof: Let example n+1 be the query before the attack. Conformal
// risk control (Angelopoulos et al. 2024) for the loss 1 − w(N) gives E w(N_{n+1}(τ̂)) ≥ 1 − a. Given everything except
// the noise of example n+1, the mean of w(N_{n+1}(τ̂)) is B_w(p) ≤ H(g(p)) ≤ H(p′). Here p and p′ are the probabilities
// that a noisy score of Y reaches τ̂ before and under the attack. H(p′) is the probability that the attacked query's
// set contains Y.
//
// # Use
//
//   - Params describes the wanted sets. NewDesign chooses the numbers m, m′ and t′, and either t or the weights. For
//     the rules Count, Weights and RCP1, it proves that these numbers and weights satisfy the condition of the theorem.
//     (The rule BinCP chooses t and t′ at the calibration.) NewDesign uses no data.
//   - Design.Calibrator takes the scores of the calibration examples and returns a Predictor.
//   - Predictor.Decide and Predictor.Set turn the counts of a query into a set.
//   - Evaluator computes coverage and sizes of the sets of queries whose labels are known.
package conformal
