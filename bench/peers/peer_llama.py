"""llama.cpp through the C interface of llama-cpp-python: decoders, q8_0, q4_0 and f32."""
import time

import peer

options = peer.arguments()

import llama_cpp
import numpy

from gguf_export import quantised

vocabulary = options.config["vocab_size"]
llama_cpp.llama_backend_init()
setting = llama_cpp.llama_model_default_params()
setting.n_gpu_layers = 0
model = llama_cpp.llama_model_load_from_file(quantised(options).encode(), setting)
if not model:
    raise SystemExit("llama.cpp cannot read the file")


class Context:
    """Room for a number of texts."""

    def __init__(self, texts, length, rows):
        made = llama_cpp.llama_context_default_params()
        made.n_ctx = (length + 8) * texts
        made.n_batch = made.n_ubatch = max(rows, texts)
        made.n_seq_max = texts
        made.n_threads = made.n_threads_batch = options.threads
        made.no_perf = True
        self.at = llama_cpp.llama_init_from_model(model, made)
        self.batch = llama_cpp.llama_batch_init(max(rows, texts), 0, 1)

    def run(self, rows, past):
        """Rows of tokens, one for each text, after `past` others; gives the likeliest next token of each."""
        batch, at, last = self.batch, 0, []
        for text, row in enumerate(rows):
            for place, token in enumerate(row):
                batch.token[at] = token
                batch.pos[at] = past + place
                batch.n_seq_id[at] = 1
                batch.seq_id[at][0] = text
                batch.logits[at] = place == len(row) - 1
                at += 1
            last.append(at - 1)
        batch.n_tokens = at
        if llama_cpp.llama_decode(self.at, batch):
            raise RuntimeError("llama_decode failed")
        scores = (llama_cpp.llama_get_logits_ith(self.at, row) for row in last)
        return [int(numpy.ctypeslib.as_array(score, (vocabulary,)).argmax()) for score in scores]

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.at), True)


def prefill(case):
    rows = peer.texts(case, vocabulary)
    context = Context(len(rows), case["longest"], sum(map(len, rows)))

    def run():
        context.clear()
        began = time.perf_counter()
        context.run(rows, 0)
        return time.perf_counter() - began

    return run, sum(map(len, rows))


def decode(case):
    rows = peer.texts(case, vocabulary)
    start, new = case["shortest"], case["new"]
    context = Context(len(rows), start + new, sum(map(len, rows)))

    def run():
        context.clear()
        tokens = context.run(rows, 0)
        began = time.perf_counter()
        for step in range(new):
            tokens = context.run([[token] for token in tokens], start + step)
        return time.perf_counter() - began

    return run, len(rows) * new


peer.serve(lambda case: {"prefill": prefill, "decode": decode}[case["workload"]](case))
