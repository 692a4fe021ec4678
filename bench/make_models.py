"""Writes the checkpoints that everybody is measured on: random weights in the shapes of well-known models, in Hugging Face
layout. Usage: make_models.py FOLDER [NAME...]; needs torch and transformers.
"""
import json
import os
import sys

import torch
import transformers


def bert(width, layers, hidden):
    config = transformers.BertConfig(
        vocab_size=30522, hidden_size=width, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=hidden
    )
    return transformers.BertModel(config)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
        num_key_value_heads=4, max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=False,
    )
    torch.set_default_dtype(torch.bfloat16)
    model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model


def marian():
    config = transformers.MarianConfig(
        vocab_size=58101, decoder_vocab_size=58101, d_model=512, encoder_layers=6, decoder_layers=6,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048,
        activation_function="swish", max_position_embeddings=512, scale_embedding=True, static_position_embeddings=True,
        share_encoder_decoder_embeddings=True, pad_token_id=58100, eos_token_id=0, bos_token_id=0,
        decoder_start_token_id=58100, forced_eos_token_id=None, normalize_before=False, normalize_embedding=False,
        add_final_layer_norm=False, add_bias_logits=False,
    )
    return transformers.MarianMTModel(config)


def t5():
    config = transformers.T5Config(
        vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, feed_forward_proj="relu",
        decoder_start_token_id=0, tie_word_embeddings=True,
    )
    return transformers.T5ForConditionalGeneration(config)


MODELS = {
    "bert-base": lambda: bert(768, 12, 3072),
    "minilm-l6": lambda: bert(384, 6, 1536),
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config()),
    "tinyllama-1.1b": llama,
    "marian-base": marian,
    "t5-small": t5,
}

if __name__ == "__main__":
    for name in sys.argv[2:] or MODELS:
        folder = os.path.join(sys.argv[1], name)
        if not os.path.exists(os.path.join(folder, "model.safetensors")):
            torch.manual_seed(0)
            MODELS[name]().eval().save_pretrained(folder, max_shard_size="20GB")
        with open(os.path.join(folder, "config.json")) as file:
            print(name, json.load(file)["model_type"])
