"""From the start of a process to its first token, and how much memory it took: a fresh process each time, files in the page
cache. GPT-2, a prompt of 16 tokens; and the peak memory of the same with the LLaMA of 1.1 billion weights, and of one text
through BERT."""
import fcntl
import os
import subprocess
import time

from participants import PEERS, available

IDS = " ".join(map(str, range(100, 116)))


def quantized(model, bits, asked):
    """The folder in so few bits, as peers' files are; written once."""
    folder = os.path.join(asked.models, f"{model}-{bits}")
    if not os.path.exists(folder):
        whole = os.path.join(asked.models, model)
        subprocess.run([asked.glassformer, "quantize", whole, "--to", bits, "--out", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def commands(asked):
    """(what, who, dtype, command), for whoever is there."""
    folder = lambda name: os.path.join(asked.models, name)
    threads = ["--threads", str(asked.threads)]
    for what, model, workload in (("start to first token, GPT-2", "gpt2", "prefill"),
                                  ("peak memory, LLaMA-1.1B", "tinyllama-1.1b", "prefill"),
                                  ("peak memory, BERT-base, batch 1", "bert-base", "encode")):
        if not os.path.exists(folder(model)):
            continue
        for dtype in ("f32", "bf16", "int8", "int4"):
            few = dtype in ("int8", "int4")
            path, how = (quantized(model, dtype, asked), "stored") if few else (folder(model), dtype)
            command = [asked.glassformer, "generate", "--model", path, "--ids", IDS, "--max-new-tokens", "1"]
            if workload == "encode":
                command = [asked.glassformer, "forward", "--model", path, "--ids", " ".join(map(str, range(100, 228))),
                           "--out", os.devnull]
            yield what, "glassformer", dtype, [*command, "--dtype", how, *threads]
        peers = [("onnxruntime", "int8"), ("openvino", "int8"), ("ctranslate2", "int8")] if workload == "encode" else [
            ("llama", "q8_0"), ("llama", "q4_0"), ("ctranslate2", "int8"), ("openvino", "int8")]
        for who, dtype in peers:
            script = [asked.python, os.path.join(PEERS, f"peer_{who}.py"), "--model", folder(model), "--dtype", dtype, *threads]
            yield what, who, dtype, script


def once(command, asked, question):
    """Seconds until the process has answered and ended, and its peak memory in bytes."""
    def priority():
        if asked.realtime:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))

    with open(asked.lock or os.devnull, "a") as lock:
        if asked.lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
        began = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   preexec_fn=priority, text=True)
        process.stdin.write(question)
        process.stdin.close()
        answer = process.stdout.readline()
        if "ready" in answer:
            answer = process.stdout.readline()
        seconds = time.perf_counter() - began
        process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
    return seconds, used.ru_maxrss * 1024, status == 0 and "error" not in answer


def startups(asked, tell):
    """Peers answer one question: a prompt of 16 tokens. Each command runs once to warm the page cache."""
    text = ('{"workload":"%s","batch":1,"texts":1,"shortest":%d,"longest":%d,"new":1,"beams":1,"repeat":0}\n')
    everybody = []
    for what, who, dtype, command in commands(asked):
        why = available(who, asked) or ("not asked for" if asked.peers and who not in asked.peers.split(",") + ["glassformer"] else "")
        if why:
            tell.skip(f"{who}: {why}")
            continue
        question = "" if who == "glassformer" else text % (("encode", 128, 128) if "BERT" in what else ("prefill", 16, 16))
        if not once(command, asked, question)[2]:
            tell.skip(f"W5 {what}: {who} {dtype} failed")
            continue
        everybody.append((what, who, dtype, command, question, [], []))
    for number in range(asked.rounds):
        for _, _, _, command, question, seconds, peaks in everybody:
            taken, peak, _ = once(command, asked, question)
            seconds.append(taken)
            peaks.append(peak)
        tell.progress(f"W5: round {number + 1} of {asked.rounds}")
    for what, who, dtype, _, _, seconds, peaks in everybody:
        seconds.sort()
        memory = "memory" in what
        tell.record({
            "workload": f"W5 {what}", "goal": None if memory else 3.0, "model": "", "who": who, "dtype": dtype,
            "threads": asked.threads, "tokens": 1, "median": seconds[len(seconds) // 2], "best": seconds[0], "worst": seconds[-1],
            "runs": len(seconds), "rate": 1 / seconds[len(seconds) // 2], "peak": max(peaks),
        })
