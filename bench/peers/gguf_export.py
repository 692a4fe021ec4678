"""GPT-2 and LLaMA folders as GGUF files, with a vocabulary without meaning, and quantised by llama.cpp itself."""
import ctypes
import os


def words(writer, kind, count):
    """llama.cpp wants words; speed does not depend on which."""
    names, types = [f"t{at}" for at in range(count)], [1] * count
    if kind == "llama":
        names[:3], types[:3] = ["<unk>", "<s>", "</s>"], [2, 3, 3]
        for byte in range(256):
            names[3 + byte], types[3 + byte] = f"<0x{byte:02X}>", 6
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([-float(at) for at in range(count)])
        ends = (1, 2)
    else:
        names[0] = "\u010a"
        names[1:95] = [chr(code) for code in range(33, 127)]
        names[-1], types[-1] = "<|endoftext|>", 3
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_merges(["a b"])
        ends = (count - 1, count - 1)
    writer.add_token_list(names)
    writer.add_token_types(types)
    writer.add_bos_token_id(ends[0])
    writer.add_eos_token_id(ends[1])


def turned(weight, heads):
    """Rows of a head in pairs, as llama.cpp rotates them, instead of halves."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def llama(config, read):
    """Each tensor by llama.cpp's name."""
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    yield "token_embd.weight", read("model.embed_tokens.weight")
    yield "output_norm.weight", read("model.norm.weight")
    yield "output.weight", read("lm_head.weight")
    parts = {
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }
    for layer in range(config["num_hidden_layers"]):
        for ours, theirs in parts.items():
            weight = read(f"model.layers.{layer}.{ours}.weight")
            if theirs in ("attn_q", "attn_k"):
                weight = turned(weight, heads if theirs == "attn_q" else groups)
            yield f"blk.{layer}.{theirs}.weight", weight


def gpt2(config, read):
    """Each tensor by llama.cpp's name; GPT-2's matrices stand the other way around."""
    yield "token_embd.weight", read("transformer.wte.weight")
    yield "position_embd.weight", read("transformer.wpe.weight")
    for end in ("weight", "bias"):
        yield f"output_norm.{end}", read(f"transformer.ln_f.{end}")
    parts = {
        "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
        "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
    }
    for layer in range(config["n_layer"]):
        for ours, theirs in parts.items():
            for end in ("weight", "bias"):
                weight = read(f"transformer.h.{layer}.{ours}.{end}")
                yield f"blk.{layer}.{theirs}.{end}", weight.T if weight.ndim == 2 else weight


def wide(options):
    """The f32 file."""
    path = os.path.join(options.derived, f"{options.name}.f32.gguf")
    if os.path.exists(path):
        return path
    import gguf
    import numpy
    import safetensors.torch

    config, kind = options.config, options.config["model_type"]
    held = safetensors.torch.load_file(os.path.join(options.model, "model.safetensors"))
    writer = gguf.GGUFWriter(path + ".part", kind)
    keys = {"llama": ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings", "intermediate_size"),
            "gpt2": ("n_embd", "n_layer", "n_head", "n_positions", "n_inner")}[kind]
    width, layers, heads, positions, hidden = (config.get(key) for key in keys)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_head_count(heads)
    writer.add_context_length(positions)
    writer.add_feed_forward_length(hidden or 4 * width)
    if kind == "llama":
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_rope_dimension_count(width // heads)
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    else:
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_vocab_size(config["vocab_size"])
    words(writer, kind, config["vocab_size"])
    read = lambda name: held[name].float().numpy()
    for name, weight in {"llama": llama, "gpt2": gpt2}[kind](config, read):
        writer.add_tensor(name, numpy.ascontiguousarray(weight, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.rename(path + ".part", path)
    return path


def quantised(options):
    """The file in the type asked for: q8_0 or q4_0."""
    if options.dtype == "f32":
        return wide(options)
    path = os.path.join(options.derived, f"{options.name}.{options.dtype}.gguf")
    if not os.path.exists(path):
        import llama_cpp

        setting = llama_cpp.llama_model_quantize_default_params()
        setting.ftype = {"q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, "q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0}[options.dtype]
        setting.nthread = options.threads
        failed = llama_cpp.llama_model_quantize(wide(options).encode(), (path + ".part").encode(), ctypes.byref(setting))
        if failed:
            raise RuntimeError(f"llama.cpp cannot quantise to {options.dtype}")
        os.rename(path + ".part", path)
    return path
