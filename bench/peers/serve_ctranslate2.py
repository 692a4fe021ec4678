"""A Marian of CTranslate2's format behind FastAPI: serve_ctranslate2.py FOLDER PORT THREADS [WORKERS]. FOLDER has model.bin and the two
SentencePiece models, or one."""
import os

import ctranslate2
import sentencepiece

import serving

model, port, threads, workers = serving.arguments()
net = ctranslate2.Translator(model, inter_threads=workers, intra_threads=max(threads // workers, 1), compute_type="int8_float32")


def words(*names):
    path = next(path for path in (os.path.join(model, name) for name in names) if os.path.exists(path))
    return sentencepiece.SentencePieceProcessor(model_file=path)


source, target = words("source.spm", "sentencepiece.model"), words("target.spm", "sentencepiece.model")


def translate(requests):
    rows = source.encode([request["input"] for request in requests], out_type=str)
    made = net.translate_batch(
        rows, beam_size=requests[0].get("beams", 1), max_decoding_length=requests[0]["max_tokens"], max_batch_size=64,
        batch_type="examples",
    )
    written = [one.hypotheses[0] for one in made]
    return [(target.decode(one), len(row), len(one)) for row, one in zip(rows, written)]


serving.serve(port, workers, translate=translate)
