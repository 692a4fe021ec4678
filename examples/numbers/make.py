"""Writes numbers in words and in digits: examples/data/numbers-{train,test}.tsv.gz. No number of the test is in the training file."""
import gzip
import pathlib
import random

ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def words(n):
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + ("-" + ONES[n % 10] if n % 10 else "")
    if n < 1000:
        return ONES[n // 100] + " hundred" + (" and " + words(n % 100) if n % 100 else "")
    rest = n % 1000
    joint = " and " if 0 < rest < 100 else " "
    return words(n // 1000) + " thousand" + (joint + words(rest) if rest else "")


numbers = list(range(1_000_000))
draw = random.Random(1)
chosen = draw.sample(numbers, 11_000)
folder = pathlib.Path(__file__).parent.parent / "data"
for name, part in (("train", chosen[:10_000]), ("test", chosen[10_000:])):
    with gzip.GzipFile(folder / f"numbers-{name}.tsv.gz", "wb", mtime=0) as file:
        file.write("".join(f"{words(n)}\t{n}\n" for n in part).encode())
