"""How quickly reviews are tokenized on one thread by the packages tokenizers and tiktoken and by bench_tokenizers, in turns.

    .venv/bin/pip install tiktoken==0.14.0
    .venv/bin/python bench/peers/tokenizers_speed.py build/release/bench/bench_tokenizers ../shared/data/imdb [VOCAB.TXT]

The reviews are those of test.csv.gz. Byte-level tokenizers of 30,000 pieces are trained on 5,000 reviews of train.csv.gz;
WordPiece has VOCAB.TXT, a vocabulary of BERT's, or is trained likewise. All contenders give equally many ids. Prints medians.
"""

import csv
import gzip
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")

import tiktoken
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer, PreTrainedTokenizerFast

TURNS = 5
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def reviews(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        column = next(i for i, name in enumerate(next(rows)) if name in ("text", "review"))
        return [row[column] for row in rows]


def train_bytes(texts, expression):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(expression), "isolated", False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=30_000, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")


def train_words(texts):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=30_000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    return BertTokenizer(vocab=tokenizer.get_vocab())


def as_tiktoken(tokenizer, expression):
    byte_of = {}
    spare = 256
    for byte in range(256):
        printable = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        byte_of[chr(byte if printable else spare)] = byte
        spare += not printable
    ranks = {bytes(byte_of[c] for c in piece): i for piece, i in tokenizer.get_vocab().items() if piece != "<|endoftext|>"}
    return tiktoken.Encoding("trained", pat_str=expression, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 0})


def measure(name, contenders, size):
    seconds, ids = {c: [] for c in contenders}, {}
    for _ in range(TURNS):
        for contender, run in contenders.items():
            spent, ids[contender] = run()
            seconds[contender].append(spent)
    assert len(set(ids.values())) == 1, ids
    for contender, its in seconds.items():
        median = statistics.median(its)
        print(f"{name:16} {contender:12} {median:7.3f} s  {size / median / 1e6:7.1f} MB/s  "
              f"({min(its):.3f} to {max(its):.3f} s)", flush=True)


def main():
    program, imdb = sys.argv[1:3]
    texts = reviews(Path(imdb) / "test.csv.gz")
    train = reviews(Path(imdb) / "train.csv.gz")[:5000]
    size = sum(len(text.encode()) for text in texts)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts"
        file.write_bytes(b"".join(struct.pack("<I", len(data)) + data for data in (text.encode() for text in texts)))
        for name, expression in (("GPT-2", GPT2), ("Llama 3", LLAMA3), ("WordPiece", None)):
            if expression:
                tokenizer = train_bytes(train, expression)
            elif len(sys.argv) > 3:
                tokenizer = BertTokenizer.from_pretrained(str(Path(sys.argv[3]).parent))
            else:
                tokenizer = train_words(train)
            tokenizer.save_pretrained(Path(folder) / name)
            process = subprocess.Popen([program, str(Path(folder) / name), str(file)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)

            def adjoin():
                process.stdin.write("\n")
                process.stdin.flush()
                seconds, ids = process.stdout.readline().split()
                return float(seconds), int(ids)

            def timed(encode):
                begin = time.perf_counter()
                ids = sum(encode(text) for text in texts)
                return time.perf_counter() - begin, ids

            backend = tokenizer.backend_tokenizer

            def in_batches():
                begin = time.perf_counter()
                encodings = backend.encode_batch_fast(texts, add_special_tokens=False)
                return time.perf_counter() - begin, sum(len(encoding) for encoding in encodings)

            contenders = {"adjoin": adjoin, "tokenizers": in_batches}
            if expression:
                peer = as_tiktoken(tokenizer, expression)
                contenders["tiktoken"] = lambda: timed(lambda text: len(peer.encode_ordinary(text)))
            measure(name, contenders, size)
            process.stdin.close()
            process.wait()


main()
