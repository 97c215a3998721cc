import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fleetsim import rng
from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.text import Attention, Block

SMALL_LSTM = models.LstmSettings(embedding=3, hidden=5, layers=2)
SMALL_GPT2 = models.Gpt2Settings(layers=2, heads=2, width=8)
BOTH: list[models.ModelSettings] = [SMALL_LSTM, SMALL_GPT2]


def build(
    model: models.ModelSettings,
    context: int = 6,
    words: int = 11,
    *,
    is_sequence: bool = True,
    seed: int = 0,
) -> nn.Module:
    return build_model(model, SampleForm((context,), words, words, is_sequence), seed=seed)


def tokens(num: int) -> Tensor:
    return torch.from_numpy(rng.stream(1, "test").integers(11, size=(num, 6)))


def test_the_lstm_has_leafs_layers_with_the_two_biases_of_torch() -> None:
    # TalwalkarLab/leaf, models/shakespeare/stacked_lstm.py; TensorFlow's LSTM has one bias a unit.
    # With the 90 tokens of TensorFlow Federated it has 820,522 parameters (figure of the literature
    # from memory, unchecked; it is this formula with one bias).
    def formula(vocabulary: int, biases: int) -> int:
        gates = 4 * 256
        first, second = gates * (8 + 256 + biases), gates * (256 + 256 + biases)
        return vocabulary * 8 + first + second + (256 + 1) * vocabulary

    module = build(models.LstmSettings(), 80, 80)

    assert formula(90, biases=1) == 820_522
    assert flatten(module).size == formula(80, biases=2)


def test_gpt2_small_has_the_published_number_of_parameters() -> None:
    # 124,439,808 weights are in huggingface.co/openai-community/gpt2, which OpenAI calls 124M
    with torch.device("meta"):
        small = models.Gpt2Settings().build(SampleForm((1024,), 50_257, 50_257, is_sequence=True))

    assert sum(parameter.numel() for parameter in small.parameters()) == 124_439_808


@pytest.mark.parametrize("model", BOTH)
def test_there_are_logits_at_every_position_or_at_the_last_alone(model):
    each, last = (build(model, is_sequence=is_sequence) for is_sequence in (True, False))
    samples = tokens(4)

    assert each(samples).shape == (4, 6, 11)
    torch.testing.assert_close(last(samples), each(samples)[:, -1])


@pytest.mark.parametrize("model", BOTH)
def test_no_position_sees_what_comes_after_it(model: models.ModelSettings) -> None:
    module = build(model)
    samples = tokens(4)
    changed = samples.clone()
    changed[:, 3:] = (changed[:, 3:] + 1) % 11

    before, after = module(samples), module(changed)

    torch.testing.assert_close(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3:], before[:, 3:])


def test_a_block_equals_torchs_encoder_layer_with_normalised_inputs_and_tanh_gelu() -> None:
    block = Block(8, 2)
    gelu = nn.GELU("tanh")
    theirs = nn.TransformerEncoderLayer(
        8, 2, 32, dropout=0.0, activation=gelu, batch_first=True, norm_first=True
    )
    pairs = {
        "self_attn.in_proj_": block.attention.qkv,
        "self_attn.out_proj.": block.attention.out,
        "linear1.": block.mlp.fc,
        "linear2.": block.mlp.out,
        "norm1.": block.norm1,
        "norm2.": block.norm2,
    }
    states = {prefix: layer.state_dict() for prefix, layer in pairs.items()}
    theirs.load_state_dict({a + b: value for a, of in states.items() for b, value in of.items()})
    hidden = torch.from_numpy(rng.stream(1, "test").standard_normal((3, 5, 8), np.float32))
    mask = nn.Transformer.generate_square_subsequent_mask(5)

    torch.testing.assert_close(block(hidden), theirs(hidden, src_mask=mask, is_causal=True))


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_attention_equals_its_definition(backend: SDPBackend) -> None:
    """Vaswani et al. 2017, equation 1, over the positions up to each; with its gradient."""
    layer = Attention(6, heads=2).double()
    hidden = torch.from_numpy(rng.stream(1, "test").standard_normal((3, 5, 6))).requires_grad_()
    seen = torch.zeros(3, 5, 6, dtype=torch.float64)
    query, key, value = (part.unflatten(2, (2, 3)) for part in layer.qkv(hidden).split(6, dim=2))
    for at in range(5):
        for head in range(2):
            before = slice(0, at + 1), head
            scores = (key[:, *before] * query[:, at, None, head]).sum(-1) / math.sqrt(3)
            shares = scores.exp() / scores.exp().sum(1, keepdim=True)
            mean = (shares[..., None] * value[:, *before]).sum(1)
            seen = seen.clone()
            seen[:, at, 3 * head : 3 * head + 3] = mean
    expected = layer.out(seen)
    with sdpa_kernel(backend):
        given = layer(hidden)

    torch.testing.assert_close(given, expected, rtol=1e-12, atol=1e-14)
    slopes = [torch.autograd.grad(each.square().sum(), hidden)[0] for each in (given, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-13)


def test_gpt2_begins_as_published() -> None:
    module = build(models.Gpt2Settings(layers=8, heads=2, width=64), 400, 500)
    weights = dict(module.named_parameters())
    expected = {
        "tokens.weight": 0.02,
        "positions.weight": 0.01,
        "blocks.7.attention.qkv.weight": 0.02,
        "blocks.0.mlp.fc.weight": 0.02,
        "blocks.0.attention.out.weight": 0.02 / 4,
        "blocks.7.mlp.out.weight": 0.02 / 4,
    }

    for name, std in expected.items():
        drawn = weights[name].detach()
        # the standard error of a standard deviation of n normal draws is std / sqrt(2 n)
        assert float(drawn.std()) == pytest.approx(std, abs=5 * std / math.sqrt(2 * drawn.numel()))
        assert abs(float(drawn.mean())) < 5 * std / math.sqrt(drawn.numel())
    for name, value in weights.items():
        if name.endswith("bias"):
            assert not value.any()
        elif "norm" in name:
            assert (value == 1).all()


OTHERS = [
    (SMALL_LSTM, (1, 8, 8), 10, None, r"lstm needs text, .* the shape \(1, 8, 8\)"),
    (SMALL_GPT2, (1, 8, 8), 10, None, r"gpt2 needs text, .* the shape \(1, 8, 8\)"),
    (models.LogisticSettings(), (6,), 11, 11, r"text of 6 tokens; what fits: lstm, gpt2$"),
    (SMALL_GPT2, (6,), 2, 11, r"one of the 11 tokens, .* 2 classes; choose lstm"),
]


@pytest.mark.parametrize(("model", "shape", "num_classes", "words", "message"), OTHERS)
def test_other_samples_are_refused(model, shape, num_classes, words, message):
    with pytest.raises(ScenarioError, match=message):
        build_model(model, SampleForm(shape, num_classes, words), seed=0)


def test_heads_must_share_the_width_equally() -> None:
    with pytest.raises(ValidationError, match="width 100 is no multiple of heads 12"):
        models.Gpt2Settings(width=100)
