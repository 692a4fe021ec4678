"""Glassformer's training steps, asked like a peer: each question runs the example `step` of the crate `train` anew, which takes
a step to warm up, and answers with the median of the others. Usage: trainer.py STEP --dtype f32|bf16 --threads N
"""
import json
import subprocess
import sys

binary, dtype, threads = sys.argv[1], sys.argv[3], sys.argv[5]
SHAPES = {"pair": ("0", "translator"), "small": ("1", "small GPT")}
TOKENS = {"pair": 2048, "small": 3072}
which = {"f32": "0", "bf16": "1"}[dtype]

print('{"ready": true}', flush=True)
for line in sys.stdin:
    case = json.loads(line)
    number, name = SHAPES[case["shape"]]
    steps = [str(max(2, case["repeat"])), threads, which, number]
    ran = subprocess.run([binary, *steps], capture_output=True, text=True)
    found = [text.split() for text in ran.stdout.splitlines() if name in text]
    if found:
        answer = {"seconds": [float(found[0][-2]) / 1e3], "tokens": TOKENS[case["shape"]]}
    else:
        answer = {"error": f"{binary} printed no such line"}
    print(json.dumps(answer), flush=True)
