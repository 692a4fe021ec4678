"""Writes small worlds and questions about them: examples/data/questions-{train,test}.jsonl.gz. No world of the test is in the training
file: the same people live elsewhere, and like other things."""
import gzip
import json
import pathlib
import random

PEOPLE = "Anna Ben Carla David Emma Felix Greta Hugo Ida Jonas Klara Leo Mia Noah Olga Paul".split()
PLACES = "Paris Rome Vienna Oslo Madrid Lisbon Athens Prague Dublin Warsaw Berlin Helsinki".split()
WORK = ["a baker", "a teacher", "a nurse", "a pilot", "a farmer", "a painter", "a judge", "a sailor"]
LIKES = ["old maps", "green tea", "long walks", "loud music", "cold soup", "red apples", "good books", "warm bread"]
KINDS = [
    (PLACES, "{who} lives in {what}.", "Where does {who} live?"),
    (WORK, "{who} is {what}.", "What is {who}?"),
    (LIKES, "{who} likes {what}.", "What does {who} like?"),
]

draw = random.Random(1)


def world():
    facts = []
    for who in draw.sample(PEOPLE, 3):
        for things, says, asks in draw.sample(KINDS, 2):
            what = draw.choice(things)
            facts.append((says.format(who=who, what=what), asks.format(who=who), what))
    draw.shuffle(facts)
    context = " ".join(says for says, _, _ in facts)
    says, question, answer = draw.choice(facts)
    start = context.index(says) + says.index(answer)
    return {"question": question, "context": context, "answer": answer, "start": start}


folder = pathlib.Path(__file__).parent.parent / "data"
seen = set()
for name, count in (("test", 500), ("train", 10_000)):
    with gzip.GzipFile(folder / f"questions-{name}.jsonl.gz", "wb", mtime=0) as file:
        while count:
            made = world()
            if made["context"] not in seen:
                seen.add(made["context"])
                file.write((json.dumps(made) + "\n").encode())
                count -= 1
