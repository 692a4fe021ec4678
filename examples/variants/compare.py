"""One language model of characters, and only its formula changes: loss, speed and memory against the length of the text.

Every formula of causal/ (the next character) and masked/ (hidden characters) is trained with the same data, steps and
schedule, at each length; a step always has 4,096 rows. What is found goes to runs/variants/found.jsonl, and `table` prints it.

    python examples/variants/compare.py train --glassformer target/release/glassformer     100 steps each: losses, peak memory
    python examples/variants/compare.py speed --glassformer target/release/glassformer     a few steps each: rows a second
    python examples/variants/compare.py table
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
RUNS = HERE.parent.parent / "runs" / "variants"
FOUND = RUNS / "found.jsonl"
LENGTHS = [256, 1024, 4096]
ROWS = 4096
NAMES = {
    "full": "full attention", "rope": "RoPE", "alibi": "ALiBi", "window": "window of 64", "xl": "Transformer-XL, memory 256",
    "universal": "Universal, 2 times", "halting": "Universal with halting, at most 2", "longformer": "Longformer, window 64, one global row",
    "linformer": "Linformer, rank 64",
}

CONFIG = """out = "{out}"
objective = "{objective}"
seed = 1
model.formula = "{formula}"
tokenizer.kind = "characters"

[data]
train = [{{ path = "{data}/tiny-shakespeare-train.txt.gz" }}]
valid = [{{ path = "{data}/tiny-shakespeare-valid.txt.gz" }}]
length = {length}

[batch]
tokens = {tokens}

[optimiser]
beta2 = 0.99
decay = 0.1

[schedule]
steps = 100
rate = 5e-3
warmup = 20
decay = "cosine"
last = 0.1

[regularise]
dropout = 0.0

[checkpoint]
every = 100
check = 100
keep = 1
"""


def formulas():
    order = list(NAMES)
    paths = [path for group in ("causal", "masked") for path in (HERE / group).glob("*.toml")]
    return sorted(paths, key=lambda path: (path.parent.name, order.index(path.stem)))


def configuration(path, length, kind):
    objective = {"causal": "generate", "masked": "fill"}[path.parent.name]
    out = RUNS / f"{kind}-{path.parent.name}-{path.stem}-{length}"
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    texts = ROWS // length
    tokens = texts * (length + (2 if objective == "fill" else 0)) + (2 if texts == 1 and objective != "fill" else 0)
    text = CONFIG.format(out=out, objective=objective, formula=path, data=HERE.parent / "data", length=length, tokens=tokens)
    file = out.with_suffix(".toml")
    file.write_text(text)
    return file, out, texts


def measure(path, length, options):
    """Trains, and gives what was found."""
    file, out, texts = configuration(path, length, options.what)
    command = [*options.under.split(), options.glassformer, "train", str(file), "-v", "--threads", str(options.threads)]
    if options.what == "speed":
        command += ["--until", str(options.steps)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        return {"error": ran.stderr.strip().splitlines()[-1]}
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    seconds = [entry["seconds"] for entry in log if "seconds" in entry][1:]
    losses = [entry["valid"] for entry in log if "valid" in entry]
    memory = re.search(r"peak memory ([\d.]+) (\w+)", ran.stderr)
    found = {"speed": texts * length / statistics.median(seconds)}
    if options.what == "train":
        found |= {"loss": losses[-1], "memory": float(memory[1]) * {"kB": 1e-3, "MB": 1, "GB": 1e3}[memory[2]]}
    shutil.rmtree(out)
    return found


def table():
    found = {}
    for line in FOUND.read_text().splitlines():
        entry = json.loads(line)
        key = (entry["group"], entry["name"], entry["length"])
        # The speed of a training that others disturbed gives way to one that was measured for its own sake.
        found.setdefault(key, {}).update({entry["what"]: entry})
    for group in ("causal", "masked"):
        print(f"\n| {group} | " + " | ".join(f"{length:,}" for length in LENGTHS) + " |\n|---|" + "---|" * len(LENGTHS))
        for path in formulas():
            cells = []
            for length in LENGTHS:
                entry = found.get((group, path.stem, length), {})
                train, speed = entry.get("train", {}), entry.get("speed", entry.get("train", {}))
                loss = f"{train['loss']:.3f}" if "loss" in train else "–"
                memory = f"{train['memory']:.0f} MB" if "memory" in train else "–"
                rows = f"{speed['speed'] / 1e3:.1f}k" if "speed" in speed else "–"
                cells.append(f"{loss} · {rows} · {memory}")
            if path.parent.name == group:
                print(f"| {NAMES[path.stem]} | " + " | ".join(cells) + " |")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", choices=["train", "speed", "table"])
parser.add_argument("--glassformer", default="glassformer")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=6, help="of `speed`")
parser.add_argument("--under", default="", help="a command to run it under")
parser.add_argument("--only", default="", help="formulas whose group/name contains this")
parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
options = parser.parse_args()
if options.what == "table":
    table()
else:
    for length in options.lengths:
        for path in formulas():
            if options.only not in f"{path.parent.name}/{path.stem}":
                continue
            found = measure(path, length, options)
            print(f"{path.parent.name}/{path.stem}, {length}: {found}", flush=True)
            if "error" not in found:
                with FOUND.open("a") as file:
                    entry = {"what": options.what, "group": path.parent.name, "name": path.stem, "length": length, **found}
                    file.write(json.dumps(entry) + "\n")
