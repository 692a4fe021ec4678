"""CTranslate2: encoders, decoders and encoder-decoders, int8 and f32."""
import os

import peer

options = peer.arguments()

import ctranslate2
import numpy

vocabulary = options.config["vocab_size"]
END = options.config.get("eos_token_id")


class Words:
    """A vocabulary without meaning: the converter wants words, and speed does not depend on which."""

    def __init__(self):
        self.words = [f"t{at}" for at in range(vocabulary)]
        special = {"pad": options.config.get("pad_token_id"), "eos": END, "bos": options.config.get("bos_token_id")}
        unknown = {"marian": 1, "t5": 2, "gpt2": vocabulary - 1, "llama": 0, "bert": 100}[options.config["model_type"]]
        special["unk"] = unknown
        for name, at in special.items():
            if at is not None:
                self.words[at] = {"eos": "</s>", "bos": "</s>" if at == END else "<s>"}.get(name, f"<{name}>")
                if at == END:
                    self.words[at] = "</s>"
        for name, at in special.items():
            setattr(self, f"{name}_token", None if at is None else self.words[at])
            setattr(self, f"{name}_token_id", at)

    def get_vocab(self):
        return {word: at for at, word in enumerate(self.words)}

    def convert_ids_to_tokens(self, at):
        return self.words[at]

    def __len__(self):
        return len(self.words)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return [] if name == "additional_special_tokens" else {} if name == "special_tokens_map" else None


def converted():
    folder = os.path.join(options.derived, f"ct2_{options.dtype}")
    if not os.path.exists(os.path.join(folder, "model.bin")):
        from ctranslate2.converters import TransformersConverter

        class Converter(TransformersConverter):
            def load_model(self, kind, path, **more):
                model = super().load_model(kind, path, **more)
                if model.config.model_type == "bert":
                    model.config.position_embedding_type = "absolute"
                return model

            def load_tokenizer(self, kind, path, **more):
                return Words()

        Converter(options.model).convert(folder, quantization={"f32": "float32"}.get(options.dtype, options.dtype), force=True)
    return folder


setting = {
    "device": "cpu",
    "compute_type": {"int8": "int8_float32", "f32": "float32"}[options.dtype],
    "inter_threads": 1,
    "intra_threads": options.threads,
}
folder = converted()
loaded = {}


def model(kind):
    if kind not in loaded:
        loaded[kind] = kind(folder, **setting)
    return loaded[kind]


def encode(case):
    net = model(ctranslate2.Encoder)
    rows = sorted(peer.texts(case, vocabulary), key=len)
    batches = [rows[at : at + case["batch"]] for at in range(0, len(rows), case["batch"])]

    def work():
        for some in batches:
            numpy.array(net.forward_batch(some).last_hidden_state)

    return peer.timed(work), sum(map(len, rows))


def written(case, new):
    net = model(ctranslate2.Generator)
    rows = [[f"t{token}" for token in row] for row in peer.texts(case, vocabulary)]

    def work():
        made = net.generate_batch(
            rows, max_length=new, min_length=new, sampling_topk=1, include_prompt_in_result=False, max_batch_size=0
        )
        assert all(len(one.sequences_ids[0]) == new for one in made)

    return work


def prefill(case):
    return peer.timed(written(case, 1)), case["texts"] * case["shortest"]


def decode(case):
    """Its interface writes whole texts: the time of a prompt and one token is taken from that of all."""
    one, all_of_them = peer.timed(written(case, 1)), peer.timed(written(case, case["new"] + 1))
    return lambda: all_of_them() - one(), case["texts"] * case["new"]


def translate(case):
    net = model(ctranslate2.Translator)
    rows = [[f"t{token}" for token in row[:-1]] + ["</s>"] for row in peer.texts(case, vocabulary)]
    new = case["new"]

    def work():
        made = net.translate_batch(
            rows, beam_size=case["beams"], max_batch_size=case["batch"], batch_type="examples",
            min_decoding_length=new, max_decoding_length=new,
        )
        assert all(len(one.hypotheses[0]) == new for one in made)

    return peer.timed(work), case["texts"] * new


peer.serve(lambda case: {"encode": encode, "prefill": prefill, "decode": decode, "translate": translate}[case["workload"]](case))
