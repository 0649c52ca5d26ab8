#!/bin/sh
# Samples the bundled model and makes the tables of docs/; see 'make studies'. The seed is fixed, so that the tables can
# be made again. The model was chosen without regard to this seed. Runs that exist already are resumed.
set -eu

runs=${1:-out/studies}
rscert=${RSCERT:-bin/rscert}
mkdir -p "$runs"

sample() {
	out=$runs/$1
	shift
	"$rscert" certify --model testdata/mnist-cnn.onnx --data testdata/mnist --seed 1 --resume --out "$out" "$@" >"$out.txt"
}

# docs/bundled-model.md, docs/what-is-certified.md
sample bundled --sigma 0.5 --n 10000 --method clopper-pearson
sample bundled-float --sigma 0.5 --n 10000 --method clopper-pearson --noise float

# docs/scores.md, docs/confidence.md
sample scores --sigma 0.5 --n 1000 --save-scores

# docs/conformal.md
sample conformal --sigma 0.5 --n 512 --n0 0 --class label --save-scores

# attack_sets writes the scores of a model's data and of the data under two attacks, for studies/conformal. The arguments
# are the name of the runs, the model, the data, sigma, the settings of the attack, and which examples the data have.
attack_sets() {
	name=$1 model=$2 data=$3 sigma=$4 settings=$5 examples=$6
	for rho in 0.5 1; do
		eps=$(awk "BEGIN { print $sigma * $rho }")
		# shellcheck disable=SC2086 # settings and examples hold several words
		"$rscert" attack --model "$model" --data "$data" $examples --smoothed --sigma "$sigma" --eps "$eps" --keep all $settings \
			--n 100 --seed 2 --resume --out "$runs/$name-worst-$rho" >"$runs/$name-worst-$rho.txt"
		"$rscert" certify --model "$model" --data "$runs/$name-worst-$rho/worst.npz" --seed 3 --resume --sigma "$sigma" --n 512 \
			--n0 0 --class label --save-scores --out "$runs/$name-$rho" >"$runs/$name-$rho.txt"
	done
}
attack_sets conformal testdata/mnist-cnn.onnx testdata/mnist 0.5 '--steps 20 --restarts 2 --samples 64' ''

# The networks of 'make cifar-models'. Without them, the table of CIFAR-10 stays as it is.
cifar=${CIFAR:-${XDG_CACHE_HOME:-$HOME/.cache}/rscert/cifar}
if [ -e "$cifar/noise-0.25.onnx" ]; then
	examples='--skip 10 --max 500 --select first'
	# shellcheck disable=SC2086
	"$rscert" certify --model "$cifar/noise-0.25.onnx" --data "$cifar/test.npz" $examples --seed 1 --resume --sigma 0.25 --n 512 \
		--n0 0 --class label --save-scores --out "$runs/cifar" >"$runs/cifar.txt"
	attack_sets cifar "$cifar/noise-0.25.onnx" "$cifar/test.npz" 0.25 '--steps 10 --restarts 1 --samples 32' "$examples"
fi

# docs/votes.md
sample r05 --sigma 0.5 --max 100 --stop 'radius>=0.5'
sample r1 --sigma 0.5 --max 100 --stop 'radius>=1'
sample p02 --sigma 0.5 --max 100 --stop precision=0.2

# docs/calibration-under-attack.md
sample under-attack --sigma 0.5 --n 2000 --confidence-radii 0.25,0.5,0.75
sample digits --sigma 0.5 --n 500 --max 300 --save-scores --confidence-radii 0.25,0.5,0.75
sample acce-0.25 --sigma 0.25 --n 2000 --method betting --confidence-radii 0.05,0.1,0.2,0.3,0.4,0.5
sample acce-0.5 --sigma 0.5 --n 2000 --method betting --confidence-radii 0.1,0.25,0.5,0.75,1,1.25
sample acce-1 --sigma 1 --n 2000 --method betting --confidence-radii 0.1,0.25,0.5,0.75,1,1.25

sample full --sigma 0.5 --max 100

# docs/other-threats.md: runs under several laws of noise. The first argument is the run, the second the model.
sample_law() {
	out=$runs/$1 model=$2
	shift 2
	"$rscert" certify --model "testdata/$model.onnx" --data testdata/mnist --n 1000 --seed 1 --resume --out "$out" "$@" >"$out.txt"
}
for sigma in 0.25 0.5 1; do
	sample_law "l1-gaussian-$sigma" mnist-cnn --sigma "$sigma"
	sample_law "l1-tuned-$sigma" mnist-cnn-gaussian --sigma "$sigma"
done
for b in 0.2 0.4 0.8; do
	sample_law "l1-laplace-$b" mnist-cnn-laplace --law laplace --sigma "$b"
done
sample_law l1-uniform-256 mnist-cnn-uniform --law uniform --sigma 0.5019607843137255
sample_law l1-uniform-512 mnist-cnn-uniform --law uniform --sigma 1.003921568627451
sample_law l1-uniform-1024 mnist-cnn-uniform --law uniform --sigma 2.007843137254902
# Splitting noise evaluates the model W times on each digit. It needs neither n nor a seed.
sample_splitting() {
	out=$runs/l1-splitting-$1
	"$rscert" certify --model testdata/mnist-cnn-uniform.onnx --data testdata/mnist --law splitting --sigma "$2" --resume --out "$out" >"$out.txt"
}
sample_splitting 256 0.5019607843137255
sample_splitting 512 1.003921568627451
sample_splitting 1024 2.007843137254902

go run ./studies/noise "$runs/bundled" "$runs/bundled-float" >"$runs/noise.txt"
go run ./studies/scores "$runs/scores" docs >"$runs/confidence.txt"
go run ./studies/page docs/confidence.md <"$runs/confidence.txt"
go run ./studies/conformal -name sizes "$runs/conformal/scores.npz" "0.5=$runs/conformal-0.5/scores.npz" \
	"1=$runs/conformal-1/scores.npz" >"$runs/conformal.txt"
go run ./studies/page docs/conformal.md <"$runs/conformal.txt"
if [ -e "$runs/cifar/scores.npz" ]; then
	go run ./studies/conformal -sigma 0.25 -name cifar-sizes "$runs/cifar/scores.npz" "0.5=$runs/cifar-0.5/scores.npz" \
		"1=$runs/cifar-1/scores.npz" >"$runs/cifar-sizes.txt"
	go run ./studies/page docs/conformal.md <"$runs/cifar-sizes.txt"
fi
go run ./studies/votes docs "$runs/full" "$runs/r05" "$runs/r1" "$runs/p02"
(
	printf '%s\n' '<!-- made: under-attack -->' '' '```'
	"$rscert" acce "$runs/under-attack" --tau 0.5,0.7,0.8 --plot docs/img/under-attack.svg
	printf '%s\n' '```' '' '<!-- end: under-attack -->'
) >"$runs/under-attack.md"
go run ./studies/page docs/calibration-under-attack.md <"$runs/under-attack.md"
go run ./studies/acce digits "$runs/digits" >"$runs/digits.md"
go run ./studies/page docs/calibration-under-attack.md <"$runs/digits.md"
go run ./studies/acce model "$runs/acce-0.25/bounds.csv" 0.25 "$runs/acce-0.5/bounds.csv" 0.5 "$runs/acce-1/bounds.csv" 1 >"$runs/acce.txt"
go run ./studies/page docs/calibration-under-attack.md <"$runs/acce.txt"
go run ./studies/acce residuals >"$runs/residuals.txt"
go run ./studies/page docs/calibration-under-attack.md <"$runs/residuals.txt"
if [ -n "${LONG:-}" ]; then
	go run ./studies/acce random >"$runs/random.txt"
	go run ./studies/page docs/calibration-under-attack.md <"$runs/random.txt"
fi

go run ./studies/l1 "$runs"/l1-gaussian-0.25 "$runs"/l1-gaussian-0.5 "$runs"/l1-gaussian-1 \
	"$runs"/l1-tuned-0.25 "$runs"/l1-tuned-0.5 "$runs"/l1-tuned-1 "$runs"/l1-laplace-0.2 "$runs"/l1-laplace-0.4 "$runs"/l1-laplace-0.8 \
	"$runs"/l1-uniform-256 "$runs"/l1-uniform-512 "$runs"/l1-uniform-1024 \
	"$runs"/l1-splitting-256 "$runs"/l1-splitting-512 "$runs"/l1-splitting-1024 >"$runs/l1.txt"
go run ./studies/page docs/other-threats.md <"$runs/l1.txt"
(
	printf '%s\n' '<!-- made: pa -->' '' '```'
	"$rscert" report "$runs"/l1-gaussian-0.25 "$runs"/l1-gaussian-0.5 "$runs"/l1-gaussian-1 --names 'σ = 0.25,σ = 0.5,σ = 1' \
		--curve pa --plot docs/img/pa.svg --title '' | sed -n '/lower bound on p_A/,/^ *σ = 1 /p'
	printf '%s\n' '```' '' '<!-- end: pa -->'
) >"$runs/pa.txt"
go run ./studies/page docs/report.md <"$runs/pa.txt"

# docs/metrics.md
go run ./studies/metrics "$rscert" >"$runs/metrics.txt"
go run ./studies/page docs/metrics.md <"$runs/metrics.txt"

# docs/calibration-error.md
go run ./studies/calibration >"$runs/calibration.txt"
go run ./studies/page docs/calibration-error.md <"$runs/calibration.txt"
go run ./studies/calibration -parts figure

# README.md, docs/report.md
report() {
	"$rscert" report "$@" >>"$runs/report.txt"
}
: >"$runs/report.txt"
report "$runs/acce-0.25" "$runs/acce-0.5" "$runs/acce-1" --names 'σ = 0.25,σ = 0.5,σ = 1' \
	--title 'bundled CNN on 1,000 MNIST digits, 95 % intervals' --plot docs/img/certified-accuracy.svg
report "$runs/acce-0.25" "$runs/acce-0.5" "$runs/acce-1" --names 'σ = 0.25,σ = 0.5,σ = 1' --curve radii --plot docs/img/radii.svg
report "$runs/acce-0.5" --curve calibration --title '' --plot docs/img/calibration-radius.svg
