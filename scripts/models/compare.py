#!/usr/bin/env python3
"""Exports the models of zoo.py, runs rscert on each, and writes docs/models.md: its predictions beside ONNX Runtime's in Python.

    python compare.py --rscert bin/rscert --folder out/models [--table docs/models.md] [NAME …]

With names, the script compares only these models. The table also shows the earlier results of the other models, which
results.json in the folder keeps.

The script runs 'rscert certify --check' on each model. The verdict of the check must suspect nothing. Then it runs
'rscert certify' with very little noise. So votes.jsonl has the prediction of every example without noise. This
prediction must be the argmax of the scores that onnxruntime computes from the same file.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import zoo

SIGMA = "0.01"
USUAL_SIGMA = "0.25"  # for the verdict, as a user would choose it
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


def still(graph):
    """Returns flags for noise that is too small to change an example: noise below the step of bytes or below the last
    digit of a float."""
    if graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8:
        return ["--sigma", "1e-5"]
    return ["--sigma", "1e-20", "--noise", "float"]


def tolerance(graph):
    """Returns the tolerance between scores. ONNX Runtime removes two opposite conversions to and from half precision if
    one directly follows the other. This depends on the nodes in front of the model."""
    half = any(t.data_type == onnx.TensorProto.FLOAT16 for t in graph.initializer)
    return 4e-3 if half else 1e-5


def reference(path, data, batch=None):
    """Returns ONNX Runtime's scores for the examples of an npz file. Converts the examples to the form of the model's
    input. Runs all examples at once or in batches."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    archive = np.load(data)
    x = archive["x"]
    if x.dtype == np.uint8 and inputs[0].type != "tensor(uint8)":
        x = x.astype(np.float32) / np.float32(255)
    if x.ndim == 4 and inputs[0].shape[-1] == 3:
        x = x.transpose(0, 2, 3, 1)
    x = x.astype(TYPES.get(inputs[0].type, x.dtype))
    size = batch or (1 if inputs[0].shape[0] == 1 else len(x))
    scores = []
    for first in range(0, len(x), size):
        part = x[first:first + size]
        if len(inputs) > 1:
            feed = {i.name: part[:, k:k + 1] for k, i in enumerate(inputs)}
        else:
            feed = {inputs[0].name: part}
        scores.extend(rows(session.run(None, feed)))
    return np.array(scores, np.float64), archive["y"]


def rows(outputs):
    """Returns the scores of each example, from an array or a zipmap. An output of labels may come before the scores."""
    scores = outputs[-1] if len(outputs) > 1 else outputs[0]
    if isinstance(scores, list):
        return [[row[k] for k in sorted(row)] for row in scores]
    return list(scores)


def rscert(program, arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("rscert: ", "hint: "))]
        raise RuntimeError(" / ".join(lines) or done.stderr[-300:])
    return done


def compare(program, folder, e):
    """Returns the results of rscert and Python for one model."""
    path, data = folder / f"{e.name}.onnx", folder / e.data
    row = {"bytes": sum(p.stat().st_size for p in folder.glob(f"{e.name}.onnx*")), "rscert": None, "problem": ""}
    try:
        scores, labels = reference(path, data)
    except Exception as error:  # ONNX Runtime lacks kernels for some types
        scores, labels = None, np.load(data)["y"]
        row["problem"] = "in Python: " + str(error).splitlines()[0]
    votes = None if scores is None else scores.argmax(1)
    row["python"] = None if votes is None else float((votes == labels).mean())
    row["classes"] = None if votes is None else len(set(votes.tolist()))
    graph = onnx.load(path, load_external_data=False).graph
    row["tolerance"] = tolerance(graph)
    common = ["certify", "--model", str(path), "--data", str(data), "--seed", "1", "--quiet", *e.flags]
    try:
        check = json.loads(rscert(program, [*common, "--sigma", USUAL_SIGMA, "--check", "--json"]).stdout)
        row["verdict"] = {v["aspect"]: [v["outcome"], v["text"]] for v in check["verdict"]}
        out, quiet = folder / "runs" / e.name, folder / "runs" / (e.name + "-still")
        subprocess.run(["rm", "-rf", out, quiet], check=True)
        out.parent.mkdir(exist_ok=True)
        done = rscert(program, [*common, "--sigma", SIGMA, "--n", "1", "--n0", "1", "--out", str(out)])
        row["scores"] = None
        if not e.split_at_zero:
            rscert(program, [*common, *still(graph), "--n", "1", "--n0", "1", "--scores", "--save-scores", "--out", str(quiet)])
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        row["problem"] = str(error).replace(str(folder) + "/", "")
        return row
    if votes is None:
        return row
    lines = [json.loads(line) for line in (out / "votes.jsonl").read_text().splitlines()]
    own = np.array([line["clean"] for line in lines])
    runtime = json.loads((out / "run.json").read_text())["runtime"]
    row["batch"], row["independence"] = runtime["call"], runtime["independence"]
    if row["independence"] != "proved":  # the scores may depend on the batch, as with dynamic quantisation
        scores, _ = reference(path, data, 1)
        votes = scores.argmax(1)
        row["python"] = float((votes == labels).mean())
    row["rscert"], row["checked"] = float((own == labels).mean()), check["look"]["clean_accuracy"]
    row["differ"] = int((own != votes).sum())
    if not e.split_at_zero:
        row["scores"] = distance(quiet, scores)
    # A model trained for a moment is hardly better than chance, so ignore this warning.
    row["warnings"] = [line[9:] for line in done.stderr.splitlines() if line.startswith("warning: ") and "is right on" not in line and "in the same units" not in line]
    return row


def distance(run, scores):
    """Returns the largest difference between rscert's saved scores and Python's, relative to an example's largest
    score.

    rscert saves probabilities. For logits, the function compares the logarithms of the probabilities, which are the
    logits up to a common constant."""
    own = np.load(run / "scores.npz")["scores"][:, 0].astype(np.float64)
    if json.loads((run / "run.json").read_text())["parameters"]["outputs"] == "logits":
        scores = scores - scores.max(1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(1, keepdims=True))
        shown = scores > np.log(np.finfo(np.float32).tiny)  # smaller probabilities are zeros in the file
        own, scores = np.log(np.where(shown, own, 1)), np.where(shown, scores, 0)
    return float((abs(own - scores).max(1) / abs(scores).max(1)).max())


PACKAGES = ["torch", "torchvision", "timm", "transformers", "keras", "scikit-learn", "skl2onnx", "onnxmltools", "xgboost",
            "lightgbm", "onnx", "onnxscript", "onnxruntime"]


def suspects(row):
    """Returns, for each aspect that the verdict suspects, what the verdict says about it."""
    return {aspect: text for aspect, (outcome, text) in row.get("verdict", {}).items() if outcome == "suspect"}


def verdict(row):
    """Returns the worst outcome of the verdict. If this outcome is not ok, also names the aspects that have it."""
    for worst in ("suspect", "unsure"):
        aspects = [aspect for aspect, (outcome, _) in row.get("verdict", {}).items() if outcome == worst]
        if aspects:
            return f"{worst}: {', '.join(aspects)}"
    return "ok" if row.get("verdict") else ""


def machine():
    """Returns the name of the processor, the number of cores and the load average."""
    names = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{(names or [platform.machine()])[0]}, {os.cpu_count()} cores; load average {os.getloadavg()[2]:.0f} at the end"


def table(program, results, failed):
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in PACKAGES)
    own = rscert(program, ["--version"]).stdout.splitlines()[0]
    ran = [r for _, r in results if r["rscert"] is not None]
    proved = sum(r.get("independence") == "proved" for _, r in results)
    judged = [r for _, r in results if r.get("verdict")]
    alarms = [(e, suspects(r)) for e, r in results if suspects(r)]
    paragraphs = [
        "# Models that were tried",
        f"`make models` made this page on {datetime.date.today():%-d %B %Y} with `scripts/models/compare.py` ({own}; {versions};"
        f" Python {platform.python_version()}; {machine()}). rscert runs {len(ran)} of {len(results)} models; for"
        f" {sum(r['differ'] == 0 for r in ran)} models, all {zoo.TEST} predictions agree with ONNX Runtime in Python. For {proved}"
        " models, rscert proves that the inputs of a batch do not affect each other. The other models that rscert runs get one input per call."
        f" `--check` gives a verdict on {len(judged)} models, and suspects a mistake in the set-up of {len(alarms)} models. No"
        " set-up has a mistake, so any suspicion is a false alarm.",
        "The models are small and were trained briefly, so their accuracies say nothing about larger models of the same families."
        " The image models use scikit-learn's digits (8×8 pixels, enlarged to 3×32×32 bytes). The other models use the digits as"
        " rows of 64 numbers. Models for two classes use the breast cancer data instead. `scripts/models/zoo.py` exports every model."
        " `scripts/models/compare.py` gives the same data directly to ONNX Runtime, and to `rscert certify --sigma 0.01` through"
        " `--data`.",
        "For each example, we compare the prediction in Python with the prediction in rscert. The column *differ* counts the"
        " examples whose predictions in Python and in rscert disagree. *classes* counts the classes that ONNX Runtime"
        " predicts: if a model always predicts the same class, equal predictions prove little. The column *batch* gives the"
        " number of inputs in one call. The column *inputs of a batch*"
        " says whether rscert proved that the inputs of a batch do not affect each other. The column *verdict* gives the worst outcome"
        f" of `rscert certify --sigma {USUAL_SIGMA} --check`. If this outcome is not `ok`, the column also names the aspects of the set-up that have it"
        " ([first-model.md](first-model.md#5-look-before-you-sample)).",
        "For the column *scores*, rscert runs again with noise too small to change an example. The column gives the largest"
        " difference between a score saved by rscert and the score in Python, relative to the example's largest score. If rscert"
        " runs one input per call (*batch* 1), ONNX Runtime in Python also runs one input per call. Scores in half precision"
        " differ in the last digits, because ONNX Runtime skips some roundings to half precision. Python runs the"
        " original graph, and rscert runs a graph that it edited. In these two graphs, ONNX Runtime skips different roundings."
        " LightGBM distinguishes 0 from values above 10⁻³⁵, so any noise on a value of 0 can change the scores. So we do not compare"
        " the scores of LightGBM.",
    ]
    lines = "\n\n".join(textwrap.fill(p, 120, break_long_words=False, break_on_hyphens=False) for p in paragraphs).split("\n")
    lines += [
        "",
        "| model | exporter | opset | size | accuracy in Python | in rscert | differ | classes | scores | batch | inputs of a batch | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(table_row(e, r) for e, r in results),
    ]
    refused = [(e, r) for e, r in results if r["rscert"] is None]
    if refused:
        lines += ["", "## Refused", "", "| model | rscert says |", "| --- | --- |"]
        lines += [f"| {e.family}, {e.exporter} | {r['problem'].replace('|', '/')} |" for e, r in refused]
    if alarms:
        lines += ["", "## False alarms", "", "| model | aspect | rscert says |", "| --- | --- | --- |"]
        lines += [f"| {e.family}, {e.exporter} | {aspect} | {text} |" for e, texts in alarms for aspect, text in texts.items()]
    warned = [(e, r) for e, r in results if r.get("warnings")]
    if warned:
        lines += ["", "## Run with a warning", "", "| model | warning |", "| --- | --- |"]
        lines += [f"| {e.family}, {e.exporter} | {w.split('.onnx: ')[-1].replace('|', '/')} |" for e, r in warned for w in r["warnings"]]
    if failed:
        lines += ["", "## Not exported", "", "These exports failed in Python:", ""]
        lines += [f"- {name}: {why}" for name, why in failed.items()]
    return "\n".join(lines) + "\n"


def table_row(e, r):
    """Returns a row of the table."""
    size = f"{r['bytes'] / 1e6:.1f} MB" if r["bytes"] >= 1e6 else f"{r['bytes'] / 1e3:.0f} kB"
    opset, python = r["opset"], "refused" if r["python"] is None else f"{100 * r['python']:.1f} %"
    begun = f"| {e.family} | {e.exporter} | {opset} | {size} | {python} |"
    if r["rscert"] is None:
        return f"{begun} refused | | | | | | {verdict(r)} |"
    scores = "–" if r["scores"] is None else f"{r['scores']:.0e}"
    return (f"{begun} {100 * r['rscert']:.1f} % | {r['differ']} | {r['classes']} | {scores} | {r['batch']} | {r['independence']} |"
            f" {verdict(r)} |")


def gradients(page):
    """Returns the last section of the page, which 'make gradient-models' fills."""
    heading = "\n## Gradients\n"
    return heading + page.read_text().split(heading)[1] if page.exists() and heading in page.read_text() else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rscert", default="bin/rscert")
    parser.add_argument("--folder", type=Path, default=Path("out/models"))
    parser.add_argument("--table", type=Path)
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    failed = zoo.export(a.folder, a.names)
    kept = a.folder / "results.json"
    found = json.loads(kept.read_text()) if kept.exists() and a.names else {"rows": {}, "failed": {}}
    found["failed"].update(failed)
    for e in zoo.ZOO:
        path = a.folder / f"{e.name}.onnx"
        if not path.exists() or a.names and e.name not in a.names:
            continue
        row = compare(a.rscert, a.folder, e)
        row["opset"] = max(o.version for o in onnx.load(path, load_external_data=False).opset_import if o.domain in ("", "ai.onnx", "ai.onnx.ml"))
        found["rows"][e.name] = row
        found["failed"].pop(e.name, None)
        print(e.name, json.dumps(row), flush=True)
        kept.write_text(json.dumps(found))
    results = [(e, found["rows"][e.name]) for e in zoo.ZOO if e.name in found["rows"]]
    if a.table:
        a.table.write_text(table(a.rscert, results, found["failed"]) + gradients(a.table))
    sys.exit(any(r["rscert"] is None and r["python"] is not None or r.get("differ") or suspects(r)
                 or (r.get("scores") or 0) > r["tolerance"] for _, r in results))


if __name__ == "__main__":
    main()
