"""The Hugging Face models behind NeuSight's rows, built from its configurations; see neusight_models.py."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.switch_transformers import modeling_switch_transformers as switch

_GPT = {  # width, layers, heads, positions
    "gpt2_large": (1280, 36, 20, 1024),
    "gpt3_xl": (3072, 24, 24, 2048),
    "gpt3_27": (2560, 32, 32, 2048),
}
_CAPACITY = 64  # tokens that an expert takes of one sequence
_EXPERTS = 4


class MeasuredModule(nn.Module):
    """In training the loss of the measured loop; in inference the model's forward pass."""

    def __init__(
        self, model: nn.Module, *, is_encoder_decoder: bool, needs_mask: bool, is_training: bool
    ) -> None:
        super().__init__()
        self.model = model
        self._is_encoder_decoder = is_encoder_decoder
        self._needs_mask = needs_mask
        self.train(is_training)

    def forward(self, ids: torch.Tensor) -> Any:
        """The cross entropy of predicting the input itself, as measured."""
        given: dict[str, torch.Tensor] = {}
        if self._is_encoder_decoder:
            given["decoder_input_ids"] = ids
        if self._needs_mask:  # of the size that BERT adds to its scores
            given["attention_mask"] = torch.zeros(ids.shape[0], 1, 1, ids.shape[1])
        result = self.model(ids, **given)
        if not self.training:
            return result
        logits = result["prediction_logits"] if "prediction_logits" in result else result["logits"]
        return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), ids.view(-1))


class CapacityExperts(nn.Module):
    """A Switch layer whose experts take fixed numbers of tokens, in place of numbers that depend on values.

    Operations as in the sparse layer of transformers 4.3x: clone, then for each expert a mask, its positions,
    the rows taken, the expert, the rows put back; at last the product with the router's probabilities.
    """

    def __init__(self, measured: nn.Module, *, is_training: bool) -> None:
        super().__init__()
        self.router = measured.router
        self.experts = measured.experts
        self._used = _EXPERTS if is_training else 1

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states of (batch, tokens, width) to the same."""
        mask, probabilities = self._route(hidden)
        rows = hidden.shape[0] * min(_CAPACITY, hidden.shape[1])
        following = hidden.clone().view(-1, hidden.shape[-1])
        for index in range(_EXPERTS):
            chosen = mask[:, :, index].bool().flatten()
            positions = chosen.cumsum(0)  # finding them costs two small kernels, here and on the GPU
            if index < self._used:
                places = positions[:rows]
                found = self.experts[f"expert_{index}"](hidden.view(-1, hidden.shape[-1])[places])
                following = following.index_put((places,), found)
        return probabilities * following.view_as(hidden)

    def _route(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The Top1 router by its operations (its own casts its weights in place, which a trace cannot)."""
        noisy = hidden * torch.empty_like(hidden).uniform_(0.99, 1.01) if self.training else hidden
        probabilities = nn.functional.softmax(self.router.classifier(noisy), dim=-1)
        chosen = nn.functional.one_hot(probabilities.argmax(dim=-1), num_classes=_EXPERTS)
        mask = chosen * (chosen.cumsum(dim=-2) <= _CAPACITY)
        return mask, probabilities.max(dim=-1).values.unsqueeze(-1)


def measured_module(name: str, *, is_training: bool) -> MeasuredModule:
    """The module of a row by the name in NeuSight's table."""
    config, kind = _config(name, is_training=is_training)
    config.use_cache = False  # 4.3x returned keys and values as they were, without a copy
    model = kind.from_config(config, attn_implementation="eager")
    if name == "switchxl4":
        _fix_experts(model, is_training=is_training)
    return MeasuredModule(
        model,
        is_encoder_decoder=name == "switchxl4",
        needs_mask=name == "bert_large",
        is_training=is_training,
    )


def _config(name: str, *, is_training: bool) -> tuple[Any, Any]:
    if name in _GPT:
        width, layers, heads, positions = _GPT[name]
        config = transformers.GPT2Config(n_embd=width, n_layer=layers, n_head=heads, n_positions=positions)
        return config, transformers.AutoModelForCausalLM
    if name == "opt_13":
        config = transformers.OPTConfig(
            hidden_size=2048,
            ffn_dim=8192,
            num_hidden_layers=24,
            num_attention_heads=32,
            word_embed_proj_dim=2048,
        )
        return config, transformers.AutoModelForCausalLM
    if name == "bert_large":
        config = transformers.BertConfig(
            hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16
        )
        head = "AutoModelForPreTraining" if is_training else "AutoModelForSequenceClassification"
        return config, getattr(transformers, head)
    if name == "switchxl4":
        return _switch_config(), transformers.AutoModelForSeq2SeqLM
    raise ValueError(f"NeuSight measured no model {name!r}")


def _switch_config() -> Any:
    return transformers.SwitchTransformersConfig(
        d_model=1024,
        d_ff=16384,
        d_kv=128,
        num_heads=32,
        num_layers=24,
        num_decoder_layers=24,
        num_sparse_encoder_layers=12,
        num_sparse_decoder_layers=12,
        num_experts=_EXPERTS,
        expert_capacity=_CAPACITY,
        vocab_size=32128,
    )


def _fix_experts(model: nn.Module, *, is_training: bool) -> None:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, switch.SwitchTransformersSparseMLP):
                setattr(parent, name, CapacityExperts(child, is_training=is_training))
