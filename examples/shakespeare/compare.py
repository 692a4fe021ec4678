"""The same training in PyTorch: nanoGPT's smallest setting, of the size and with the schedule of train.toml beside this file.

Written for this comparison alone: a GPT of four layers, AdamW, windows of 64 characters drawn at random, cosine schedule with
warm-up. It prints what a step takes and, at the end, the mean loss over all of the validation text in pieces of 64.

    python examples/shakespeare/compare.py --threads 2 [--steps 2000] [--until 300]
"""
import argparse
import gzip
import math
import pathlib
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=2000, help="of the schedule")
parser.add_argument("--until", type=int, help="stop after so many steps")
parser.add_argument("--seed", type=int, default=1337)
options = parser.parse_args()
torch.set_num_threads(options.threads)
torch.manual_seed(options.seed)

WIDTH, HEADS, LAYERS, LENGTH, TEXTS = 128, 4, 4, 64, 12
RATE, WARMUP, LAST, DECAY, CLIP = 1e-3, 100, 0.1, 0.1, 1.0


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.join, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, rows):
        texts, length, width = rows.shape
        split = lambda part: part.view(texts, length, HEADS, width // HEADS).transpose(1, 2)
        query, key, value = map(split, self.join(self.first(rows)).split(width, 2))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        rows = rows + self.out(seen.transpose(1, 2).reshape(texts, length, width))
        return rows + self.down(functional.gelu(self.up(self.second(rows)), approximate="tanh"))


class Small(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words, self.places = nn.Embedding(words, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * LAYERS) if last else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, ids, answer):
        rows = self.words(ids) + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            rows = layer(rows)
        scores = self.norm(rows) @ self.words.weight.t()
        return functional.cross_entropy(scores.flatten(0, 1), answer.flatten())


folder = pathlib.Path(__file__).parent.parent / "data"
read = lambda part: gzip.open(folder / f"tiny-shakespeare-{part}.txt.gz", "rt").read()
train, valid = read("train"), read("valid")
letters = {letter: at for at, letter in enumerate(sorted(set(train + valid)))}
train, valid = (torch.tensor([letters[letter] for letter in text]) for text in (train, valid))

net = Small(len(letters))
decays = lambda yes: [weight for weight in net.parameters() if (weight.dim() > 1) == yes]
groups = [{"params": decays(True), "weight_decay": DECAY}, {"params": decays(False), "weight_decay": 0.0}]
optimiser = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.99), fused=True)


def rate(step):
    if step <= WARMUP:
        return RATE * step / WARMUP
    done = (step - WARMUP) / (options.steps - WARMUP)
    return RATE * (LAST + (1 - LAST) * 0.5 * (1 + math.cos(math.pi * done)))


seconds, started = [], time.perf_counter()
for step in range(1, (options.until or options.steps) + 1):
    begun = time.perf_counter()
    starts = torch.randint(len(train) - LENGTH - 1, (TEXTS,))
    pieces = torch.stack([train[start : start + LENGTH + 1] for start in starts])
    for group in optimiser.param_groups:
        group["lr"] = rate(step)
    loss = net(pieces[:, :-1], pieces[:, 1:])
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), CLIP)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    seconds.append(time.perf_counter() - begun)
    if step % 250 == 0:
        print(f"step {step}: loss {loss.item():.4f}", flush=True)
whole = time.perf_counter() - started
print(f"{len(seconds)} steps in {whole:.1f} s, {TEXTS * LENGTH * len(seconds) / whole:.0f} rows/s, "
      f"a step {1e3 * statistics.median(seconds):.2f} ms")

pieces = valid[: (len(valid) - 1) // LENGTH * LENGTH + 1]
ids, answer = pieces[:-1].view(-1, LENGTH), pieces[1:].view(-1, LENGTH)
with torch.no_grad():
    losses = [net(*both).item() * len(both[0]) for both in zip(ids.split(64), answer.split(64))]
print(f"validation loss {sum(losses) / len(ids):.4f} over {len(ids)} pieces")
