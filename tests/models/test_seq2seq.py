"""Encoder-decoders: their equations, stepwise and forced decoding, and what must not matter."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from flax import nnx

from attn_jax import Score
from attn_jax.attention import Gated
from attn_jax.errors import InputError
from attn_jax.models.choices import DECODERS
from attn_jax.models.protocols import Encoded, Source
from attn_jax.models.randomness import by_row
from attn_jax.models.seq2seq import Seq2Seq, initialize
from attn_jax.models.two_attentions import TwoAttentions
from attn_jax.tokens import BOS, EOS, PAD
from attn_jax.training.checkpoints import named_leaves
from tests.models import oracle
from tests.options import model_options
from tests.stages import few, slow

SOURCE_SIZE, TARGET_SIZE = 17, 19
SOURCE = np.array([[4, 9, 6, 7, 16], [5, 8, 11, PAD, PAD], [13, PAD, PAD, PAD, PAD]])
SECOND = 11  # words in the vocabulary of a second source, whose ids follow those of the first
BOTH = np.array([[4, 9, 6, 21, 27], [5, 18, 22, 21, PAD], [13, 25, PAD, PAD, PAD]])
TARGET = np.array(
    [
        [7, 5, 18, 4, 9, 6, EOS],
        [10, 12, EOS, PAD, PAD, PAD, PAD],
        [6, EOS, PAD, PAD, PAD, PAD, PAD],
    ]
)


@functools.cache
def make(*, seed=1, target_size=TARGET_SIZE, **options):
    """A model, once for all tests that ask for it."""
    sizes = {
        "embedding_size": 5,
        "annotation_size": 20,
        "hidden_size": 22,
        "units": 3,
        "readout_size": 13,
        "feedforward_size": 17,
    }
    config = model_options(**(sizes | options))
    sizes = (SOURCE_SIZE, SECOND)[: config.sources.count]
    # Without `jax.jit`: compiling the whole takes four times as long as compiling its operations.
    model = initialize.__wrapped__(config, sizes, target_size, jax.random.key(seed))
    for number, attention in enumerate(model.attentions):
        # What mixes heads is the identity at first, which would hide a matrix that is transposed.
        p = attention.shared.get_value()
        generator = np.random.default_rng(number)
        mixing = {
            name: leaf + jnp.float32(generator.normal(size=leaf.shape))
            for name, leaf in p["mixing"].items()
        }
        attention.shared.set_value({**p, "mixing": mixing})
    if isinstance(config.sources, Gated):  # 0 at first, which would hide the second source
        for number, attention in enumerate(attentions_to_two(model)):
            attention.parameters.set_value({"g": jnp.float32(0.7 - number)})
    return model


def attentions_to_two(model):
    """The modules that attend to each of two sources."""
    return [each for _, each in nnx.iter_modules(model) if isinstance(each, TwoAttentions)]


def source_of(model):
    """Source sentences for a model of one source or two."""
    return SOURCE if model.second is None else BOTH


@jax.jit
def log_probabilities(model, source, target):
    steps, source, alignment = model.read(source, target)
    return model.log_probabilities(steps, source), alignment


ATTENDING = [name for name in DECODERS if name != "cif"]  # with a score
WIDE = {"annotation_size": 22, "embedding_size": 22, "embeddings": "tied"}
LAST = {"first_state": "last", **WIDE}
DEEP = {"encoder_layers": 2, "decoder_layers": 2}
SAME = {"annotation_size": 12, "embedding_size": 12}
TWO = {"heads": 2, "head_size": 3}
GROUPS = {"heads": 4, "self_heads": 2, "key_value_heads": 2, "head_size": 3}
LUONG = {"cell": "lstm", "annotation_size": 22, **DEEP}
# They cover all decoders, encoders, cells, readouts, stacks, norms, positions and first states.
MODELS = [
    {"decoder": "bahdanau", "encoder": "bidirectional", "readout": "maxout"},
    {"decoder": "bahdanau", "encoder": "unidirectional", "cell": "lstm", "heads": 4},
    {"decoder": "bahdanau", "readout": "linear", "heads": 4, "key_value_heads": 2},
    {"decoder": "luong", "encoder": "bidirectional", "cell": "lstm", "readout": "linear"},
    {"decoder": "luong", "encoder": "unidirectional", "readout": "maxout", "projection": "affine"},
    {"decoder": "luong", "heads": 4, "key_value_heads": 1, "head_size": 3},
    {"decoder": "transformer", "encoder": "unidirectional", "decoder_layers": 2},
    {"decoder": "transformer", "cell": "lstm", "decoder_layers": 2, "heads": 2},
    {"decoder": "luong_input_feeding", "cell": "lstm", "encoder_layers": 2, "decoder_layers": 2},
    {"decoder": "luong_input_feeding", "cell": "gru_reset_first", "heads": 2},
    {"decoder": "bahdanau", "cell": "gru_reset_first", "encoder_layers": 3, "stack": "residual"},
    {"decoder": "luong", "cell": "tanh", "decoder_layers": 3, "stack": "residual"},
    {"decoder": "transformer", "encoder": "transformer", "norm": "pre", "heads": 2, **WIDE},
    {"decoder": "transformer", "encoder": "transformer", "positions": "rotary", **WIDE, **DEEP},
    {"decoder": "transformer", "encoder": "backward", "norm": "pre", "projection": "affine"},
    {"decoder": "bahdanau", "encoder": "transformer", "self_heads": 2, "first_state": "zero"},
    {"decoder": "luong", "encoder": "transformer", "positions": "rotary", "cell": "lstm"},
    {"decoder": "luong_input_feeding", "encoder": "backward", "first_state": "last", **LUONG},
    {"decoder": "bahdanau", "encoder": "unidirectional", "readout_size": 22, **LAST},
    {"decoder": "luong", "readout": "marginal", "cell": "lstm", "decoder_layers": 2},
    {"decoder": "luong", "readout": "marginal", "projection": "affine", "head_size": 6, **WIDE},
    {"decoder": "luong", "readout": "monotonic_hmm", "encoder": "unidirectional"},
    {"decoder": "luong", "readout": "monotonic_marginal", "projection": "affine", **WIDE},
    {"decoder": "luong", "readout": "first_order", "longest_move": 1, "projection": "affine"},
    {"decoder": "luong", "readout": "ssnt", "encoder": "unidirectional", "cell": "lstm"},
    {"decoder": "transformer", "readout": "marginal", "decoder_layers": 2, "self_heads": 2},
    {"decoder": "transformer", "readout": "first_order", "norm": "pre", "positions": "rotary"},
    {"decoder": "bahdanau", "values": "embeddings", "gate": "elementwise"},
    {"decoder": "luong", "values": "sum"},
    {"decoder": "luong", "values": "key_value", "gate": "headwise", "heads": 2},
    {"decoder": "luong_input_feeding", "values": "sum", "gate": "elementwise", **SAME},
    {"decoder": "luong_input_feeding", "values": "key_value", "cell": "lstm"},
    {"decoder": "transformer", "encoder": "transformer", "values": "sum", "heads": 2},
    {"decoder": "transformer", "values": "embeddings", "gate": "headwise", **GROUPS},
    {"decoder": "luong_input_feeding", "latent_size": 7, "heads": 2, "projection": "affine"},
    {"decoder": "transformer", "latent_size": 7, **GROUPS},
    {"decoder": "syntactic"},
    {"decoder": "syntactic", "cell": "lstm", "heads": 2, "decoder_layers": 2, **WIDE},
    {"decoder": "syntactic", "sources": "flat", "readout": "maxout"},
    {"decoder": "cif", "cell": "lstm", "readout": "linear", "first_state": "zero", **DEEP},
    {"decoder": "bahdanau", "mixing": "talking_heads", "heads": 2},
    {"decoder": "luong", "mixing": "talking_heads", "gate": "elementwise", "heads": 2},
    {"decoder": "luong_input_feeding", "mixing": "talking_heads", **GROUPS},
    {"decoder": "transformer", "mixing": "talking_heads", "decoder_layers": 2, **GROUPS},
    {"decoder": "bahdanau", "sources": "flat"},
    {"decoder": "bahdanau", "sources": "hierarchical(units=7)", "values": "sum", **TWO},
    {"decoder": "luong", "sources": "concatenated", "encoder": "unidirectional", **WIDE},
    {"decoder": "luong", "sources": "hierarchical(units=7)", "first_state": "zero"},
    {"decoder": "luong_input_feeding", "sources": "hierarchical(units=7)", "cell": "lstm"},
    {"decoder": "luong_input_feeding", "sources": "flat", "values": "embeddings"},
    {"decoder": "transformer", "encoder": "transformer", "sources": "concatenated", **GROUPS},
    {"decoder": "transformer", "sources": "hierarchical(units=7)", "heads": 2, **DEEP},
    {"decoder": "transformer", "encoder": "transformer", "sources": "flat", "heads": 2, **WIDE},
    {"decoder": "bahdanau", "sources": "gated", "values": "key_value", **TWO},
    {"decoder": "transformer", "sources": "gated", **DEEP},
    {"decoder": "luong_input_feeding", "readout": "posterior", **LUONG},
    {"decoder": "luong_input_feeding", "readout": "posterior_proximity", "projection": "affine"},
    {"decoder": "luong", "sources": "concatenated", "readout": "marginal"},
    {"decoder": "luong_input_feeding", "sources": "concatenated", "readout": "posterior_monotonic"},
    {"decoder": "luong_input_feeding", "sources": "flat", "readout": "posterior"},
    {"decoder": "luong", "sources": "concatenated", "readout": "monotonic_first_order"},
    {"decoder": "luong", "sources": "flat", "readout": "marginal"},
    {"decoder": "luong", "sources": "flat", "values": "key_value"},
]


def name_of(options):
    return "-".join(map(str, options.values()))


every_model = pytest.mark.parametrize("options", few(MODELS), ids=name_of)


@every_model
def test_equals_the_papers_loop(options):
    """Which computes each sentence alone: padding and neighbours change nothing."""
    model = make(**options)
    sources = source_of(model)
    actual, alignment = log_probabilities(model, sources, TARGET)
    for row in range(len(sources)):
        source = [i for i in sources[row] if i != PAD]
        target = [i for i in TARGET[row] if i != PAD]
        logits, weights = oracle.decode(model, options["decoder"], source, [BOS, *target[:-1]])
        expected = scipy.special.log_softmax(logits, axis=-1)
        steps, width = len(target), len(source)
        np.testing.assert_allclose(actual[row, :steps], expected, rtol=1e-5, atol=1e-5)
        real = alignment[row, :, :, :steps, :width]
        np.testing.assert_allclose(real, weights, rtol=1e-5, atol=1e-6)
        assert not np.any(alignment[row, ..., width:])


@every_model
def test_steps_equal_the_teacher_forced_pass(options):
    model = make(**options)
    sources = source_of(model)
    expected, alignment = log_probabilities(model, sources, TARGET)
    encoded = jax.jit(Seq2Seq.encode)(model, sources)
    one_step = jax.jit(Seq2Seq.step)
    state, word = model.start(encoded, TARGET.shape[1]), jnp.full(3, BOS)
    for step in range(TARGET.shape[1]):
        state, found, weights = one_step(model, state, word, encoded)
        np.testing.assert_allclose(found, expected[:, step], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(weights, alignment[:, :, :, step], rtol=1e-5, atol=1e-6)
        word = jnp.asarray(TARGET[:, step])


@pytest.mark.parametrize(
    "options", few([each for each in MODELS if "sources" not in each]), ids=name_of
)
def test_no_gradient_from_padding_or_the_future(options):
    model = make(**options)
    step = 2

    def loss(source_vectors, target_vectors):
        mask = jnp.asarray(SOURCE) != PAD
        annotations, summary = model.encoder(source_vectors, mask)
        encoded = Encoded(source_vectors, annotations, mask, summary)
        known = {"previous": jnp.asarray(TARGET), "words": model.words}
        source = Source(model.decoder.project(encoded), mask, summary, **known)
        steps, _ = model.decoder(target_vectors, source)
        return (model.log_probabilities(steps, source)[:, step] ** 2).sum()

    source_vectors = model.words.source_vectors(jnp.asarray(SOURCE))
    target_vectors = model.words.target_vectors(jnp.asarray(TARGET))
    source_gradient, target_gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))(
        source_vectors, target_vectors
    )
    assert np.all(np.any(source_gradient[SOURCE != PAD], axis=-1))
    assert not np.any(source_gradient[SOURCE == PAD])
    reads_targets = options["decoder"] != "syntactic"
    assert np.all(np.any(target_gradient[:, : step + 1], axis=-1) == reads_targets)
    assert not np.any(target_gradient[:, step + 1 :])


@pytest.mark.parametrize(
    "options",
    few([each for each in MODELS if "sources" in each], seen=("decoder", "sources", "encoder")),
    ids=name_of,
)
def test_both_sources_have_a_gradient_and_padding_has_none(options):
    model = make(**options)

    def loss(model):
        steps, source, _ = model.read(BOTH, TARGET)
        return (model.log_probabilities(steps, source) ** 2).sum(where=TARGET[..., None] != PAD)

    gradient = jax.jit(jax.grad(loss))(model)
    for words, ids in (
        (gradient.words.source_words, BOTH[BOTH < SOURCE_SIZE]),
        (gradient.second.words, BOTH[BOTH >= SOURCE_SIZE] - SOURCE_SIZE),
    ):
        of_words = np.any(np.asarray(words.embedding[...]), axis=-1)
        assert set(np.flatnonzero(of_words)) == set(ids) - {PAD}


def test_a_closed_gate_lets_nothing_of_the_second_source_through():
    """As at first, whatever rule draws the other parameters."""
    config = model_options(sources="gated", first_state="zero", initialization="luong")
    model = initialize.__wrapped__(config, (SOURCE_SIZE, SECOND), TARGET_SIZE, jax.random.key(1))
    others = np.where(BOTH >= SOURCE_SIZE, SOURCE_SIZE + 5, BOTH)
    found, alignment = log_probabilities(model, BOTH, TARGET)
    np.testing.assert_array_equal(found, log_probabilities(model, others, TARGET)[0])
    assert not np.any(alignment[0, ..., 3:])


@pytest.mark.parametrize("decoder", ATTENDING)
def test_last_looks_at_the_last_word_alone(decoder):
    _, alignment = log_probabilities(make(decoder=decoder, score="last"), SOURCE, TARGET)
    for row, length in enumerate((SOURCE != PAD).sum(axis=1)):
        assert np.all(alignment[row, ..., length - 1] == 1)
    assert np.all(alignment.sum(axis=-1) == 1)


@pytest.mark.parametrize("decoder", ATTENDING)
def test_the_control_has_all_but_the_score(decoder):
    """The same seed gives the same first parameters with attention and without."""
    with_attention, without = (
        named_leaves(make(decoder=decoder, score=score)) for score in ("additive", "last")
    )
    more = with_attention.keys() - without.keys()
    assert more
    assert all("attention.parameters" in name for name in more)
    for name, leaf in without.items():
        np.testing.assert_array_equal(leaf, with_attention[name], err_msg=name)


def test_dropout_is_of_the_given_rng_and_off_without():
    model = make(dropout=0.5)
    source, target = jnp.asarray(SOURCE), jnp.asarray(TARGET)
    first, again, other = (
        model.read(source, target, by_row(jax.random.key(seed), 3)).steps for seed in (0, 0, 1)
    )
    plain = model.read(source, target).steps
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    np.testing.assert_array_equal(plain, make(dropout=0.0).read(source, target).steps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"score": "bilinear"},
            r"^unknown score 'bilinear' \(did you mean linear\?\), or module:name",
        ),
        ({"encoder": "lstm"}, "unknown encoder 'lstm'; allowed: bidirectional, .*, transformer"),
        ({"decoder": "bahdanaw"}, r"did you mean bahdanau\?"),
        ({"readout": "x"}, "allowed: maxout, linear, lexical, pointer, pointer_generator, copynet"),
        ({"score": "dot"}, "dot compares queries and annotations of one size, got 22 and 20"),
        ({"annotation_size": 7}, "must be even, got 7"),
        (
            {"cell": "rnn"},
            "unknown cell 'rnn'.*allowed: gru, gru_reset_first, lstm, tanh, or module:name of",
        ),
        ({"stack": "adding"}, "unknown stack 'adding'; allowed: plain, residual"),
        ({"heads": 3}, "model.heads=3 does not divide the 20 features"),
        ({"heads": 4, "key_value_heads": 3}, "key_value_heads=3 does not divide"),
        ({"heads": 4, "projection": "none"}, "heads need projections"),
        ({"latent_size": 7, "projection": "none"}, "heads need projections"),
        ({"latent_size": 7, "values": "sum"}, "but with model.values=sum they are of two"),
        ({"latent_size": 7, "sources": "flat"}, "but with model.sources=flat they are of two"),
        ({"decoder": "transformer", "projection": "none"}, "not the 22 that are needed"),
        ({"decoder": "transformer", "heads": 4}, "4 heads of self-attention do not divide 22"),
        ({"encoder": "transformer", "norm": "mid"}, "unknown norm 'mid'; allowed: post, pre"),
        ({"encoder": "transformer", "positions": "learnt"}, "allowed: sinusoidal, rotary"),
        ({"decoder": "transformer", "heads": 2, "positions": "rotary"}, "even number .* 22 over 2"),
        ({"embeddings": "shared"}, "17 source and 19 target words"),
        ({"embeddings": "tied"}, "features, got 13: make that model.readout_size"),
        ({"cell": "attn_jax.models.decoders:Luong"}, "is not a cell: it has no `gates`"),
        ({"decoder": "attn_jax.models.recurrent:GRU"}, "is not a decoder: it has no `step`"),
        ({"first_state": "last"}, "needs a unidirectional or backward encoder with as many layers"),
        ({"encoder": "backward", "score": "last"}, "where a backward encoder has read nothing"),
        (
            {"encoder": "backward", "score": "projected(last)"},
            "where a backward encoder has read nothing",
        ),
        (
            {"encoder": "backward", "sources": "concatenated(score=last)"},
            "where a backward encoder has read nothing",
        ),
        (
            {"encoder": "backward", "score": "last()"},
            "where a backward encoder has read nothing",
        ),
        ({"encoder": "backward", "score": "attn_jax.attention.scores:Last"}, "has read nothing"),
        ({"dropout_kind": "none"}, "unknown kind of dropout 'none'"),
        ({"score": "gmm", "window": "local_p"}, "already acts as a window"),
        ({"sources": "flat", "window": "local_m"}, "but local_m would take them for words of one"),
        ({"sources": "flat", "score": "projected(location_aware)"}, "but location_aware would"),
        ({"sources": "flat", "normalizer": "dropped(monotonic)"}, "but monotonic would take them"),
        (
            {"sources": "concatenated", "decoder": "syntactic"},
            "words from the word vectors of one row: give model.sources=flat",
        ),
        (
            {"sources": "flat", "decoder": "luong", "readout": "monotonic_hmm"},
            "but model.readout=monotonic_hmm would take them",
        ),
    ],
)
def test_refuses_what_makes_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        make(**options)


class Twice(Score):
    """The dot product, of keys that are not the annotations."""

    def keys(self, p, annotations):
        return 2 * annotations

    def score(self, p, query, keys, past):
        return keys @ query / 2


@pytest.mark.parametrize("decoder", ["luong", "transformer"])
def test_a_score_without_parameters_may_have_keys(decoder):
    heads = {"heads": 4, "key_value_heads": 2, "head_size": 3, "self_heads": 2}
    models = [make(decoder=decoder, score=score, **heads) for score in (str(Twice()), "dot")]
    for own, dot in zip(
        *(log_probabilities(model, SOURCE, TARGET) for model in models), strict=True
    ):
        np.testing.assert_allclose(own, dot, rtol=1e-5, atol=1e-6)


# Without the Transformer: the softmax of its self-attention (`jax.nn`), in float32, is too rough.
@pytest.mark.parametrize("decoder", [name for name in DECODERS if name != "transformer"])
@pytest.mark.parametrize("score", ["additive", pytest.param("general", marks=slow)])
def test_the_derivative_is_that_of_differences(decoder, score, generator):
    jax.clear_caches()  # of traces in which the same sentences have 32 bits
    model = make(decoder=decoder, score=score, readout="linear", projection="affine", heads=2)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), model)
        along = jax.tree.map(lambda leaf: jnp.asarray(generator.normal(size=leaf.shape)), wide)

        def value(step):
            moved = jax.tree.map(lambda leaf, by: leaf + step * by, wide, along)
            found, alignment = log_probabilities(moved, SOURCE, TARGET)
            return jnp.tanh(found).sum() + (alignment**2).sum()

        derived, width = jax.jit(jax.value_and_grad(value)), 1e-5
        slope = float(derived(0.0)[1])
        differences = float(derived(width)[0] - derived(-width)[0]) / (2 * width)
    assert abs(slope) > 0.05
    np.testing.assert_allclose(slope, differences, rtol=1e-6)
