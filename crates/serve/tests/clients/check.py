"""Programs that people already have, against a running server of tiny models.

    check.py target/release/glassformer [--older FOLDER]

FOLDER has an older version of the package openai, to be asked too."""
import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "../../../../fixtures/tasks")
KEY = "a-key-for-tests"


def served(program):
    """A server of tiny models on a port of its own, and its address."""
    models = [os.path.join(FIXTURES, name) for name in ("story", "talk", "languages", "sentences")]
    command = [program, "serve", *models, "en-zh", "--port", "0", "--threads", "2"]
    process = subprocess.Popen(command, env={**os.environ, "GLASSFORMER_KEYS": KEY}, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "serving on " in line:
            return process, line.split("serving on ")[1].split(",")[0].strip()
    sys.exit("the server did not begin")


def openai_sync(address, expected):
    import openai

    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY)
    assert [model.id for model in client.models.list()][:2] == ["story", "talk"]
    said = [{"role": "user", "content": expected["text"]}]
    asked = {"model": "talk", "messages": said, "temperature": 0, "max_tokens": len(expected["ids"])}
    whole = client.chat.completions.create(**asked)
    assert whole.choices[0].message.content == expected["answer"], whole
    assert whole.usage.completion_tokens == len(expected["ids"])
    pieces = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == expected["answer"]
    assert pieces[-1].usage.completion_tokens == len(expected["ids"])
    told = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    assert len(told.choices[0].logprobs.content[0].top_logprobs) == 2
    text = client.completions.create(model="story", prompt="The cat", max_tokens=4, temperature=0, echo=True, logprobs=1)
    assert text.choices[0].text.startswith("The cat")
    vectors = client.embeddings.create(model="sentences", input=["The cat", "A dog"])
    floats = client.embeddings.create(model="sentences", input=["The cat", "A dog"], encoding_format="float")
    for one, other in zip(vectors.data, floats.data):
        assert max(abs(a - b) for a, b in zip(one.embedding, other.embedding)) < 1e-6
    response = client.responses.create(model="talk", input=expected["text"], temperature=0, max_output_tokens=len(expected["ids"]))
    assert response.output_text == expected["answer"], response
    with client.responses.stream(model="talk", input=expected["text"], temperature=0, max_output_tokens=len(expected["ids"])) as events:
        deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == expected["answer"]
    try:
        client.chat.completions.create(model="none", messages=said)
        sys.exit("a model that is not there answered")
    except openai.NotFoundError as error:
        assert error.param == "model"
    try:
        client.chat.completions.create(**{**asked, "temperature": 9})
        sys.exit("a temperature of 9 was taken")
    except openai.BadRequestError as error:
        assert error.param == "temperature"
    try:
        openai.OpenAI(base_url=f"{address}/v1", api_key="wrong").models.list()
        sys.exit("a wrong key was taken")
    except openai.AuthenticationError:
        pass
    print("openai", openai.__version__)


async def openai_async(address, expected):
    import openai

    client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=KEY)
    said = [{"role": "user", "content": expected["text"]}]

    async def one():
        stream = await client.chat.completions.create(
            model="talk", messages=said, temperature=0, max_tokens=len(expected["ids"]), stream=True
        )
        return "".join([piece.choices[0].delta.content or "" async for piece in stream])

    answers = await asyncio.gather(*[one() for _ in range(20)])
    assert answers == [expected["answer"]] * 20


def langchain(address, expected):
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    chat = ChatOpenAI(model="talk", base_url=f"{address}/v1", api_key=KEY, temperature=0, max_tokens=len(expected["ids"]))
    assert chat.invoke(expected["text"]).content == expected["answer"]
    assert "".join(piece.content for piece in chat.stream(expected["text"])) == expected["answer"]
    # Otherwise it sends ids of another vocabulary.
    embed = OpenAIEmbeddings(model="sentences", base_url=f"{address}/v1", api_key=KEY, check_embedding_ctx_length=False)
    assert len(embed.embed_documents(["The cat", "A dog"])) == 2
    print("langchain-openai")


def ollama_client(address, expected):
    import ollama

    client = ollama.Client(host=address, headers={"Authorization": f"Bearer {KEY}"})
    assert client.list().models[0].model == "story"
    said = [{"role": "user", "content": expected["text"]}]
    options = {"temperature": 0, "num_predict": len(expected["ids"])}
    assert client.chat(model="talk", messages=said, options=options).message.content == expected["answer"]
    pieces = client.chat(model="talk", messages=said, options=options, stream=True)
    assert "".join(piece.message.content for piece in pieces) == expected["answer"]
    assert client.generate(model="talk", prompt=expected["text"], options=options).response == expected["answer"]
    assert len(client.embed(model="sentences", input=["The cat", "A dog"]).embeddings) == 2
    assert "completion" in client.show("talk").capabilities
    print("ollama")


def prometheus(address):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    request = urllib.request.Request(f"{address}/metrics", headers={"Authorization": f"Bearer {KEY}"})
    families = {family.name for family in text_string_to_metric_families(urllib.request.urlopen(request).read().decode())}
    assert {"requests", "time_to_first_token_seconds", "num_requests_running", "generation_tokens"} <= families, families
    print("prometheus")


def curl(address):
    command = ["curl", "-sf", f"{address}/v1/translate", "-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json"]
    answer = subprocess.run([*command, "-d", '{"model": "en-zh", "input": "Hello"}'], capture_output=True, check=True).stdout
    assert json.loads(answer)["translations"][0]["text"] == "你好", answer
    print("curl")


def main():
    if sys.argv[2:3] == ["--older"]:
        sys.path.insert(0, sys.argv[3])
    with open(os.path.join(FIXTURES, "talk/expected.json"), encoding="utf-8") as file:
        expected = json.load(file)[0]
    process, address = served(sys.argv[1])
    try:
        openai_sync(address, expected)
        asyncio.run(openai_async(address, expected))
        if sys.argv[2:3] != ["--older"]:
            langchain(address, expected)
            ollama_client(address, expected)
            prometheus(address)
            curl(address)
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait() == 0


main()
