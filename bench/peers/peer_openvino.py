"""OpenVINO: encoders in bf16 and int8 (calibrated by NNCF), decoders with int8 and int4 weights."""
import os
import time

import peer

options = peer.arguments()

import numpy
import openvino

core = openvino.Core()
core.set_property({"CACHE_DIR": ""})
# What stays wide beside integers: asked for bf16, a processor without it is ten times slower.
wide = "bf16" if options.dtype != "f32" and "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES") else "f32"
setting = {
    "INFERENCE_NUM_THREADS": options.threads,
    "NUM_STREAMS": 1,
    "PERFORMANCE_HINT": "LATENCY",
    "ENABLE_CPU_PINNING": False,
    "INFERENCE_PRECISION_HINT": wide,
}
vocabulary = options.config["vocab_size"]


def encoder():
    from onnx_export import encoder as onnx

    if options.dtype != "int8":
        return core.read_model(onnx(options))
    path = os.path.join(options.derived, "encoder_int8.xml")
    if not os.path.exists(path):
        import nncf

        draw = numpy.random.default_rng(0)
        ones = numpy.ones((1, 128), numpy.int64)
        data = [{"input_ids": draw.integers(5, 1000, (1, 128)), "attention_mask": ones} for _ in range(8)]
        made = nncf.quantize(
            core.read_model(onnx(options)), nncf.Dataset(data), model_type=nncf.ModelType.TRANSFORMER, subset_size=8
        )
        openvino.save_model(made, path)
    return core.read_model(path)


loaded = {}
if options.config["model_type"] == "bert":
    encoder()  # what has to be converted is converted now


def encode(case):
    """Shapes that are known are compiled in; a mix of lengths runs with shapes left open."""
    batches = peer.padded(case, peer.texts(case, vocabulary))
    model = encoder()
    if case["shortest"] == case["longest"]:
        shape = list(batches[0][0].shape)
        model.reshape({"input_ids": shape, "attention_mask": shape})
    request = core.compile_model(model, "CPU", setting).create_infer_request()

    def work():
        for ids, mask in batches:
            request.infer({"input_ids": ids, "attention_mask": mask}, share_inputs=True, share_outputs=True)

    return peer.timed(work), int(sum(mask.sum() for _, mask in batches))


def decoder():
    """Exported by optimum-intel, which needs an environment of its own (see README); here it is only read."""
    whole = os.path.join(options.derived, "ov_f32", "openvino_model.xml")
    path = whole if options.dtype in ("f32", "bf16") else os.path.join(options.derived, f"ov_{options.dtype}.xml")
    if not os.path.exists(path):
        raise FileNotFoundError("the decoder is not exported: run bench/peers/export_openvino.py")
    if path not in loaded:
        loaded[path] = core.compile_model(path, "CPU", setting)
    return loaded[path]


def session(ids):
    """Runs a prompt; gives a function that takes one step."""
    compiled = decoder()
    names = {name for one in compiled.inputs for name in one.names}
    request = compiled.create_infer_request()
    request.reset_state()
    batch, count = ids.shape
    state = {"count": count}

    def call(tokens, total):
        feed = {
            "input_ids": tokens,
            "attention_mask": numpy.ones((batch, total), numpy.int64),
            "position_ids": numpy.tile(numpy.arange(total - tokens.shape[1], total), (batch, 1)).astype(numpy.int64),
            "beam_idx": numpy.arange(batch, dtype=numpy.int32),
        }
        request.infer({name: feed[name] for name in feed if name in names}, share_inputs=True, share_outputs=True)
        state["token"] = request.get_tensor("logits").data[:, -1].argmax(-1)[:, None].astype(numpy.int64)

    call(ids, count)

    def step():
        state["count"] += 1
        call(state["token"], state["count"])

    return step


def prefill(case):
    ids = numpy.array(peer.texts(case, vocabulary), numpy.int64)
    return peer.timed(lambda: session(ids)), ids.size


def decode(case):
    ids = numpy.array(peer.texts(case, vocabulary), numpy.int64)

    def run():
        step = session(ids)
        began = time.perf_counter()
        for _ in range(case["new"]):
            step()
        return time.perf_counter() - began

    return run, case["texts"] * case["new"]


peer.serve(lambda case: {"encode": encode, "prefill": prefill, "decode": decode}[case["workload"]](case))
