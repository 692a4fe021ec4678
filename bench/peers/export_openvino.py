"""Decoders as OpenVINO models: f32, and with int8 and int4 weights. Run it with an environment that has optimum-intel:
python export_openvino.py FOLDER...
"""
import os
import sys

import nncf
import openvino
from optimum.exporters.openvino import main_export
from optimum.intel import OVConfig

for folder in sys.argv[1:]:
    folder = folder.rstrip("/")
    derived = os.path.join(os.path.dirname(folder), ".derived", os.path.basename(folder))
    whole = os.path.join(derived, "ov_f32", "openvino_model.xml")
    if not os.path.exists(whole):
        # The type is said: without it, models of a billion weights are silently exported in 8 bits.
        main_export(
            folder, os.path.dirname(whole), task="text-generation-with-past", stateful=True, convert_tokenizer=False,
            library_name="transformers", ov_config=OVConfig(dtype="fp32"),
        )
    modes = {
        "int8": {"mode": nncf.CompressWeightsMode.INT8_SYM},
        "int4": {"mode": nncf.CompressWeightsMode.INT4_SYM, "group_size": 64, "ratio": 1.0},
    }
    for name, mode in modes.items():
        path = os.path.join(derived, f"ov_{name}.xml")
        if not os.path.exists(path):
            openvino.save_model(nncf.compress_weights(openvino.Core().read_model(whole), **mode), path)
