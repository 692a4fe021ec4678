"""PyTorch's training steps: the base encoder-decoder of "Attention Is All You Need" and a small decoder."""
import peer

options = peer.arguments()

import math

import torch
from torch import nn
from torch.nn import functional

torch.set_num_threads(options.threads)
torch.manual_seed(0)


class Pair(nn.Module):
    """Six and six layers of 512, eight heads, 2048 in the middle; one table of 16,000 words for all."""

    WORDS, WIDTH, TEXTS, LENGTH = 16_000, 512, 64, 32

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(self.WORDS, self.WIDTH)
        nn.init.normal_(self.words.weight, std=self.WIDTH**-0.5)
        self.net = nn.Transformer(self.WIDTH, 8, 6, 6, 2048, 0.0, batch_first=True)
        angles = torch.arange(self.LENGTH)[:, None] * torch.exp(torch.arange(0, self.WIDTH, 2) * (-math.log(1e4) / self.WIDTH))
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(self.LENGTH))

    def forward(self, source, target, answer):
        read = lambda ids: self.words(ids) * self.WIDTH**0.5 + self.places
        rows = self.net(read(source), read(target), tgt_mask=self.mask, tgt_is_causal=True)
        scores = rows @ self.words.weight.t()
        return functional.cross_entropy(scores.flatten(0, 1), answer.flatten(), label_smoothing=0.1)

    def data(self):
        return [torch.randint(0, self.WORDS, (self.TEXTS, self.LENGTH)) for _ in range(3)]


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.join, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, rows):
        texts, length, width = rows.shape
        split = lambda part: part.view(texts, length, self.heads, width // self.heads).transpose(1, 2)
        query, key, value = map(split, self.join(self.first(rows)).split(width, 2))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        rows = rows + self.out(seen.transpose(1, 2).reshape(texts, length, width))
        return rows + self.down(functional.gelu(self.up(self.second(rows))))


class Small(nn.Module):
    """Six layers of 384, six heads, texts of 256 letters, 65 letters."""

    WORDS, WIDTH, TEXTS, LENGTH = 65, 384, 12, 256

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(self.WORDS, self.WIDTH), nn.Embedding(self.LENGTH, self.WIDTH)
        self.layers = nn.ModuleList(Layer(self.WIDTH, 6) for _ in range(6))
        self.norm = nn.LayerNorm(self.WIDTH, bias=False)

    def forward(self, ids, answer):
        rows = self.words(ids) + self.places.weight
        for layer in self.layers:
            rows = layer(rows)
        scores = self.norm(rows) @ self.words.weight.t()
        return functional.cross_entropy(scores.flatten(0, 1), answer.flatten())

    def data(self):
        return [torch.randint(0, self.WORDS, (self.TEXTS, self.LENGTH)) for _ in range(2)]


def train(case):
    net = {"pair": Pair, "small": Small}[case["shape"]]()
    data = net.data()
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.dtype == "bf16"):
            loss = net(*data)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return peer.timed(step), net.TEXTS * net.LENGTH


peer.serve(lambda case: {"train": train}[case["workload"]](case))
