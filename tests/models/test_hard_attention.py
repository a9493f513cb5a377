"""Readouts over positions: sums over alignments, best alignments, what is held, what is refused."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.attention.catalogue import NORMALIZERS
from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.scores import Additive
from attn_jax.attention.windows import Full, LocalP
from attn_jax.decoding.decode import decode
from attn_jax.decoding.forced import force, posterior, viterbi
from attn_jax.decoding.options import Search
from attn_jax.errors import InputError
from attn_jax.kernels.forms import FAST, PLAIN
from attn_jax.kernels.memory import Held
from attn_jax.models import marginal, transitions
from attn_jax.models.posterior import Posterior
from attn_jax.models.randomness import by_row
from attn_jax.models.readouts import OVER_POSITIONS
from attn_jax.models.seq2seq import with_forms
from attn_jax.models.variational import Bounded
from attn_jax.tokens import BOS, EOS, PAD, Batch
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import init_state, train_step
from tests.models import hard_attention_oracle, oracle
from tests.models.test_seq2seq import SOURCE, TARGET_SIZE, make
from tests.options import train_options
from tests.stages import full, slow

TARGET = np.array([[7, 5, 18, 9, EOS], [10, 12, EOS, PAD, PAD], [6, EOS, PAD, PAD, PAD]])
# In use they are `marginal`: see `test_variational`.
BOUNDED = [name for name, kind in OVER_POSITIONS.items() if issubclass(kind, Bounded)]
EXACT = [name for name in OVER_POSITIONS if name not in BOUNDED]
both = pytest.mark.parametrize("readout", ["marginal", "monotonic_hmm"])
every = pytest.mark.parametrize("readout", EXACT)
MARKS = {"marginal": [], "monotonic_hmm": [], "posterior": full}
each = pytest.mark.parametrize(
    "readout", [pytest.param(name, marks=MARKS.get(name, slow)) for name in EXACT]
)
READ_WEIGHTS = [name for name in EXACT if OVER_POSITIONS[name].reads_weights]
ALONE = {"combination": "log_probabilities"}


def made(readout, make=make, **options):
    """A model with the recurrent decoder of the readout."""
    fed = issubclass(OVER_POSITIONS[readout], Posterior)
    decoder = "luong_input_feeding" if fed else "luong"
    return make(**{"decoder": decoder, "readout": readout} | options)


def sharp(readout, **options):
    """A model whose weights and moves differ much between positions."""
    model = made(readout, longest_move=2, **options)
    return jax.tree.map(lambda leaf: 3 * leaf, model)


@pytest.mark.parametrize(
    ("readout", "options"),
    [(readout, {}) for readout in EXACT]
    + [(readout, {"normalizer": "sparsemax"}) for readout in READ_WEIGHTS]
    + [pytest.param("monotonic_marginal", {"decoder": "transformer"}, marks=slow)],
)
def test_sums_and_maxima_are_those_over_all_alignments(readout, options):
    """In float64, where the weights of the oracle are those of the model."""
    narrow = sharp(readout, **options)
    with jax.enable_x64(True):
        model = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), narrow)
        reading = model.read(SOURCE, TARGET)
        alike, path = model.posterior(reading, TARGET), model.best_alignment(reading, TARGET)
        loss = model.loss(reading, TARGET)
    # JAX's self-attention computes its softmax in float32.
    together, rtol = 0.0, 1e-6 if "decoder" in options else 1e-9
    for row in range(len(SOURCE)):
        source = [i for i in SOURCE[row] if i != PAD]
        target = [i for i in TARGET[row] if i != PAD]
        hidden = oracle.hard_attention(model, source, [BOS, *target[:-1]])
        if "normalizer" in options:  # the oracle has softmax alone
            weights = np.exp(reading.steps.log_weights[row, : len(target), : len(source)])
            hidden = with_weights(model, source, target, weights)
        probability, expected, best = hard_attention_oracle.enumerated(hidden, target)
        together += math.log(probability)
        real = np.s_[row, : len(target), : len(source)]
        np.testing.assert_allclose(alike[real], expected, rtol=rtol, atol=1e-12)
        np.testing.assert_array_equal(path[real], np.eye(len(source))[list(best)])
        assert not np.any(alike[row, len(target) :])
        assert not np.any(path[row, :, len(source) :])
    np.testing.assert_allclose(-loss, together, rtol=rtol / 10)


def with_weights(model, source, target, weights):
    """The oracle's model with other weights."""
    found = oracle.attend
    turn = iter(np.asarray(weights))
    oracle.attend = lambda *known: (None, next(turn)[None])
    try:
        return oracle.hard_attention(model, source, [BOS, *target[:-1]])
    finally:
        oracle.attend = found


@every
def test_the_loss_is_that_of_the_log_probabilities(readout):
    model = sharp(readout)
    reading = model.read(SOURCE, TARGET)
    assert_its_loss_is_that_of_its_log_probabilities(model, reading)


def assert_its_loss_is_that_of_its_log_probabilities(model, reading):
    every = model.log_probabilities(reading.steps, reading.source)
    of_word = np.take_along_axis(np.asarray(every), TARGET[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(
        model.loss(reading, TARGET), -of_word[TARGET != PAD].sum(), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("readout", "least", "most"),
    [
        ("monotonic_marginal", 0, 5),
        ("first_order", -2, 2),
        ("monotonic_first_order", 0, 2),
        ("monotonic_hmm", 0, 5),
    ],
)
def test_no_move_is_outside_of_the_window(readout, least, most):
    model = sharp(readout)
    path = model.best_alignment(model.read(SOURCE, TARGET), TARGET).argmax(axis=-1)
    moves = np.diff(np.asarray(path), axis=1, prepend=0)[TARGET != PAD]
    assert np.all((moves >= least) & (moves <= most))


def test_where_no_weight_is_left_ahead_the_alignment_stays():
    log_weights = marginal.logarithm(jnp.array([[0.5, 0.5, 0.0, 0.0]]))
    readout = sharp("monotonic_marginal").decoder.readout
    expected = [[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(
        jnp.exp(readout.transitions(log_weights, None))[0], expected, atol=1e-7
    )


def test_moves_beyond_the_longest_have_its_score():
    moves = jnp.array([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]])
    found = np.triu(transitions.shifted(moves, 0)[0])
    expected = [[1, 2, 2, 2], [0, 3, 4, 4], [0, 0, 5, 6], [0, 0, 0, 7]]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(transitions.shifted(moves[:, :1], 0)[0], [[1]])
    found = np.triu(transitions.shifted(moves, 1)[0], -1)  # of -1 and of 0 and more
    expected = [[2, 2, 2, 2], [3, 4, 4, 4], [0, 5, 6, 6], [0, 0, 7, 8]]
    np.testing.assert_array_equal(found, expected)


@each
def test_the_derivative_is_that_of_differences(readout, generator):
    model = made(readout, projection="affine")
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), model)
        along = jax.tree.map(lambda leaf: jnp.asarray(generator.normal(size=leaf.shape)), wide)

        def value(step):
            moved = jax.tree.map(lambda leaf, by: leaf + step * by, wide, along)
            reading = moved.read(SOURCE, TARGET)
            return moved.loss(reading, TARGET) + (reading.weights**2).sum()

        derived, width = jax.jit(jax.value_and_grad(value)), 1e-5
        slope = float(derived(0.0)[1])
        differences = float(derived(width)[0] - derived(-width)[0]) / (2 * width)
    assert abs(slope) > 0.1
    np.testing.assert_allclose(slope, differences, rtol=1e-6)


@slow
@each
def test_plain_forms_give_the_same(readout):
    model = made(readout, projection="affine")

    def loss(model):
        return model.loss(model.read(SOURCE, TARGET), TARGET)

    fast, plain = (jax.grad(loss)(with_forms(model, forms)) for forms in (FAST, PLAIN))
    for one, other in zip(jax.tree.leaves(fast), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@each
def test_parts_of_the_steps_give_the_same(readout, monkeypatch):
    model = sharp(readout)

    def found(model):
        reading = model.read(SOURCE, TARGET)
        every = model.log_probabilities(reading.steps, reading.source)
        return model.loss(reading, TARGET) + (every[..., 5] * (TARGET != PAD)).sum(), every

    results = []
    for steps in (2, 100):  # of five steps
        held = Held(steps * SOURCE.size * TARGET_SIZE, 0)
        monkeypatch.setattr(marginal, "LOGITS", held)
        results.append(jax.value_and_grad(found, has_aux=True)(model))
    for one, leaf in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(one, leaf, rtol=1e-4, atol=1e-5)


def largest_array(jaxpr):
    """The most numbers of an array in a program, its inner programs included."""
    inner = [
        body
        for equation in jaxpr.eqns
        for value in equation.params.values()
        for body in (value if isinstance(value, tuple | list) else [value])
    ]
    bodies = [getattr(body, "jaxpr", body) for body in inner]
    sizes = [math.prod(out.aval.shape) for equation in jaxpr.eqns for out in equation.outvars]
    sizes += [largest_array(body) for body in bodies if hasattr(body, "eqns")]
    return max(sizes, default=0)


@pytest.mark.parametrize(
    ("readout", "in_training"),
    [("marginal", 2), ("monotonic_hmm", 2), pytest.param("posterior", 1, marks=full)],
)
def test_no_array_has_all_words_at_all_positions_of_all_steps(readout, in_training, monkeypatch):
    rows, places, steps, vocabulary = 4, 7, 12, 3001
    monkeypatch.setattr(marginal, "LOGITS", Held(2 * rows * places * vocabulary, 0))
    model = made(readout, projection="affine", target_size=vocabulary)
    ids = np.ones((rows, places), np.int32), np.ones((rows, steps), np.int32)

    def loss(model):
        reading = model.read(*ids)
        return model.loss(reading, ids[1]) + (reading.weights**2).sum()

    of_step = rows * places * vocabulary
    for function in (loss, jax.grad(loss)):
        assert largest_array(jax.make_jaxpr(function)(model).jaxpr) == in_training * of_step
    together = jax.make_jaxpr(lambda: force((model,), *ids, **ALONE))()
    assert largest_array(together.jaxpr) == 2 * of_step


@each
@pytest.mark.parametrize(
    "search", [Search(), Search(beam_size=4, n_best=3)], ids=["greedy", "beam"]
)
@pytest.mark.parametrize("decoder", ["recurrent", pytest.param("transformer", marks=slow)])
def test_search_finds_what_forcing_says(readout, search, decoder):
    if decoder == "transformer" and issubclass(OVER_POSITIONS[readout], Posterior):
        pytest.skip("it has a decoder of its own")
    model = sharp(readout, **{} if decoder == "recurrent" else {"decoder": decoder})
    found = decode((model,), SOURCE, **ALONE, search=search, longest=6)
    for nth in range(search.n_best):
        result = jax.tree.map(lambda leaf, nth=nth: np.asarray(leaf[:, nth]), found)
        forced = force((model,), SOURCE, result.tokens, **ALONE)
        sums = forced.log_probabilities.sum(axis=1)
        np.testing.assert_allclose(sums, result.log_probability, rtol=1e-4, atol=1e-4)
        written = result.tokens != PAD
        weights = [np.moveaxis(one.weights, 3, 1)[written] for one in (forced, result)]
        np.testing.assert_allclose(*weights, atol=1e-4)
        np.testing.assert_allclose(weights[0].sum(axis=-1), 1, rtol=1e-4)


@full
@pytest.mark.parametrize("readout", ["posterior", "posterior_proximity", "posterior_monotonic"])
def test_search_finds_the_best_of_all_sequences(readout):
    """And the probabilities of all sequences of three words sum to 1."""
    words = 6
    model = sharp(readout, target_size=words)
    every = np.array([*itertools.product(range(words), repeat=3)])
    reading = model.read(np.repeat(SOURCE[:1], len(every), axis=0), every)
    each = np.asarray(model.log_probabilities(reading.steps, reading.source))
    of_words = np.take_along_axis(each, every[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(np.exp(of_words.sum(axis=1)).sum(), 1, rtol=1e-5)

    ends = (every == EOS).argmax(axis=1)
    after = np.arange(3) > ends[:, None]
    possible = (every == EOS).any(axis=1) & np.all((every == PAD) == after, axis=1)
    possible &= np.all(every != BOS, axis=1)
    scores = np.where(possible, of_words.sum(axis=1, where=~after), -np.inf)
    found = decode((model,), SOURCE[:1], **ALONE, search=Search(beam_size=36), longest=2)
    np.testing.assert_array_equal(found.tokens[0, 0], every[scores.argmax()])
    np.testing.assert_allclose(found.log_probability[0, 0], scores.max(), rtol=1e-4)


def test_an_ensemble_has_the_mean_of_the_posteriors():
    models = sharp("marginal"), sharp("monotonic_hmm")
    alignment, alone = posterior(models, SOURCE, TARGET, **ALONE)
    each = [model.posterior(model.read(SOURCE, TARGET), TARGET) for model in models]
    np.testing.assert_allclose(alignment, np.mean(each, axis=0), rtol=1e-5, atol=1e-6)
    assert np.all(alone == 1)


def test_viterbi_marks_one_position_of_each_step():
    path = viterbi((sharp("monotonic_hmm"),), SOURCE, TARGET, **ALONE)
    np.testing.assert_array_equal(path.sum(axis=-1), TARGET != PAD)
    assert {*np.unique(path)} == {0, 1}


@slow
@pytest.mark.parametrize("readout", OVER_POSITIONS)
def test_rows_of_padding_and_bfloat16_train_with_finite_numbers(readout):
    """And all parameters move."""
    source, target = (np.vstack([ids, 0 * ids[:1]]).astype(np.int32) for ids in (SOURCE, TARGET))
    for options in ({}, {"compute": "bfloat16"}, {"scheduled_sampling": 0.5, "sampling_steps": 1}):
        model = made(readout, make.__wrapped__, dropout=0.2)
        before = jax.tree.map(np.array, model)
        recipe = recipe_of(train_options(losses="coverage(weight=0.1)", warmup_steps=0, **options))
        state = init_state(model, recipe)
        for _ in range(2):  # in the first, no word is sampled
            state, loss = train_step(state, Batch(source, target), jax.random.key(1), recipe=recipe)
        assert np.isfinite(loss)
        moved = jax.tree.map(lambda a, b: bool(np.any(a != b)), before, state.parts.model)
        assert all(jax.tree.leaves(moved.decoder))


@pytest.mark.parametrize("values", ["embeddings", "sum", "key_value"])
@each
def test_positions_are_read_by_any_values(readout, values):
    """Whose sizes differ from those of annotations."""
    model = made(readout, values=values)
    assert np.all(np.isfinite(model.loss(model.read(SOURCE, TARGET), TARGET)))


@each
def test_dropout_is_of_features_the_same_at_all_positions(readout):
    model = made(readout, dropout=0.5)
    reading = model.read(SOURCE, TARGET, by_row(jax.random.key(0), 3))
    assert {*np.unique(reading.steps.kept)} == {0, 2}
    assert_its_loss_is_that_of_its_log_probabilities(model, reading)
    assert np.all(model.read(SOURCE, TARGET).steps.kept == 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 2}, "each head would have its own: leave out model.heads"),
        ({"normalizer": "sigmoid"}, "those of additive, full, sigmoid need not sum to 1"),
        ({"normalizer": "null"}, "need not sum to 1"),
        ({"score": "gmm"}, "need not sum to 1"),
        ({"window": "local_p"}, "those of additive, local_p, softmax need not sum to 1"),
        ({"score": "location_aware"}, "do not depend on earlier ones"),
        ({"normalizer": "forward"}, "do not depend on earlier ones"),
        ({"gate": "headwise"}, "which model.gate=headwise does not gate"),
        ({"sources": "hierarchical"}, "which model.sources=hierarchical mixes with the second"),
        ({"sources": "gated"}, "which model.sources=gated mixes with the second"),
    ],
)
@both
def test_refuses_what_is_no_distribution_over_positions(readout, options, message):
    with pytest.raises(InputError, match=f"model.readout={readout} sums over.*{message}"):
        make(**({"decoder": "luong", "readout": readout} | options))


@pytest.mark.parametrize("decoder", ["bahdanau", "luong_input_feeding"])
@both
def test_refuses_a_decoder_whose_states_depend_on_earlier_positions(readout, decoder):
    message = f"{readout} works with model.decoder=luong or transformer, got {decoder}"
    with pytest.raises(InputError, match=message):
        make(decoder=decoder, readout=readout)


def test_refuses_a_decoder_that_is_not_fed_with_the_posterior():
    message = "posterior works with model.decoder=luong_input_feeding, got luong"
    with pytest.raises(InputError, match=message):
        make(decoder="luong", readout="posterior")


def test_without_weights_there_is_no_mechanism():
    """What is given of one makes no difference."""
    plain, other = (
        make(decoder="luong", readout="first_order", **options)
        for options in ({}, {"score": "location_aware", "normalizer": "sigmoid"})
    )
    assert jax.tree.structure(plain) == jax.tree.structure(other)
    assert not plain.decoder.attention.parameters.get_value()["score"]


@both
def test_refuses_label_smoothing(readout):
    model = make(decoder="luong", readout=readout)
    with pytest.raises(InputError, match="label_smoothing could spread: leave it out"):
        model.loss(model.read(SOURCE, TARGET), TARGET, 0.1)


def test_refuses_alignments_of_a_model_that_does_not_sum_over_them():
    model = make(decoder="luong")
    with pytest.raises(InputError, match="sums over no alignments"):
        model.posterior(model.read(SOURCE, TARGET), TARGET)


@each
def test_embeddings_may_be_tied(readout):
    model = made(readout, embeddings="tied", embedding_size=22)
    reading = model.read(SOURCE, TARGET)
    assert np.isfinite(model.loss(reading, TARGET))


def test_normalizers_say_whether_their_weights_sum_to_one():
    for normalizer in NORMALIZERS.values():
        assert normalizer.sums_to_one == ("Sum: 1." in normalizer.__doc__), normalizer
    assert Mechanism(Additive(), Full()).sums_to_one
    assert not Mechanism(Additive(), LocalP()).sums_to_one
