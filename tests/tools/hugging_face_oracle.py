"""What Hugging Face's transformers computes with small models of random weights, for the tests of adjoin to compare with.

usage: hugging_face_oracle.py write FOLDER [--only CASE...]
       hugging_face_oracle.py check FOLDER EXPORTED... [--input ids.json] [--texts texts.json]

`write` makes FOLDER/cases.json, and for each case FOLDER/<case>/model/, as save_pretrained writes it, and the files
expected.safetensors and expected.json beside it: inputs and what the model computes from them in float64, which are logits,
loss, gradients, the losses of 20 steps of training, and greedy continuations of prompts. Without --only it also writes 40
models with random changes of config.json into FOLDER/variations, or ADJOIN_TEST_SCALE times as many.

`check` prints a JSON line for each exported folder. It fails, with one line that says why, where a key is missing, unexpected
or of another shape. --input is a JSON list of samples, each a list of ids: the logits of the first exported folder then go to
FOLDER/0.safetensors, those of the second to FOLDER/1.safetensors, and so on. --texts is a JSON list of texts: the line of a
classifier then has the probabilities of its classes for each, that of a decoder the bits that it needs for a byte of each, the
end of the text included; both computed in float32.
"""

import argparse
import json
import math
import os
import shutil
import sys
import zlib
from functools import partial
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hugging_face_cases import CASES, old_spelling
from hugging_face_variations import write_variation

LENGTHS, PROMPTS = [7, 1, 12, 3, 9], [5, 9]  # tokens of a batch's samples, and of the prompts
NEW_TOKENS, STEPS, VARIATIONS = 64, 20, 40
SMALLEST_GAP = 1e-6  # between the best logit and the next: no rounding of float64 can then change a greedy token
ROTARY = {case.family for case in CASES if "rope_parameters" in case.config}


def expect(condition, message):
    if not condition:
        sys.exit(f"hugging_face_oracle: {message}")


class Float64Only(TorchDispatchMode):
    """Fails where an operation computes in another floating-point type."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        found = {leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()}
        expect(found <= {torch.float64}, f"{operation} gives {found}")
        return result


def frequencies(config):
    """The angle by which each pair of a head's elements turns from one position to the next, in float64.

    By section 3.2.2 of RoFormer, arXiv 2104.09864; linear scaling: arXiv 2306.15595; llama3 scaling: apply_scaling in
    models/llama3/model.py of github.com/meta-llama/llama-models.
    """
    rope = config.rope_parameters
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    frequency = rope["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if rope["rope_type"] == "linear":
        return frequency / rope["factor"]
    if rope["rope_type"] == "llama3":
        turns = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)  # in the original context
        kept = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        expect((kept < 0).any() and (kept > 1).any() and ((kept > 0) & (kept < 1)).any(), "a band of llama3 is empty")
        kept = kept.clamp(0, 1)
        return kept * frequency + (1 - kept) * frequency / rope["factor"]
    return frequency


def compute_in_float64(model):
    """Replaces what transformers computes in float32 although the weights are float64: the angles and RMSNorm.

    So does the softmax of its eager attention in rotary models; PyTorch's own attention, sdpa, has all of it in float64.
    """
    def norm(module, x):
        return module.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + module.variance_epsilon)

    def cosines_and_sines(frequency, x, position_ids):
        angles = position_ids[..., None].double() * frequency
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()

    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = partial(norm, module)
        if type(module).__name__.endswith("RotaryEmbedding"):
            module.forward = partial(cosines_and_sines, frequencies(model.config))


def open_model(folder, family, exact=True, **options):
    """The model of a folder, its weights in float64, and what from_pretrained reports about their keys.

    exact: all of it computes in float64; otherwise, as transformers has it, some of a rotary model computes in float32.
    """
    auto = transformers.AutoModelForSequenceClassification if family == "bert" else transformers.AutoModelForCausalLM
    attention = "sdpa" if exact and family in ROTARY else "eager"
    model, report = auto.from_pretrained(folder, output_loading_info=True, attn_implementation=attention, **options)
    model = model.double().eval()
    if exact:
        compute_in_float64(model)
    return model, report


def logits_of(model, samples):
    """[samples, classes] of a classifier; [rows, vocabulary] of a decoder. From one batch, padded on the right."""
    ids = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(sample) for sample in samples], batch_first=True)
    logits = model(input_ids=ids, attention_mask=mask).logits
    return logits if logits.dim() == 2 else logits[mask.bool()]


def draw_weights(model, generator):
    """Draws every weight, those of biases and norms too, so that each one matters."""
    for name, weight in model.named_parameters():
        weight.data = 0.25 * torch.randn(weight.shape, generator=generator)
        if weight.dim() == 1 and name.endswith(".weight"):
            weight.data += 1


def write_model(case, folder, generator):
    model = getattr(transformers, case.saved_as)(transformers.AutoConfig.for_model(**case.config))
    draw_weights(model, generator)
    model.to(case.dtype).save_pretrained(folder, max_shard_size=case.max_shard_size)
    case.rewrite(folder)


def open_case(case, folder, generator):
    """The model of a case, and the weights of its classifier where they are drawn because the file has none."""
    model, report = open_model(folder, case.family, **({"num_labels": len(case.classes)} if case.classes else {}))
    drawn = dict(model.classifier.named_parameters("drawn.classifier")) if case.classes else {}
    expect(len(report["missing_keys"]) == len(drawn), f"{case.name} lacks {report['missing_keys']}")
    if drawn:
        draw_weights(model.classifier, generator)
    return model.double(), {name: weight.data.clone() for name, weight in drawn.items()}


def draw_inputs(case, config, generator):
    """The ids of a batch, its labels, and prompts."""
    def draw(count, bound, least=0):
        return torch.randint(least, bound, (count,), generator=generator)

    classifies = case.family == "bert"
    first = 1 if classifies else 0  # BERT's id 0 is for padding: transformers gives its embedding no gradient
    ids = draw(sum(LENGTHS), config.vocab_size, first)
    ids[:2] = torch.tensor([config.vocab_size - 1, first])
    labels = draw(len(LENGTHS), config.num_labels) if classifies else draw(len(ids), config.vocab_size)
    return ids, labels, [] if classifies else [draw(length, config.vocab_size) for length in PROMPTS]


def names_in_file(model, folder):
    """The name in the file of each parameter of the opened model; None where the file has none."""
    keys = {key for file in folder.glob("*.safetensors") for key in load_file(file)}
    spellings = {name: (name, old_spelling(name), name.split(".", 1)[1]) for name, _ in model.named_parameters()}
    return {name: next((key for key in spellings[name] if key in keys), None) for name in spellings}


def greedy(model, prompt):
    """The tokens that follow a prompt, where no token ends the text, and the smallest gap between the best logit and the next."""
    model.generation_config = transformers.GenerationConfig(do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=0)
    tokens = model.generate(prompt[None], attention_mask=torch.ones_like(prompt)[None])[0]
    best = logits_of(model, [tokens])[len(prompt) - 1:-1].topk(2)
    new = tokens[len(prompt):]
    expect(len(new) == NEW_TOKENS and torch.equal(best.indices[:, 0], new), "generate does not take the best tokens")
    return {"prompt": prompt.tolist(), "tokens": new.tolist(), "smallest_gap": -best.values.diff().max().item()}


def losses_of_training(model, loss_of):
    """The loss before each step of AdamW on the whole batch."""
    groups = [{"params": [weight], "weight_decay": 0.01 if weight.dim() >= 2 else 0.0} for weight in model.parameters()]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)

    def loss_with_gradients():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    return [optimizer.step(loss_with_gradients).item() for _ in range(STEPS)]


def write_case(case, folder, seed):
    """Writes a case. Gives False where rounding could change a greedy token: another seed is needed."""
    generator = torch.Generator().manual_seed(seed)
    shutil.rmtree(folder, ignore_errors=True)
    write_model(case, folder / "model", generator)
    model, drawn = open_case(case, folder / "model", generator)
    ids, labels, prompts = draw_inputs(case, model.config, generator)
    samples = list(ids.split(LENGTHS))

    def loss_of(model):
        return cross_entropy(logits_of(model, samples), labels)

    with torch.no_grad():
        continuations = [greedy(model, prompt) for prompt in prompts]
        if any(found["smallest_gap"] < SMALLEST_GAP for found in continuations):
            return False
        logits = logits_of(model, samples)
        alone = torch.cat([logits_of(model, [sample]) for sample in samples])
    expect((logits - alone).abs().max() < 1e-12, f"{case.name}: padding changes logits by {(logits - alone).abs().max()}")
    with Float64Only():
        loss = loss_of(model)
        loss.backward()
    tensors = {"ids": ids, "lengths": torch.tensor(LENGTHS), "labels": labels, "logits": logits} | drawn
    tensors |= {f"gradient.{name}": weight.grad.clone() for name, weight in model.named_parameters()}
    expected = {"loss": loss.item(), "names": names_in_file(model, folder / "model")}
    if case.family in ROTARY:
        own, _ = open_model(folder / "model", case.family, exact=False)
        with torch.no_grad():
            tensors["own.logits"], expected["own.loss"] = logits_of(own, samples), loss_of(own).item()
            long = torch.randint(own.config.vocab_size, (128,), generator=torch.Generator().manual_seed(1))
            tensors["long.ids"], tensors["own.long.logits"] = long, logits_of(own, [long])
        difference = (tensors["own.logits"] - logits).abs().max().item()
        expect(0 < difference < 1e-4, f"{case.name}: own logits differ by {difference}")
    if prompts:
        expected["greedy"] = continuations
    expected["losses"] = losses_of_training(model, loss_of)
    save_file(tensors, folder / "expected.safetensors")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    return True


def classes_of(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    return [config.id2label[i] for i in range(config.num_labels)]


def write(folder, only):
    listed = []
    for case in (case for case in CASES if not only or case.name in only):
        seed = zlib.crc32((case.like or case.name).encode())
        expect(any(write_case(case, folder / case.name, seed + i) for i in range(10)), f"{case.name}: ten seeds are of no use")
        listed.append({"name": case.name, "family": case.family, "task": "decoder", "folder": case.name})
        if case.family == "bert":
            listed[-1] |= {"task": "classifier", "classes": case.classes or classes_of(folder / case.name / "model")}
    (folder / "cases.json").write_text(json.dumps(listed, indent=1) + "\n")
    shutil.rmtree(folder / "variations", ignore_errors=True)
    for seed in range(0 if only else VARIATIONS * int(os.environ.get("ADJOIN_TEST_SCALE") or 1)):
        write_variation(folder / "variations" / str(seed), seed)


def measured(model, tokenizer, text):
    """The probabilities of a text's classes, or the bits of a byte that follows its first token."""
    ids = torch.tensor(tokenizer(text)["input_ids"])
    if model.config.model_type == "bert":
        return logits_of(model, [ids])[0].softmax(0).tolist()
    targets = torch.cat([ids[1:], torch.tensor([tokenizer.eos_token_id])])
    told = len(text.encode()) - len(tokenizer.decode(ids[:1]).encode())
    return cross_entropy(logits_of(model, [ids]), targets, reduction="sum").item() / math.log(2) / told


def check_exported(folder, samples, texts, output):
    """What the Auto classes find in an exported folder. Writes the logits of the samples, if any, to `output`."""
    config = transformers.AutoConfig.from_pretrained(folder)
    model, report = open_model(folder, config.model_type, ignore_mismatched_sizes=True)
    for what, keys in report.items():
        expect(not keys, f"{folder}: {what}: {keys if isinstance(keys, (str, dict)) else sorted(keys)}")
    found = {"folder": str(folder), "architecture": config.architectures[0], "model_type": config.model_type}
    if config.model_type == "bert":
        found["classes"] = classes_of(folder)
    if any(folder.glob("tokenizer*")) or (folder / "vocab.txt").exists():
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        found |= {"tokenizer": type(tokenizer).__name__, "tokens": len(tokenizer)}
    if samples or texts:
        own = open_model(folder, config.model_type, exact=False)[0].float()
    if texts:
        with torch.no_grad():
            found["texts"] = [measured(own, tokenizer, text) for text in texts]
    if samples:
        with torch.no_grad():
            save_file({"logits.float64": logits_of(model, samples), "logits.float32": logits_of(own, samples)}, output)
        found["logits"] = str(output)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["write", "check"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("exported", type=Path, nargs="*")
    parser.add_argument("--only", nargs="+", help="the names of the cases to write")
    parser.add_argument("--input", type=Path, help="a JSON list of samples, each a list of ids")
    parser.add_argument("--texts", type=Path, help="a JSON list of texts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.command == "write":
        write(options.folder, options.only)
    samples = [torch.tensor(ids) for ids in json.loads(options.input.read_text())] if options.input else []
    texts = json.loads(options.texts.read_text()) if options.texts else []
    for number, folder in enumerate(options.exported):
        try:
            print(json.dumps(check_exported(folder, samples, texts, options.folder / f"{number}.safetensors")))
        except Exception as error:  # of transformers, which raises all kinds
            expect(False, f"{folder}: {type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
