"""What every peer shares: the conversation with `bench/run`, and where files are.

A peer is a process that stays. When it is loaded it says {"ready": true}. Then it reads a workload as a line of JSON, prepares it when it sees it for the first time, runs it
`repeat` times and answers with a line: {"seconds": [...], "tokens": n}. `glassformer bench --ask` speaks the same way.
"""
import argparse
import json
import os
import sys
import time
import traceback


# Libraries print what they like; answers have a way of their own.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="a folder in Hugging Face layout")
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.sched_setaffinity(0, range(options.threads))
    options.name = os.path.basename(options.model.rstrip("/"))
    options.derived = os.path.join(os.path.dirname(options.model.rstrip("/")), ".derived", options.name)
    os.makedirs(options.derived, exist_ok=True)
    with open(os.path.join(options.model, "config.json")) as file:
        options.config = json.load(file)
    return options


def lengths(case):
    """As many lengths as there are texts, drawn evenly."""
    import random

    draw = random.Random(1)
    return [draw.randint(case["shortest"], case["longest"]) for _ in range(case["texts"])]


def texts(case, vocabulary):
    """Random token ids; the first and the last ids of a vocabulary are often special, and left out."""
    import random

    draw = random.Random(2)
    return [[draw.randint(vocabulary // 16, vocabulary * 15 // 16) for _ in range(n)] for n in lengths(case)]


def padded(case, rows, pad=0):
    """Texts in batches, sorted by length so that little is padded, as sentence encoders do it: (ids, mask) of each."""
    import numpy

    rows = sorted(rows, key=len)
    batches = []
    for start in range(0, len(rows), case["batch"]):
        some = rows[start : start + case["batch"]]
        width = max(map(len, some))
        ids = numpy.full((len(some), width), pad, numpy.int64)
        mask = numpy.zeros((len(some), width), numpy.int64)
        for at, row in enumerate(some):
            ids[at, : len(row)] = row
            mask[at, : len(row)] = 1
        batches.append((ids, mask))
    return batches


def timed(work):
    """A workload all of which is timed."""

    def run():
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return run


def serve(prepare):
    """Answers until the input ends; `prepare(case)` gives (a function that runs once and gives its seconds, tokens)."""
    known = {}
    ANSWERS.write('{"ready": true}\n')
    ANSWERS.flush()
    for line in sys.stdin:
        case = json.loads(line)
        repeat = case.pop("repeat", 1)
        key = json.dumps(case, sort_keys=True)
        try:
            if key not in known:
                known[key] = prepare(case)
                known[key][0]()
            run, tokens = known[key]
            answer = {"seconds": [run() for _ in range(repeat)], "tokens": tokens}
        except Exception as error:  # told to who asked, who goes on without this peer
            traceback.print_exc()
            answer = {"error": repr(error)[:300]}
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()
