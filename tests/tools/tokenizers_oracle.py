"""Trains a tokenizer of each kind, writes its folder as transformers does, and writes the ids that transformers gives for
random texts and for reviews, and what the package tokenizers makes of each code point.

usage: tokenizers_oracle.py REVIEWS OUT     REVIEWS: train.csv.gz of the reviews

OUT/texts: RANDOM_TEXTS random texts and then the reviews; a text, here and below, is its 32-bit length and its bytes.
OUT/KIND/: a tokenizer; OUT/KIND.json: what transformers makes of older files in it.
OUT/KIND.prompts: of the random texts and of all or the first reviews a 32-bit count and 16-bit ids, as tokenizer(text) gives.
OUT/KIND.documents: of the random texts, as tokenizer(text, add_special_tokens=False, split_special_tokens=True) gives.
OUT/classes, OUT/numeric, OUT/word_characters: a byte a code point.
OUT/nfc: pairs of texts, as they are and normalised. OUT/words.OPTIONS: as they are, and BERT's words with line ends between.
"""

import csv
import gzip
import io
import json
import os
import random
import shutil
import struct
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
from sentencepiece import SentencePieceTrainer
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertTokenizer, GPT2Tokenizer, LlamaTokenizer, PreTrainedTokenizerFast, Qwen2Tokenizer

SCALE = int(os.environ.get("ADJOIN_TEST_SCALE", 1))
REVIEWS = 1_000 * SCALE
FEW_REVIEWS = 100 * SCALE  # for the kinds that are variants of others
RANDOM_TEXTS = 1_000 * SCALE
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|eot|>", "<s>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "<tool>"]
ODD_SPACES = " \t\n\r\x0b\x0c\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"
APOSTROPHES = ["'s", "'S", "'\u017f", "'t", "'RE", "'ve", "'M", "'ll", "'LL", "'lL", "'d", "'", "\u2019s", "'x", "'r", "'l"]


def read_reviews(path):
    csv.field_size_limit(1 << 30)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = next(rows)
        column = next(i for i, name in enumerate(header) if name in ("text", "review"))
        return [row[column] for _, row in zip(range(REVIEWS), rows)]


POINTS = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
# Beyond these planes and the first of plane 14 nothing is assigned but for private use.
ASSIGNED = [c for c in POINTS if c < 0x33480 or 0xe0000 <= c < 0xe1000 or c % 97 == 0]
if SCALE == 1:  # all others are then of no class
    POINTS = ASSIGNED


def write_texts(path, texts):
    with open(path, "wb") as file:
        for text in texts:
            data = text.encode()
            file.write(struct.pack("<I", len(data)) + data)


def members(pre_tokenizer):
    """The code points that a pre-tokenizer cuts out, one byte each."""
    table = np.zeros(0x110000, dtype=np.uint8)
    for piece, (begin, end) in pre_tokenizer.pre_tokenize_str("".join(map(chr, POINTS))):
        table[[ord(c) for c in piece]] = 1
    return table


def write_code_points(out):
    def removed(expression):
        return pre_tokenizers.Split(Regex(expression), "removed", True)

    letters, numbers, spaces = (members(removed(e)) for e in (r"\p{L}+", r"\p{N}+", r"\s+"))
    (letters + 2 * numbers + 3 * spaces).tofile(out / "classes")
    numeric = np.zeros(0x110000, dtype=np.uint8)
    pieces = pre_tokenizers.Digits(individual_digits=False).pre_tokenize_str("".join(map(chr, POINTS)))
    first = pieces[0][0].startswith("0")
    for number, (piece, _) in enumerate(pieces):  # runs of digits and of others take turns
        numeric[[ord(c) for c in piece]] = (number % 2 == 0) == first
    numeric.tofile(out / "numeric")

    single = Tokenizer(models.BPE({"a": 0}, []))
    single.add_tokens([AddedToken("#", single_word=True, normalized=False)])
    words = np.zeros(0x110000, dtype=np.uint8)  # those beside which a single word is none
    words[POINTS] = 1
    for begin, _ in single.encode(" ".join("#" + chr(c) for c in POINTS)).offsets:
        words[POINTS[begin // 3]] = 0
    words.tofile(out / "word_characters")

    def chunks(points, text_of):
        return ["".join(map(text_of, points[i:i + 4096])) for i in range(0, len(points), 4096)]

    nfd, nfc = normalizers.NFD(), normalizers.NFC()
    texts = chunks(POINTS, lambda c: chr(c) + "\u0345" + chr(c) + "\u0334")
    texts += [nfd.normalize_str(text) for text in chunks(ASSIGNED, chr)]
    write_texts(out / "nfc", [t for text in texts for t in (text, nfc.normalize_str(text))])

    texts = chunks(ASSIGNED, lambda c: "A" + chr(c) + "b\xc9" + chr(c) + " ")
    for lower, strip, apart in ((True, True, True), (False, False, True), (True, False, False), (False, True, False)):
        normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=strip, handle_chinese_chars=apart)
        words = pre_tokenizers.BertPreTokenizer()
        cut = ["".join(word + "\n" for word, _ in words.pre_tokenize_str(normalizer.normalize_str(t))) for t in texts]
        name = f"words.{lower:d}{strip:d}{apart:d}"
        write_texts(out / name, [t for pair in zip(texts, cut) for t in pair])


def random_texts(draw):
    def one_code_point():
        while True:
            c = draw.choice([draw.randrange(0x80), draw.randrange(0x300), draw.randrange(0x3000),
                             draw.randrange(0x10000), draw.randrange(0x110000)])
            if not 0xd800 <= c < 0xe000:
                return chr(c)

    marks = [chr(c) for c in range(0x300, 0x370)] + ["\u0f71", "\u0f72", "\u1dfa", "\U00011938", "\u1161", "\u11a8"]
    pools = [
        lambda: one_code_point(),
        lambda: draw.choice("abcdefghijklmnopqrstuvwxyzABCDE\xe9\xc5\u0130\u1e9e\u03a3\uac00\u1100\u4e2d"),
        lambda: draw.choice(marks),
        lambda: draw.choice(ODD_SPACES) * draw.randrange(1, 4),
        lambda: draw.choice("0123456789\u0663\u00b2\u2167\U0001d7d8\U00011de1") * draw.randrange(1, 6),
        lambda: draw.choice(APOSTROPHES),
        lambda: draw.choice(SPECIAL),
        lambda: draw.choice(".,!?-_#$%&()*+/<=>[]^`{|}~\"\u2581\u2014\u20ac"),
        lambda: draw.choice(["the", " film", " movie", "<br />", " I", "ing", "\u2581", "<0x41>", "nau\u0308ve", " filmmovie"]),
        lambda: draw.choice(["ha", "!", "-", "a", "."]) * draw.randrange(1, 15),
        lambda: " ",
    ]
    texts = ["", " ", "  ", "\n", "\u2581", "'", "a" * 300, " " * 300, "\u0301" * 300, "1" * 300]
    while len(texts) < RANDOM_TEXTS:
        weights = [draw.random() ** 3 for _ in pools]
        length = draw.choice([1, 2, 3, 5, 8, 13, 21, 34])
        texts.append("".join(draw.choices(pools, weights)[0]() for _ in range(length)))
    return texts


def train_bytes(texts, size, pre_tokenizer, normalizer=None, special=("<|endoftext|>", "<|eot|>"), alphabet=True, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    initial = pre_tokenizers.ByteLevel.alphabet() if alphabet else []
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=list(special),
                                                             initial_alphabet=initial, show_progress=False))
    return tokenizer


def model_of(tokenizer):
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def with_beginning(tokenizer, token):
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, tokenizer.token_to_id(token))])
    return tokenizer


def train_characters(texts, size):
    """The vocabulary and merges of sentencepiece's kind, with a piece for each byte."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=special,
                                                             show_progress=False))
    return model_of(tokenizer)


def train_words(texts, lower):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=4000, special_tokens=special,
                                                                   show_progress=False))
    return tokenizer.get_vocab()


def legacy_llama(vocab, merges):
    tokenizer = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=with_beginning(tokenizer, "<s>"), eos_token="</s>")


def every_pair(pre_tokenizer, normalizer=None):
    """A tokenizer that joins each two bytes of a word, so that its ids tell where each word ends."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(a, b) for a in alphabet for b in alphabet[:240]]
    vocab = {piece: i for i, piece in enumerate(["<|endoftext|>", *alphabet, *(a + b for a, b in merges)])}
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")


def older_folders(out, vocab, merges, words, reviews):
    """Folders without a tokenizer.json: their classes, names and settings."""
    def folder(name, files, **settings):
        (out / name).mkdir()
        for file, content in files.items():
            (out / name / file).write_text(content, encoding="utf-8")
        (out / name / "tokenizer_config.json").write_text(json.dumps(settings))
        return out / name

    files = {"vocab.json": json.dumps(vocab), "merges.txt": "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges)}
    top = max(vocab.values())
    added = {str(top + 1 + i): {"content": token, "special": token != "<tool>", "lstrip": False, "rstrip": False,
                                "normalized": False, "single_word": False}
             for i, token in enumerate(["<|im_start|>", "<|im_end|>", "<tool>"])}
    yield "gpt2_files", GPT2Tokenizer.from_pretrained(folder(
        "gpt2_files", files, tokenizer_class="GPT2Tokenizer", add_bos_token=True, bos_token="<|eot|>", pad_token="<pad>",
        eos_token="<end>", unk_token="<?>", additional_special_tokens=["<tool>", "<s>"]))
    yield "qwen2_files", Qwen2Tokenizer.from_pretrained(folder(
        "qwen2_files", files, tokenizer_class="Qwen2TokenizerFast", eos_token="<|im_end|>", added_tokens_decoder=added))
    yield "wordpiece_files", BertTokenizer.from_pretrained(folder(
        "wordpiece_files", {"vocab.txt": "".join(piece + "\n" for piece in sorted(words, key=words.get))},
        tokenizer_class="BertTokenizer", do_lower_case=False))
    model = io.BytesIO()
    repeated = [sign * count for sign in ("ha", "!", "-", "a", ".") for count in range(2, 15)] * 20  # joined in several ways
    SentencePieceTrainer.train(sentence_iterator=iter(text.replace("\n", " ") for text in reviews + repeated),
                               model_writer=model,
                               vocab_size=2000, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                               user_defined_symbols=["<tool>"], num_threads=1, minloglevel=4)
    for legacy, more in ((True, {}), (False, {"additional_special_tokens": ["[MASK]"]})):
        place = folder(f"llama_files_{legacy}", {}, tokenizer_class="LlamaTokenizer", add_bos_token=True, legacy=legacy,
                       bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="[PAD]", **more)
        (place / "tokenizer.model").write_bytes(model.getvalue())
        yield place.name, LlamaTokenizer.from_pretrained(place)


def tokenizers_of_all_kinds(texts, out, reviews):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words = train_words(texts, lower=True), train_words(texts, lower=False)
    yield "wordpiece_uncased", BertTokenizer(vocab=words[0])
    yield "wordpiece_cased", BertTokenizer(vocab=words[1], do_lower_case=False)
    yield "wordpiece_accents", BertTokenizer(vocab=words[0], strip_accents=False, tokenize_chinese_chars=False)
    yield "wordpiece_cased_stripped", BertTokenizer(vocab=words[1], do_lower_case=False, strip_accents=True)

    vocab, merges = model_of(train_bytes(texts, 3000, byte_level))
    yield "gpt2", GPT2Tokenizer(vocab=vocab, merges=merges)
    yield "gpt2_prefix", GPT2Tokenizer(vocab=vocab, merges=merges, add_prefix_space=True, add_bos_token=True)
    split = lambda expression: pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(expression), "isolated", False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    llama3 = with_beginning(train_bytes(texts, 3000, split(LLAMA3), ignore_merges=True), "<|endoftext|>")
    # A piece that merges do not lead to, which ignore_merges gives all the same.
    state, piece = json.loads(llama3.to_str()), "\u0120filmmovie"
    model = state["model"]
    model["vocab"].setdefault(piece, max(model["vocab"].values()) + 1)
    model["merges"] = [merge for merge in model["merges"] if "".join(merge) != piece]
    yield "llama3", PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(state)), eos_token="<|eot|>",
                                            bos_token="<|endoftext|>")
    vocab, merges = model_of(train_bytes(texts, 3000, split(LLAMA3.replace("{1,3}", "")), normalizers.NFC()))
    qwen2 = Qwen2Tokenizer(vocab=vocab, merges=merges)
    qwen2.add_tokens([AddedToken("<tool>", special=False), AddedToken("nau\u0308ve", special=False, normalized=True)])
    qwen2.add_tokens([AddedToken("[MASK]", special=True, lstrip=True, rstrip=True)], special_tokens=True)
    yield "qwen2", qwen2
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    yield "digits", PreTrainedTokenizerFast(tokenizer_object=train_bytes(texts, 2000, digits), eos_token="<|eot|>")
    runs = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), byte_level])
    few = train_bytes(texts[:50], 400, runs, alphabet=False, special=("<unk>", "</s>"), unk_token="<unk>", fuse_unk=True)
    yield "digit_runs", PreTrainedTokenizerFast(tokenizer_object=few, eos_token="</s>")

    vocab, merges = train_characters(texts, 3000)
    yield "llama", LlamaTokenizer(vocab=vocab, merges=merges, add_bos_token=True)
    yield "llama_legacy", legacy_llama(vocab, merges)

    yield "pairs_gpt2", every_pair(byte_level)
    yield "pairs_llama3", every_pair(split(LLAMA3))
    yield "pairs_qwen2", every_pair(split(LLAMA3.replace("{1,3}", "")), normalizers.NFC())
    yield "pairs_digits", every_pair(digits)
    yield "pairs_digit_runs", every_pair(runs)
    yield from older_folders(out, *model_of(train_bytes(texts, 2000, byte_level)), words[1], reviews)


def write_ids(path, lists):
    with open(path, "wb") as file:
        for ids in lists:
            file.write(struct.pack("<I", len(ids)))
            file.write(np.asarray(ids, dtype="<u2").tobytes())


def encode(tokenizer, texts, as_prompts):
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = not as_prompts
    ids = [encoding.ids for encoding in backend.encode_batch_fast(texts, add_special_tokens=as_prompts)]
    backend.encode_special_tokens = False
    for i in range(0, len(texts), 997):  # that this is transformers' own
        ours = tokenizer(texts[i], add_special_tokens=as_prompts, split_special_tokens=not as_prompts).input_ids
        assert ids[i] == ours, texts[i]
    return ids


def main():
    reviews = read_reviews(sys.argv[1])
    out = Path(sys.argv[2])
    random_ones = random_texts(random.Random(7))
    texts = random_ones + reviews
    write_texts(out / "texts", texts)
    write_code_points(out)
    whole = {"wordpiece_uncased", "wordpiece_cased", "gpt2", "llama3", "qwen2", "digits", "llama"}
    for kind, tokenizer in tokenizers_of_all_kinds(reviews[:1000] + random_ones[:2000], out, reviews[:1000]):
        if (out / kind).exists():  # older files, of which transformers makes this
            (out / f"{kind}.json").write_text(tokenizer.backend_tokenizer.to_str())
        else:
            tokenizer.save_pretrained(out / kind)
        write_ids(out / f"{kind}.prompts",
                  encode(tokenizer, texts if kind in whole else texts[:RANDOM_TEXTS + FEW_REVIEWS], as_prompts=True))
        if not kind.startswith("wordpiece"):
            write_ids(out / f"{kind}.documents", encode(tokenizer, random_ones, as_prompts=False))


main()
