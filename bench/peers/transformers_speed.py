"""Times transformers beside `adjoin`: training steps of a BERT, or greedy tokens of a GPT-2, of random weights.

usage: transformers_speed.py step LAYERS STEPS | generate FOLDER TOKENS
Prints seconds: the median of STEPS steps after two of warm-up, of a batch of 8 x 128 tokens in float32, with AdamW and
clipped gradients; or of writing TOKENS tokens to a prompt of eight, the least of three times. `folder FOLDER` writes the
model that `generate` reads.
"""
import os
import statistics
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers


def time_steps(layers, steps):
    config = transformers.BertConfig(num_hidden_layers=layers, num_labels=2)
    model = transformers.BertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)
    ids, labels = torch.randint(1000, 30000, (8, 128)), torch.randint(0, 2, (8,))
    seconds = []
    for _ in range(steps + 2):
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[2:])


def write_folder(folder):
    """GPT-2's shape, with a tokenizer of bytes in its place."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate([*alphabet, "<|endoftext|>"])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
    transformers.GPT2LMHeadModel(transformers.GPT2Config(eos_token_id=256, bos_token_id=256)).save_pretrained(folder)
    fast.save_pretrained(folder)


def time_generation(folder, tokens):
    model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    prompt = torch.tensor([[10, 20, 30, 40, 50, 60, 70, 80]])
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        model.generate(prompt, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0)
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


if __name__ == "__main__":
    torch.set_num_threads(2)
    torch.manual_seed(0)
    match sys.argv[1:]:
        case ["step", layers, steps]:
            print(time_steps(int(layers), int(steps)))
        case ["folder", folder]:
            write_folder(folder)
        case ["generate", folder, tokens]:
            print(time_generation(folder, int(tokens)))
        case _:
            sys.exit(__doc__)
