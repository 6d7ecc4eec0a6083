"""Draws folders of tokenizers with random files beside them, and writes the ids that transformers gives for a few texts.

usage: tokenizer_folders_oracle.py OUT FIRST COUNT     draws the folders FIRST to FIRST + COUNT - 1

OUT/texts: the texts; a text is its 32-bit length and its bytes.
OUT/N/: a folder. OUT/N.ids: a 32-bit count and 16-bit ids of each text as tokenizer(text, add_special_tokens=False) gives, then as
tokenizer(text) gives, then as the first with split_special_tokens=True; no such file where transformers cannot read the folder.
"""

import io
import json
import os
import random
import struct
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from sentencepiece import SentencePieceTrainer
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

CORPUS = ["the film was good and the plot is bad.", "a film that nobody needs, isn't it?", "It's 2024, 1234567 films\n\nx\ty",
          "nai\u0308ve caf\u00e9 \u00dcber", "\u65e5\u672c \u0440\u0443\u0441", "The Film Was GOOD", "[PAD] <x> </s> NEW"] * 20
TEXTS = ["The Film  was", "na\u00efve CAF\u00c9 cafe\u0301", "\u65e5\u672c\u8a9e the", " the film", "a<x>b <y>  </s>c", "NEW xNEWx New new",
         "[PAD][MASK] [UNK]", "a<|endoftext|> b<|end|>", "  <s> x </s>  two  spaces ", "it's 1234\n\n  x", "\u2581the \u2581", "good_ten ten",
         "<x>", "", " "]
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
NEW = ["<x>", "<y>", "NEW", "[PAD]", "</s>", "<s>", "<|end|>", "the", "ten", "[MASK]", "na\u00efve", "Film", "<|endoftext|>", " two"]
MODEL_TYPES = ["bert", "distilbert", "gpt2", "opt", "llama", "mistral", "phi3", "qwen2", "qwen3"]
ROLES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]


def byte_level(kind):
    tokenizer = Tokenizer(models.BPE())
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    expression = PATTERN % ("{1,3}" if kind == "llama3" else "")
    split = pre_tokenizers.Split(Regex(expression), "isolated")
    tokenizer.pre_tokenizer = last if kind == "gpt2" else pre_tokenizers.Sequence([split, last])
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return json.loads(tokenizer.to_str())


def llama2():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    special = ["<unk>", "<s>", "</s>"]
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=400, special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)], show_progress=False))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in special]
    return state


def word_piece(lower):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(s, tokenizer.token_to_id(s)) for s in ("[CLS]", "[SEP]")])
    return json.loads(tokenizer.to_str())


def sentencepiece_models():
    for options in ({}, {"remove_extra_whitespaces": False, "user_defined_symbols": ["<x>", "ab.c", "ten"]},
                    {"add_dummy_prefix": False}, {"byte_fallback": False, "control_symbols": ["<y>"]}):
        content = io.BytesIO()
        options = {"byte_fallback": True, "remove_extra_whitespaces": True} | options
        SentencePieceTrainer.train(sentence_iterator=iter(text.replace("\n", " ") for text in CORPUS), model_writer=content,
                                   vocab_size=340 if options["byte_fallback"] else 90, model_type="bpe",
                                   normalization_rule_name="identity", num_threads=1, minloglevel=4, **options)
        yield content.getvalue()


class Drawing:
    """One folder: `likely` draws with a probability, `token` a token in one of its forms."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def likely(self, probability):
        return self.draw.random() < probability

    def flags(self, special=None):
        values = {key: self.likely(0.25) for key in ("lstrip", "rstrip", "single_word")}
        values["special"] = self.likely(0.5) if special is None else special
        if self.likely(0.9):
            values["normalized"] = not values["special"] if self.likely(0.8) else self.likely(0.5)
        return values

    def token(self, names=NEW):
        content = self.draw.choice(names)
        if self.likely(0.7):
            return content
        return {"__type": "AddedToken", "content": content} | self.flags()

    def roles(self, settings, probability):
        for role in ROLES:
            if self.likely(probability):
                settings[role] = None if self.likely(0.15) else self.token()

    def special(self, settings):
        if self.likely(0.25):
            settings["additional_special_tokens"] = [self.token() for _ in range(self.draw.randrange(3))]
        if self.likely(0.25):
            settings["extra_special_tokens"] = self.draw.choice(
                [None, [], [self.token()], [self.token(), self.token()], {"z_token": self.token(), "a_token": self.token()}])
        for name in ("z_token", "b_token"):
            if self.likely(0.1):
                settings[name] = self.token()

    def config(self, own_class, added, top):
        settings = {}
        if self.likely(0.75):
            name = own_class if self.likely(0.7) else self.draw.choice(
                ["BertTokenizer", "GPT2Tokenizer", "Qwen2Tokenizer", "LlamaTokenizer", "PreTrainedTokenizer"])
            settings["tokenizer_class"] = name + ("Fast" if self.likely(0.3) or name.startswith("Pre") else "")
        for key in ("do_lower_case", "tokenize_chinese_chars", "add_prefix_space", "legacy", "add_bos_token", "add_eos_token"):
            if self.likely(0.3):
                settings[key] = self.likely(0.5) if self.likely(0.95) else None
        if self.likely(0.3):
            settings["strip_accents"] = self.draw.choice([True, False, None])
        if self.likely(0.15):
            settings["split_special_tokens"] = True
        self.roles(settings, 0.15)
        self.special(settings)
        if self.likely(0.35):
            tokens = {str(token["id"]): {key: token[key] for key in token if key != "id"} for token in added if self.likely(0.9)}
            for number in range(self.draw.randrange(4)):
                place = top + number + (self.draw.randrange(5) if self.likely(0.1) else 0)
                tokens[str(place)] = {"content": self.draw.choice(NEW)} | self.flags()
            settings["added_tokens_decoder"] = tokens
        if self.likely(0.05):
            settings["model_specific_special_tokens"] = {"c_token": self.token()}
        return settings

    def change_json(self, state):
        if self.likely(0.3):
            added = state["added_tokens"]
            content = self.draw.choice([name for name in NEW if all(name != token["content"] for token in added)])
            top = max(max(state["model"]["vocab"].values()), max(token["id"] for token in added))
            place = state["model"]["vocab"].get(content, top + 1)
            added.append({"id": place, "content": content, "normalized": False} | self.flags())
            added.sort(key=lambda token: token["id"])
        if self.likely(0.05):
            self.draw.choice(state["added_tokens"])["id"] += self.draw.choice([-1, 1, 7])
        if self.likely(0.05) and state["model"]["type"] == "WordPiece":  # no piece has this id
            vocab = state["model"]["vocab"]
            del vocab[self.draw.choice([piece for piece in vocab if len(piece) > 5])]
        if self.likely(0.1):
            state["post_processor"] = None
        if self.likely(0.1):
            state["padding"] = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                                "pad_type_id": 0, "pad_token": self.draw.choice(["[PAD]", "<y>"])}

    def model_config(self, model_type):
        settings = {}
        if self.likely(0.9):
            settings["model_type"] = model_type if self.likely(0.8) else self.draw.choice(MODEL_TYPES)
        if self.likely(0.1):
            settings["tokenizer_class"] = self.draw.choice(["GPT2Tokenizer", "Qwen2Tokenizer", "LlamaTokenizerFast", "BertTokenizer"])
        return settings


def write_folder(folder, seed, sources):
    drawing = Drawing(seed)
    kind = drawing.draw.choice([*sources, "sentencepiece"])
    own_class, model_type = {"gpt2": ("GPT2Tokenizer", "gpt2"), "qwen2": ("Qwen2Tokenizer", "qwen2"),
                             "llama3": ("PreTrainedTokenizer", "llama"), "bert": ("BertTokenizer", "bert"),
                             "bert_cased": ("BertTokenizer", "bert")}.get(kind, ("LlamaTokenizer", "llama"))
    folder.mkdir()

    def write(name, value):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")

    added, top = [], 345
    if kind == "sentencepiece":
        (folder / "tokenizer.model").write_bytes(drawing.draw.choice(sources[kind]))
    else:
        state = json.loads(sources[kind])
        vocab, merges = state["model"]["vocab"], state["model"].get("merges")
        if kind in ("llama2", "llama3") or drawing.likely(0.6):
            drawing.change_json(state)
            write("tokenizer.json", state)
        elif merges is None:
            lines = sorted(vocab, key=vocab.get)
            for _ in range(drawing.draw.choice([0, 0, 1, 2])):
                lines[drawing.draw.randrange(50, len(lines))] = ""
            end = drawing.draw.choice(["\n", "\n", "\r\n", " \n", "\u2003\n"])
            (folder / "vocab.txt").write_text("".join(line + end for line in lines), encoding="utf-8", newline="")
        else:
            write("vocab.json", vocab)
            lines = "".join((merge if isinstance(merge, str) else " ".join(merge)) + "\n" for merge in merges)
            (folder / "merges.txt").write_text("#version: 0.2\n" + lines, encoding="utf-8")
        added = state["added_tokens"]
        top = max([max(vocab.values())] + [token["id"] for token in added]) + 1
    if drawing.likely(0.9):
        write("config.json", drawing.model_config(model_type))
    if drawing.likely(0.9):
        write("tokenizer_config.json", drawing.config(own_class, added, top))
    if drawing.likely(0.25):
        settings = {}
        drawing.roles(settings, 0.3)
        drawing.special(settings)
        write("special_tokens_map.json", settings)
    if drawing.likely(0.2):
        names = drawing.draw.sample(NEW, drawing.draw.randrange(1, 4))
        write("added_tokens.json", {name: top + number for number, name in enumerate(names)})


def write_ids(path, folder):
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        lists = [tokenizer(text, **options)["input_ids"] for options in (
            {"add_special_tokens": False}, {}, {"add_special_tokens": False, "split_special_tokens": True}) for text in TEXTS]
    except Exception as error:  # also Rust's panics
        path.with_suffix(".refused").write_text(f"{type(error).__name__}: {error}")
        return
    with open(path, "wb") as file:
        for ids in lists:
            file.write(struct.pack(f"<I{len(ids)}H", len(ids), *ids))


def main():
    out, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    states = {kind: byte_level(kind) for kind in ("gpt2", "qwen2", "llama3")}
    states |= {"llama2": llama2(), "bert": word_piece(True), "bert_cased": word_piece(False)}
    sources = {kind: json.dumps(state) for kind, state in states.items()}
    sources["sentencepiece"] = list(sentencepiece_models())
    with open(out / "texts", "wb") as file:
        for text in TEXTS:
            data = text.encode()
            file.write(struct.pack("<I", len(data)) + data)
    for seed in range(first, first + count):
        write_folder(out / str(seed), seed, sources)
        write_ids(out / f"{seed}.ids", out / str(seed))


main()
