"""Networks for text: size, cost, structure, initial weights, one step of training."""

import copy
import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import scaled_dot_product_attention

from fleetsim import rng
from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.sample_losses import losses
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import (
    Gpt2Settings,
    LogisticSettings,
    LstmSettings,
    ModelSettings,
)
from fleetsim.learning.models.text import Attention, Block, Lstm

torch.set_num_threads(1)  # small operations wait for a second thread longer than they take

SMALL_LSTM = LstmSettings(embedding=3, hidden=5, layers=2)
SMALL_GPT2 = Gpt2Settings(layers=2, heads=2, width=8)
BOTH: list[ModelSettings] = [SMALL_LSTM, SMALL_GPT2]


def build(
    model: ModelSettings,
    *,
    context: int = 6,
    vocabulary_size: int = 11,
    is_sequence: bool = True,
    seed: int = 0,
) -> nn.Module:
    return build_model(
        model,
        input_shape=(context,),
        num_classes=vocabulary_size,
        vocabulary_size=vocabulary_size,
        is_sequence=is_sequence,
        seed=seed,
    )


def tokens(num: int, context: int = 6, vocabulary_size: int = 11) -> Tensor:
    return torch.from_numpy(rng.stream(1, "test").integers(vocabulary_size, size=(num, context)))


def noise(*shape: int, address: int = 0) -> Tensor:
    return torch.from_numpy(rng.stream(1, "test", address).standard_normal(shape, np.float32))


# --- size and cost ------------------------------------------------------------------------------


def test_the_lstm_has_leafs_layers_with_the_two_biases_of_torch() -> None:
    # TalwalkarLab/leaf, models/shakespeare/stacked_lstm.py; TensorFlow's LSTM has one bias a unit.
    # With the 90 tokens of TensorFlow Federated it has 820,522 parameters (figure of the literature
    # from memory, unchecked; it is this formula with one bias).
    def formula(vocabulary: int, biases: int) -> int:
        gates = 4 * 256
        first, second = gates * (8 + 256 + biases), gates * (256 + 256 + biases)
        return vocabulary * 8 + first + second + (256 + 1) * vocabulary

    module = build(LstmSettings(), context=80, vocabulary_size=80)

    assert formula(90, biases=1) == 820_522
    assert flatten(module).size == formula(80, biases=2)


def test_the_lstm_spends_its_flop_on_four_gates_per_layer_and_step_and_none_on_the_embedding() -> (
    None
):
    module = build(LstmSettings(), context=80, vocabulary_size=80, is_sequence=False)

    assert model_cost(module, (80,)).forward_flop == {
        "rnn": 80 * 2 * 4 * 256 * ((8 + 256) + (256 + 256)),
        "gemm": 2 * 256 * 80,
    }


def test_a_label_at_every_position_multiplies_the_last_layer_alone() -> None:
    one, each = (
        model_cost(build(LstmSettings(), context=80, is_sequence=is_sequence), (80,)).forward_flop
        for is_sequence in (False, True)
    )

    assert each["rnn"] == one["rnn"]
    assert each["gemm"] == 80 * one["gemm"]


def gpt2_small() -> torch.nn.Module:
    with torch.device("meta"):
        return Gpt2Settings().build(SampleForm((1024,), 50_257, 50_257, is_sequence=True))


def test_gpt2_small_has_the_published_number_of_parameters() -> None:
    # 124,439,808 weights are in huggingface.co/openai-community/gpt2, which OpenAI calls 124M
    embeddings = (50_257 + 1024) * 768
    block = 4 * 768 + (768 + 1) * 3 * 768 + (768 + 1) * 768 + (768 + 1) * 3072 + (3072 + 1) * 768

    num = sum(parameter.numel() for parameter in gpt2_small().parameters())

    assert num == embeddings + 12 * block + 2 * 768 == 124_439_808


def test_gpt2_small_spends_24_flop_per_weight_column_and_twice_the_square_of_its_context() -> None:
    length, width, layers = 1024, 768, 12
    products = 2 * length * width * (3 * width + width + 4 * width + 4 * width)
    attention = 2 * (2 * length * length * width)
    logits = 2 * length * width * 50_257

    cost = model_cost(gpt2_small(), (length,))

    assert cost.forward_flop == {"gemm": layers * (products + attention) + logits}
    assert cost.payload_byte == 4 * 124_439_808


def test_the_vector_holds_the_tied_embedding_once() -> None:
    module = build(SMALL_GPT2)
    slots = layout(module)

    assert [slot.name for slot in slots if slot.shape == (11, 8)] == ["tokens.weight"]
    assert flatten(module).size == sum(parameter.numel() for parameter in module.parameters())
    assert all(slot.is_trained for slot in slots)


# --- structure ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", BOTH)
def test_there_are_logits_at_every_position_or_at_the_last_alone(model: ModelSettings) -> None:
    each, last = (build(model, is_sequence=is_sequence) for is_sequence in (True, False))
    samples = tokens(4)

    assert each(samples).shape == (4, 6, 11)
    torch.testing.assert_close(last(samples), each(samples)[:, -1])


@pytest.mark.parametrize("model", BOTH)
def test_no_position_sees_what_comes_after_it(model: ModelSettings) -> None:
    module = build(model)
    samples = tokens(4)
    changed = samples.clone()
    changed[:, 3:] = (changed[:, 3:] + 1) % 11

    before, after = module(samples), module(changed)

    torch.testing.assert_close(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3:], before[:, 3:])


def test_an_lstm_steps_through_the_gates_of_its_definition() -> None:
    module = build(LstmSettings(embedding=3, hidden=5, layers=1))
    assert isinstance(module, Lstm)
    samples = tokens(2)
    weights = dict(module.lstm.named_parameters())
    state, cell = torch.zeros(2, 5), torch.zeros(2, 5)
    for step in range(6):
        gates = module.embedding(samples[:, step]) @ weights["weight_ih_l0"].T
        gates = gates + weights["bias_ih_l0"] + state @ weights["weight_hh_l0"].T
        enters, keeps, new, shows = (gates + weights["bias_hh_l0"]).chunk(4, dim=1)
        cell = keeps.sigmoid() * cell + enters.sigmoid() * new.tanh()
        state = shows.sigmoid() * cell.tanh()

    torch.testing.assert_close(module(samples)[:, -1], module.fc(state))


def test_attention_equals_torchs_own() -> None:
    attention = Attention(8, 2)
    states = noise(3, 5, 8)
    query, key, value = (
        part.view(3, 5, 2, 4).transpose(1, 2) for part in attention.qkv(states).chunk(3, dim=-1)
    )
    expected = scaled_dot_product_attention(query, key, value, is_causal=True)

    torch.testing.assert_close(
        attention(states), attention.out(expected.transpose(1, 2).reshape(3, 5, 8))
    )


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
    theirs.load_state_dict(
        {
            prefix + name: value
            for prefix, layer in pairs.items()
            for name, value in layer.state_dict().items()
        }
    )
    states = noise(3, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)

    torch.testing.assert_close(block(states), theirs(states, src_mask=mask, is_causal=True))


def test_gpt2_can_be_stacked_over_clients() -> None:
    module = build(SMALL_GPT2)
    samples = tokens(3)
    weights = {name: value.detach() for name, value in module.named_parameters()}
    stacked = {name: torch.stack([value, 1.5 * value]) for name, value in weights.items()}

    both = vmap(lambda own: functional_call(module, own, (samples,)))(stacked)

    for client, factor in enumerate((1.0, 1.5)):
        own = {name: factor * value for name, value in weights.items()}
        torch.testing.assert_close(both[client], functional_call(module, own, (samples,)))


# --- initial weights ----------------------------------------------------------------------------


def test_the_lstm_begins_with_what_pytorch_itself_draws_from_the_same_generator() -> None:
    ours, theirs = (build(SMALL_LSTM, seed=seed) for seed in (5, 6))
    with torch.random.fork_rng():
        generator = torch.Generator().manual_seed(rng.torch_seed(5, "model"))
        torch.random.set_rng_state(generator.get_state())
        for layer in (theirs.embedding, theirs.lstm, theirs.fc):
            layer.reset_parameters()  # type: ignore[union-attr, operator]

    np.testing.assert_array_equal(flatten(ours), flatten(theirs))


def test_gpt2_begins_as_published() -> None:
    module = build(Gpt2Settings(layers=8, heads=2, width=64), context=400, vocabulary_size=500)
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


@pytest.mark.parametrize("model", BOTH)
def test_initial_weights_depend_on_the_seed_alone_and_leave_the_global_stream_alone(
    model: ModelSettings,
) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (flatten(build(model, seed=seed)) for seed in (1, 1, 2))

    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


# --- training -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("is_sequence", [False, True])
def test_training_on_one_sentence_learns_it_by_heart(
    model: ModelSettings, is_sequence: bool
) -> None:
    module = build(model, is_sequence=is_sequence)
    text = torch.tensor([3, 1, 4, 1, 5, 9, 2])
    inputs = text[:-1].repeat(8, 1)
    labels = text[1:].repeat(8, 1) if is_sequence else text[-1:].repeat(8)
    how = LocalSettings(epochs=1, batch_size=8, optimizer=SgdSettings(learning_rate=1.0))
    base = flatten(module)

    trained = local_sgd.train(
        module,
        base,
        inputs,
        labels,
        how,
        local_sgd.Passes(epochs=200, stream=rng.stream(1, "test")),
    )

    assert trained.vector is not None
    assert local_sgd.evaluate(module, base, inputs, labels).loss > 1.5  # type: ignore[operator]
    learnt = local_sgd.evaluate(module, trained.vector, inputs, labels)
    assert learnt.accuracy == 1.0
    assert learnt.loss == pytest.approx(0.0, abs=0.1)


def test_a_gradient_has_the_layout_of_the_weights() -> None:
    module = build(SMALL_GPT2)
    base = flatten(module)
    samples = tokens(2, context=7)
    inputs, labels = samples[:, :-1], samples[:, 1:]
    got = local_sgd.gradient(module, base, inputs, labels).vector
    assert got is not None
    direction = rng.stream(1, "direction").standard_normal(base.size)

    exact = copy.deepcopy(module).double()

    def loss(step: float) -> float:
        moved = torch.from_numpy(base + step * direction)
        nn.utils.vector_to_parameters(moved, exact.parameters())
        return float(losses(exact(inputs), labels).detach().mean())

    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    assert got @ direction == pytest.approx(slope, rel=1e-3)


# --- what fits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", BOTH)
def test_a_network_for_text_refuses_numbers(model: ModelSettings) -> None:
    with pytest.raises(
        ScenarioError, match=rf"kind: {model.kind} needs text, .* the shape \(1, 8, 8\)"
    ):
        build_model(model, input_shape=(1, 8, 8), num_classes=10, seed=0)


def test_a_network_for_numbers_refuses_text() -> None:
    with pytest.raises(ScenarioError, match=r"text of 6 tokens; what fits: lstm, gpt2$"):
        build(LogisticSettings())


def test_gpt2_refuses_labels_that_are_no_tokens() -> None:
    with pytest.raises(ScenarioError, match=r"one of the 11 tokens, .* 2 classes; choose lstm"):
        build_model(SMALL_GPT2, input_shape=(6,), num_classes=2, vocabulary_size=11, seed=0)


def test_heads_must_share_the_width_equally() -> None:
    with pytest.raises(ValidationError, match="width 100 is no multiple of heads 12"):
        Gpt2Settings(width=100)
