"""What is measured, on which checkpoint, by whom. The goals are ratios to the best peer of the same class."""


def encode(batch, goal, shortest=128, longest=128, texts=None):
    label = f"batch {batch}" if shortest == longest else f"lengths {shortest} to {longest}, batch {batch}"
    return {"workload": "encode", "batch": batch, "texts": texts or batch, "shortest": shortest, "longest": longest,
            "new": 1, "beams": 1, "label": label, "goal": goal}


def prefill(goal):
    return {"workload": "prefill", "batch": 1, "texts": 1, "shortest": 512, "longest": 512, "new": 1, "beams": 1,
            "label": "prefill 512", "goal": goal}


def decode(batch, goal, new):
    return {"workload": "decode", "batch": batch, "texts": batch, "shortest": 16, "longest": 16, "new": new, "beams": 1,
            "label": f"decode, batch {batch}", "goal": goal}


def translate(batch, beams):
    how = "greedy" if beams == 1 else f"beam {beams}"
    return {"workload": "translate", "batch": batch, "texts": batch, "shortest": 25, "longest": 25, "new": 28,
            "beams": beams, "label": f"translate, {how}, batch {batch}", "goal": 2.0}


def group(name, model, title, who, cases):
    for case in cases:
        case["label"] = f"{title}: {case['label']}"
    return {"name": name, "model": model, "who": who, "cases": cases}


def halves():
    """The narrowest floats that this processor multiplies: where it has no bf16, f32 is what everybody is fastest with."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = file.read()
    except OSError:
        return "bf16"
    return "bf16" if "amx_bf16" in flags or "avx512_bf16" in flags or "vendor_id" not in flags else "f32"


HALVES = halves()
ENCODERS = [("glassformer", "int8"), ("glassformer", HALVES), ("openvino", "int8"), ("openvino", HALVES), ("torch", HALVES),
            ("ctranslate2", "int8"), ("onnxruntime", "int8")]
DECODERS = [("glassformer", "int8"), ("glassformer", "int4"), ("glassformer", HALVES), ("llama", "q8_0"), ("llama", "q4_0"),
            ("ctranslate2", "int8"), ("openvino", "int8"), ("openvino", "int4")]
WRITERS = [("glassformer", "int8"), ("glassformer", HALVES), ("ctranslate2", "int8")]
TRAINERS = [(who, dtype) for who in ("trainer", "train") for dtype in dict.fromkeys(("f32", HALVES))]

WORKLOADS = [
    group("w1-bert", "bert-base", "W1 BERT-base, 128 tokens", ENCODERS, [encode(1, 2.0), encode(8, 2.0), encode(32, 2.0)]),
    group("w1-minilm", "minilm-l6", "W1 MiniLM-L6, 128 tokens", ENCODERS, [encode(1, 2.0), encode(32, 2.0)]),
    group("w1-mix", "minilm-l6", "W1 MiniLM-L6", ENCODERS, [encode(32, 3.0, 5, 200, 128), encode(1, 3.0, 5, 200, 32)]),
    group("w2-gpt2", "gpt2", "W2 GPT-2", DECODERS, [decode(1, 1.2, 64), decode(8, 2.0, 64), prefill(3.0)]),
    group("w2-llama", "tinyllama-1.1b", "W2 LLaMA-1.1B", DECODERS, [decode(1, 1.2, 16), decode(8, 2.0, 16), prefill(3.0)]),
    group("w3-marian", "marian-base", "W3 Marian", WRITERS,
          [translate(1, 1), translate(32, 1), translate(1, 4), translate(32, 4)]),
    group("w3-t5", "t5-small", "W3 T5-small", WRITERS, [translate(1, 1), translate(32, 1), translate(1, 4), translate(32, 4)]),
    group("w4-pair", "", "W4 training step", TRAINERS,
          [{"workload": "train", "shape": "pair", "label": "encoder-decoder base, 2,048 tokens", "goal": 1.5}]),
    group("w4-small", "", "W4 training step", TRAINERS,
          [{"workload": "train", "shape": "small", "label": "decoder of 6 layers, 12 × 256 tokens", "goal": 1.5}]),
    {"name": "w5", "model": "gpt2"},
]
