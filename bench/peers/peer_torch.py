"""PyTorch with transformers: encoders and decoders, f32 and bf16."""
import time

import peer

options = peer.arguments()

import torch
import transformers

torch.set_num_threads(options.threads)
dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[options.dtype]
vocabulary = options.config["vocab_size"]
loaded = {}


def model(kind):
    if kind not in loaded:
        loaded[kind] = kind.from_pretrained(options.model, dtype=dtype).eval()
    return loaded[kind]


def encode(case):
    net = model(transformers.AutoModel)
    batches = [tuple(map(torch.from_numpy, both)) for both in peer.padded(case, peer.texts(case, vocabulary))]

    def work():
        with torch.inference_mode():
            for ids, mask in batches:
                net(input_ids=ids, attention_mask=mask).last_hidden_state

    return peer.timed(work), sum(int(mask.sum()) for _, mask in batches)


def prefill(case):
    net = model(transformers.AutoModelForCausalLM)
    ids = torch.tensor(peer.texts(case, vocabulary))

    def work():
        with torch.inference_mode():
            net(ids, use_cache=True, logits_to_keep=1).logits[:, -1].argmax(-1)

    return peer.timed(work), ids.numel()


def decode(case):
    net = model(transformers.AutoModelForCausalLM)
    ids = torch.tensor(peer.texts(case, vocabulary))

    def run():
        with torch.inference_mode():
            made = net(ids, use_cache=True, logits_to_keep=1)
            began = time.perf_counter()
            for _ in range(case["new"]):
                token = made.logits[:, -1].argmax(-1, keepdim=True)
                made = net(token, past_key_values=made.past_key_values, use_cache=True, logits_to_keep=1)
            made.logits[:, -1].argmax(-1)
            return time.perf_counter() - began

    return run, case["texts"] * case["new"]


def translate(case):
    net = model(transformers.AutoModelForSeq2SeqLM)
    ids = torch.tensor(peer.texts(case, vocabulary))
    ids[:, -1] = options.config["eos_token_id"]

    def work():
        for some in ids.split(case["batch"]):
            with torch.inference_mode():
                net.generate(
                    input_ids=some,
                    attention_mask=torch.ones_like(some),
                    num_beams=case["beams"],
                    do_sample=False,
                    min_new_tokens=case["new"],
                    max_new_tokens=case["new"],
                )

    return peer.timed(work), case["texts"] * case["new"]


peer.serve(lambda case: {"encode": encode, "prefill": prefill, "decode": decode, "translate": translate}[case["workload"]](case))
