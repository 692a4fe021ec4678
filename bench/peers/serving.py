"""A server around a library, as people write it: FastAPI, and a queue whose waiting texts run as one batch as soon as a worker is free."""
import asyncio
import base64
import concurrent.futures
import sys

import fastapi
import numpy
import uvicorn

MOST = 64


class Batches:
    """Texts that came while workers were busy run together."""

    def __init__(self, run, workers):
        self.run, self.workers = run, workers
        self.waiting = asyncio.Queue()
        self.pool = concurrent.futures.ThreadPoolExecutor(workers)

    def start(self):
        self.tasks = [asyncio.create_task(self.work()) for _ in range(self.workers)]

    async def work(self):
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self.waiting.get()]
            while len(batch) < MOST and not self.waiting.empty():
                batch.append(self.waiting.get_nowait())
            try:
                answers = await loop.run_in_executor(self.pool, self.run, [item for item, _ in batch])
                for (_, future), answer in zip(batch, answers):
                    future.set_result(answer)
            except Exception as fault:
                for _, future in batch:
                    future.set_exception(fault)

    async def ask(self, item):
        future = asyncio.get_running_loop().create_future()
        self.waiting.put_nowait((item, future))
        return await future


def arguments():
    """MODEL PORT THREADS [WORKERS]"""
    model, port, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    return model, port, threads, int(sys.argv[4]) if len(sys.argv) > 4 else 1


def serve(port, workers, embed=None, translate=None):
    """`embed` makes (vector, tokens) of texts; `translate` makes (text, tokens) of requests."""
    app, batches = fastapi.FastAPI(), Batches(embed or translate, workers)
    app.router.lifespan_context = lifespan(batches)

    @app.get("/v1/models")
    async def models():
        return {"object": "list", "data": [{"id": "peer", "object": "model"}]}

    @app.post("/v1/embeddings")
    async def embeddings(request: fastapi.Request):
        body = await request.json()
        vector, tokens = await batches.ask(body["input"])
        vector = numpy.asarray(vector, numpy.float32)
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(vector.tobytes()).decode()
        else:
            vector = vector.tolist()
        data = [{"object": "embedding", "index": 0, "embedding": vector}]
        return fastapi.responses.JSONResponse(
            {"object": "list", "data": data, "model": "peer", "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
        )

    @app.post("/v1/translate")
    async def translations(request: fastapi.Request):
        text, read, written = await batches.ask(await request.json())
        return fastapi.responses.JSONResponse(
            {"translations": [{"text": text}], "usage": {"prompt_tokens": read, "completion_tokens": written}}
        )

    uvicorn.run(app, port=port, log_level="warning", access_log=False)


def lifespan(batches):
    import contextlib

    @contextlib.asynccontextmanager
    async def both(_):
        batches.start()
        yield

    return both
