"""ONNX Runtime: encoders, f32 with fused operators and int8 (dynamic)."""
import os

import peer

options = peer.arguments()

import onnxruntime

from onnx_export import encoder


def fused():
    path = os.path.join(options.derived, "encoder_fused.onnx")
    if not os.path.exists(path):
        from onnxruntime.transformers import optimizer

        config = options.config
        made = optimizer.optimize_model(
            encoder(options), model_type="bert", num_heads=config["num_attention_heads"],
            hidden_size=config["hidden_size"], opt_level=1,
        )
        made.save_model_to_file(path)
    return path


def narrow():
    path = os.path.join(options.derived, "encoder_int8.onnx")
    if not os.path.exists(path):
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(fused(), path, weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
    return path


setting = onnxruntime.SessionOptions()
setting.intra_op_num_threads = options.threads
setting.inter_op_num_threads = 1
setting.add_session_config_entry("session.intra_op.allow_spinning", "1")
path = {"f32": fused, "int8": narrow}[options.dtype]()
session = onnxruntime.InferenceSession(path, setting, providers=["CPUExecutionProvider"])


def encode(case):
    batches = peer.padded(case, peer.texts(case, options.config["vocab_size"]))

    def work():
        for ids, mask in batches:
            session.run(None, {"input_ids": ids, "attention_mask": mask})

    return peer.timed(work), int(sum(mask.sum() for _, mask in batches))


peer.serve(lambda case: {"encode": encode}[case["workload"]](case))
