"""The table of ratios."""

CLASSES = {"f32": "f32", "bf16": "16 bit", "int8": "8 bit", "q8_0": "8 bit", "int4": "4 bit", "q4_0": "4 bit"}
OURS = ("glassformer", "trainer")
NAMES = {"llama": "llama.cpp", "ctranslate2": "CTranslate2", "openvino": "OpenVINO", "torch": "torch", "train": "torch",
         "onnxruntime": "ONNX Runtime"}


def number(rate):
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.1f}" if rate >= 10 else f"{rate:.2f}"


def newest(results):
    """The last run of each workload: numbers of two runs are never compared."""
    last = {(result["threads"], result["workload"]): result["run"] for result in results}
    return [result for result in results if last[result["threads"], result["workload"]] == result["run"]]


def shown(result):
    name = "" if result["who"] in OURS else NAMES[result["who"]] + " "
    value = f"{result['peak'] / 1e6:,.0f} MB" if "memory" in result["workload"] else (
        f"{result['median'] * 1e3:,.0f} ms" if result["workload"].startswith(("W4", "W5")) else number(result["rate"]))
    return f"{name}{result['dtype']} {value}"


def better(result):
    """What is compared: tokens a second, or the inverse of bytes."""
    return 1 / result["peak"] if "memory" in result["workload"] else result["rate"]


def row(workload, results):
    ours = [result for result in results if result["who"] in OURS]
    peers = [result for result in results if result["who"] not in OURS]
    cells = [workload]
    ratios = []
    for kind in ("8 bit", "4 bit", "16 bit", "f32"):
        mine = [result for result in ours if CLASSES[result["dtype"]] == kind]
        others = [result for result in peers if CLASSES[result["dtype"]] == kind]
        if mine and others:
            ratios.append(f"{kind} {max(map(better, mine)) / max(map(better, others)):.2f}")
    overall = max(map(better, ours)) / max(map(better, peers)) if ours and peers else None
    goal = next((result["goal"] for result in results if result.get("goal")), None)
    cells.append(f"**{overall:.2f}**" if overall else "")
    cells.append(f"{goal:g}" if goal else "")
    cells.append(", ".join(ratios))
    order = lambda some: ", ".join(shown(result) for result in sorted(some, key=better, reverse=True))
    return cells + [order(ours), order(peers)]


def report(results):
    lines = []
    results = newest(results)
    for threads in sorted({result["threads"] for result in results}, reverse=True):
        some = [result for result in results if result["threads"] == threads]
        days = sorted({result["time"] for result in some})
        lines += [f"### {threads} thread{'s' if threads > 1 else ''}, {days[0]} to {days[-1]} UTC", ""]
        lines.append("| workload | best ÷ best peer | goal | in the same class | Glassformer, tokens/s | peers, tokens/s |")
        lines.append("|---|---|---|---|---|---|")
        for workload in dict.fromkeys(result["workload"] for result in some):
            cells = row(workload, [result for result in some if result["workload"] == workload])
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines.append("Medians over all runs of all rounds. W4 and W5 are times or bytes; all ratios say how many times better Glassformer is.")
    return "\n".join(lines)
