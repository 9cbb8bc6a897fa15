"""An unmodified Hugging Face model, built from its configuration (nothing is downloaded), on real text.

    planner sweep examples/hugging_face.py --budget 100

A PreTrainedModel returns its loss when the batch holds `labels`, so neither loss() nor optimizer() is needed:
AdamW with torch's defaults trains it. batch(size) draws random windows of Python's language reference. SIZE
is the knob; "distilgpt2" has that model's shape.
"""

from pydoc_data.topics import topics

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

SIZE = "tiny"  # tiny, small or distilgpt2

LAYERS, HEADS, WIDTH, CONTEXT = {
    "tiny": (3, 4, 128, 128),
    "small": (4, 8, 512, 256),
    "distilgpt2": (6, 12, 768, 1024),
}[SIZE]

target = {"samples": 10_000_000, "global_batch_size": 32}
tokens_per_sample = CONTEXT

text = torch.frombuffer(bytearray("\n".join(topics.values()).encode()), dtype=torch.uint8)


def model() -> PreTrainedModel:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=256,
            n_positions=CONTEXT,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def batch(size: int) -> dict[str, torch.Tensor]:
    starts = torch.randint(len(text) - CONTEXT, (size, 1))
    tokens = text[starts + torch.arange(CONTEXT)].long()
    return {"input_ids": tokens, "labels": tokens}
