"""MiniLM by OpenVINO behind FastAPI: serve_openvino.py FOLDER PORT THREADS [WORKERS] [f32|bf16]. A batch is sorted by length and cut
into padded parts of 32, as sentence-transformers does it."""
import sys

import numpy
import openvino
import tokenizers
import torch
import transformers

import serving

model, port, threads, workers = serving.arguments()
words = tokenizers.Tokenizer.from_file(f"{model}/tokenizer.json")
words.no_padding()
words.enable_truncation(256)


class Sentence(torch.nn.Module):
    """The mean of all rows, made one long."""

    def __init__(self):
        super().__init__()
        self.net = transformers.AutoModel.from_pretrained(model, attn_implementation="eager").eval()

    def forward(self, input_ids, attention_mask):
        rows = self.net(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        held = attention_mask.unsqueeze(-1).to(rows.dtype)
        return torch.nn.functional.normalize((rows * held).sum(1) / held.sum(1), dim=-1)


core = openvino.Core()
ones = torch.ones((2, 8), dtype=torch.long)
made = openvino.convert_model(
    Sentence(), example_input={"input_ids": ones, "attention_mask": ones},
    input=[("input_ids", [-1, -1], openvino.Type.i64), ("attention_mask", [-1, -1], openvino.Type.i64)],
)
setting = {
    "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": workers, "ENABLE_CPU_PINNING": False,
    "INFERENCE_PRECISION_HINT": sys.argv[5] if len(sys.argv) > 5 else "f32",
}
compiled = core.compile_model(made, "CPU", setting)
requests = [compiled.create_infer_request() for _ in range(workers)]


def embed(texts):
    request = requests.pop()
    try:
        rows = [encoded.ids for encoded in words.encode_batch(texts)]
        order, found = sorted(range(len(rows)), key=lambda at: len(rows[at])), [None] * len(rows)
        for start in range(0, len(order), 32):
            part = order[start : start + 32]
            longest = max(len(rows[at]) for at in part)
            ids, mask = (numpy.zeros((len(part), longest), numpy.int64) for _ in range(2))
            for place, at in enumerate(part):
                ids[place, : len(rows[at])], mask[place, : len(rows[at])] = rows[at], 1
            out = request.infer({"input_ids": ids, "attention_mask": mask})[compiled.output(0)]
            for place, at in enumerate(part):
                found[at] = (out[place].copy(), len(rows[at]))
        return found
    finally:
        requests.append(request)


serving.serve(port, workers, embed=embed)
