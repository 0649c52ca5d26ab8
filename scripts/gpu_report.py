"""Writes the report of scripts/gpu_check.py: Markdown, with the raw figures at the end."""

import json
from pathlib import Path

WAYS = ["eager", "eager TF32", "compile", "compile TF32"]  # the ways of gpu_torch.py to run the loop


def agreement(c):
    """Returns one line that describes a comparison by 'rscert compare --json'."""
    votes = c["votes"]
    least = "" if votes["source"] == "scores" else "at least "
    said = f"{least}{votes['at_least']} of {c['samples']} votes differ ({least}{votes['at_least_per_100000']:.2f} for 100,000)"
    classes = c["examples_with_other_certified_class"] + c["abstained_in_first_only"] + c["abstained_in_second_only"]
    return f"{said}; another certified class or none in {classes} of {c['examples']} examples"


def speeds(row):
    said = f"rscert {row['rscert']:,.0f} samples/s"
    if "alone" not in row:
        return f"{said}; {row['alone_missing']}"
    said += f", ONNX Runtime alone {row['alone']:,.0f} (inputs on the device) and {row['alone_sent']:,.0f} (inputs sent)"
    said += f": {row['rscert'] / row['alone']:.2f} of it"
    if row.get("alone_in_calls"):
        said += f"; rscert runs the batch in calls of {row['call']}, by which ONNX Runtime alone does {row['alone_in_calls']:,.0f}"
    return said


def way(name, said):
    """Returns a few words about one way to run the loop in PyTorch: its speed, or why it did not run."""
    if not isinstance(said, dict):
        return f"{name} {said}"
    if "error" in said:
        return f"{name}: {said['error']}"
    return f"{name} {said['samples_per_second']:,.0f} samples/s, ready in {said['ready_seconds']:.0f} s"


def table(header, rows):
    """Returns a Markdown table. The first column is text, and the other columns are numbers."""
    out = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return out + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def number(row, key):
    return f"{row[key]:,.0f}" if key in row else "–"


def ratio(row, key):
    return f"{row['rscert'] / row[key]:.2f}" if key in row and "rscert" in row else "–"


def speed_table(found):
    header = ["model", "batch", "rscert", "noise on the host", "alone", "alone, sent", "ratio", *(f"PyTorch {way}" for way in WAYS), "ratio to eager"]
    rows = []
    for name, row in found["speed"].items():
        cells = [number(row, key) for key in ("rscert", "noise_on_host", "alone", "alone_sent")]
        torch = {way: said["samples_per_second"] for way, said in row.get("torch", {}).items() if "samples_per_second" in said}
        rows.append([name, row["batch"], *cells, ratio(row, "alone"), *(number(torch, way) for way in WAYS), ratio({**row, **torch}, "eager")])
    return table(header, rows)


def option_table(found):
    rows = []
    for row in found["options"]:
        plain = found.get("speed", {}).get(row["model"], {}).get("rscert")
        times = f"{row['samples_per_second'] / plain:.2f}" if plain else "–"
        rows.append([row["model"], row["option"], f"{row['samples_per_second']:,.0f}", times, row["differ_at_least"], row["samples"],
                     f"{1e5 * row['differ_at_least'] / row['samples']:.2f}"])
    return table(["model", "option", "samples/s", "of plain", "votes that differ, at least", "of", "for 100,000"], rows)


def sections(found):
    cuda = found["device"].startswith("cuda")
    yield "# What a GPU does" if cuda else f"# Dry run on {found['device']}: no figure here is a GPU's"
    yield "\n".join([f"Written by `scripts/gpu_check.sh` on {found['date']}, `--device {found['device']}`{', `--quick`' if found['quick'] else ''}.",
                     "Models and pictures are made up (random weights, normalised): their speed is that of real ones, their votes are not."])
    machine = found.get("machine", {})
    lines = [f"{key}: {machine[key]}" for key in ("rscert", "commit", "system", "processor", "cores", "python", "torch") if machine.get(key)]
    lines += [machine[key] for key in ("nvidia-smi", "doctor") if machine.get(key)]
    yield "\n".join(["## Machine", "", *("    " + line for block in lines for line in block.splitlines())])
    steps = [[s["step"], s["outcome"], f"{s['seconds']:.1f}", s["says"].replace("|", "\\|").replace("\n", " ")] for s in found["steps"]]
    yield "\n".join(["## Steps", "", *table(["step", "outcome", "s", "says"], steps)])
    if "speed" in found:
        yield "\n".join(["## Samples a second", "", *speed_table(found), "",
                         "*alone*: the model's file in ONNX Runtime with the same options and batch, inputs on the device already;",
                         "*sent*: with inputs sent at each call. *ratio*: rscert, with noise and votes, over *alone*. PyTorch: the loop of Cohen et al.",
                         "2019, noise and counts on the device, the same batch."])
    if "options" in found:
        yield "\n".join(["## Options", "", *option_table(found), "", "Beside the same run without the option. The last layer is balanced so",
                         "that many votes are close: trained models differ in fewer. Float16 is another file of the same weights."])
    if "example" in found:
        rows = [[name, f"{row['n']:,}", f"{row['seconds']:.1f}"] for name, row in found["example"].items()]
        yield "\n".join(["## One example", "", *table(["model", "n", "s, whole process"], rows)])
    yield "\n".join(["## Commands", "", *("    " + f"{c['seconds']:8.2f} s  exit {c['exit']}  {c['command']}" for c in found["commands"])])
    yield "\n".join(["## Raw figures", "", "```json", json.dumps({k: v for k, v in found.items() if k != "commands"}, indent=1, default=str), "```"])


def write(path, found):
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(f"{path}.new")
    new.write_text("\n\n".join(sections(found)) + "\n")
    new.replace(path)
