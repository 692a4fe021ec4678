"""sentence-transformers behind FastAPI: serve_sentences.py FOLDER PORT THREADS [WORKERS] [DTYPE]."""
import sys

import sentence_transformers
import torch

import serving

model, port, threads, workers = serving.arguments()
torch.set_num_threads(threads)
dtype = getattr(torch, sys.argv[5] if len(sys.argv) > 5 else "float32")
net = sentence_transformers.SentenceTransformer(model, device="cpu").to(dtype)


def embed(texts):
    made = net.encode(texts, batch_size=32, convert_to_tensor=True, show_progress_bar=False).float().numpy()
    return [(row, 0) for row in made]


serving.serve(port, workers, embed=embed)
