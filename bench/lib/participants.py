"""Programs that stay, say when they are ready, and are asked in turns. Whoever is not asked is stopped, so that nobody's idle threads disturb."""
import fcntl
import json
import os
import signal
import subprocess
import sys

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers")
NEEDS = {"torch": ["torch", "transformers"], "onnxruntime": ["onnxruntime", "onnx"], "openvino": ["openvino", "nncf"],
         "ctranslate2": ["ctranslate2"], "llama": ["llama_cpp", "gguf"], "train": ["torch"]}
_asked = {}


def available(who, asked):
    """Why it cannot take part, or nothing."""
    if who == "glassformer":
        return "" if os.path.exists(asked.glassformer) else f"there is no {asked.glassformer}; build it with cargo build --release"
    if who == "trainer":
        return "" if asked.trainer else "no --trainer was given"
    if who not in _asked:
        look = f"import importlib.util as u; print([n for n in {NEEDS[who]!r} if u.find_spec(n) is None])"
        found = subprocess.run([asked.python, "-c", look], capture_output=True, text=True).stdout.strip()
        _asked[who] = "" if found == "[]" else f"not installed ({found})"
    return _asked[who]


class Participant:
    """A program that answers a line of JSON with a line of JSON."""

    def __init__(self, who, dtype, model, asked):
        self.who, self.dtype, self.name = who, dtype, f"{who} {dtype}"
        common = ["--dtype", dtype, "--threads", str(asked.threads)]
        folder = os.path.join(asked.models, model)
        if who == "glassformer":
            command = [asked.glassformer, "bench", "--ask", "--model", folder, *common]
        elif who == "trainer":
            command = [sys.executable, os.path.join(os.path.dirname(__file__), "trainer.py"), asked.trainer, *common]
        else:
            if who == "train":
                folder = os.path.join(asked.models, "gpt2")
            command = [asked.python, os.path.join(PEERS, f"peer_{who}.py"), "--model", folder, *common]
        quiet = None if os.environ.get("BENCH_VERBOSE") else subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True)

    def wait(self):
        """Until it is loaded."""
        line = self.process.stdout.readline()
        return bool(line) and "ready" in json.loads(line)

    def ask(self, case):
        try:
            self.process.stdin.write(json.dumps(case) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            return json.loads(line) if line else {"error": "it ended (BENCH_VERBOSE=1 shows what it says)"}
        except BrokenPipeError:
            return {"error": "it ended (BENCH_VERBOSE=1 shows what it says)"}

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def priority(self, policy, level):
        """Of all its threads; those that it starts later inherit it."""
        try:
            for thread in os.listdir(f"/proc/{self.process.pid}/task"):
                os.sched_setscheduler(int(thread), policy, os.sched_param(level))
        except (FileNotFoundError, ProcessLookupError):
            pass

    def end(self):
        self.signal(signal.SIGCONT)
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Turn:
    """One participant at a time."""

    def __init__(self, participants, asked):
        self.realtime, self.lock = asked.realtime, asked.lock
        for one in participants:
            one.signal(signal.SIGSTOP)

    def take(self, one, case):
        with open(self.lock or os.devnull, "a") as lock:
            if self.lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
            if self.realtime:
                one.priority(os.SCHED_RR, 5)
            one.signal(signal.SIGCONT)
            answer = one.ask(case)
            one.signal(signal.SIGSTOP)
            if self.realtime:
                one.priority(os.SCHED_OTHER, 0)
        return answer
