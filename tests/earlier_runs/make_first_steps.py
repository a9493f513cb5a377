"""Makes `first_steps/`: the losses of 20 steps by the code before issue 40, commit 4b39e92.

`PYTHONPATH=CHECKOUT python make_first_steps.py`, with a checkout of that commit. Each file holds
the stated options as JSON, three batches that are taken in turn, the first parameters by the names
of `named_leaves` with `model.` in front, and the losses.
"""

import json
from pathlib import Path

import jax
import numpy as np

from attn_jax.config import Model, Train
from attn_jax.models.seq2seq import initialize
from attn_jax.tokens import EOS, PAD
from attn_jax.training.arrays import named_leaves
from attn_jax.training.recipe import recipe_of
from attn_jax.training.step import init_state, train_step

WORDS, B, S, T, STEPS = 20, 6, 7, 5, 20
SIZES = {
    "embedding_size": 8,
    "annotation_size": 16,
    "hidden_size": 12,
    "alignment_size": 6,
    "readout_size": 8,
    "feedforward_size": 16,
    "dropout": 0.0,
}
TRAIN = {"learning_rate": 0.01, "warmup_steps": 0}
RNNSEARCH = {"decoder": "bahdanau", "encoder": "bidirectional", "cell": "gru"}
LUONG = {"decoder": "luong_input_feeding", "encoder": "unidirectional", "cell": "lstm"}
TRANSFORMER = {"encoder": "transformer", "decoder": "transformer", "heads": 2}
MODELS = {
    "rnnsearch": {"score": "additive"},
    "luong": LUONG | {"score": "general"},
    "transformer": TRANSFORMER | {"score": "scaled_dot"},
    "location_aware": {"score": "location_aware(width=5)"},
    "gmm": {"score": "gmm"},
    "mocha": {"score": "additive", "normalizer": "mocha(noise=0)"},
}


def sentences(generator, lengths, longest):
    """Random words, padded at the end."""
    words = generator.integers(EOS + 1, WORDS, (len(lengths), longest), np.int32)
    return np.where(np.arange(longest) < lengths[:, None], words, PAD)


def batches():
    """Three batches of sources [3, B, S] and targets [3, B, T] that end in `EOS`."""
    generator = np.random.default_rng(0)
    sources, targets = [], []
    for _ in range(3):
        sources.append(sentences(generator, generator.integers(1, S + 1, B), S))
        lengths = generator.integers(1, T + 1, B)
        target = sentences(generator, lengths, T)
        target[np.arange(B), lengths - 1] = EOS
        targets.append(target)
    return np.stack(sources), np.stack(targets)


def main():
    """Writes a file for each model."""
    folder = Path(__file__).with_name("first_steps")
    folder.mkdir(exist_ok=True)
    sources, targets = batches()
    config = Train(**TRAIN)
    for name, given in MODELS.items():
        options = SIZES | RNNSEARCH | given
        model = initialize(Model(**options), WORDS, WORDS, jax.random.key(0))
        first = {f"model.{path}": np.array(leaf) for path, leaf in named_leaves(model).items()}
        state, losses = init_state(model, recipe_of(config)), []
        for step in range(STEPS):
            batch = sources[step % 3], targets[step % 3], None
            state, loss = train_step(state, batch, jax.random.key(1), recipe=recipe_of(config))
            losses.append(float(loss))
        np.savez_compressed(
            folder / f"{name}.npz",
            options=json.dumps({"model": options, "train": TRAIN}),
            sources=sources,
            targets=targets,
            losses=np.array(losses),
            **first,
        )
        print(name, losses[0], losses[-1])


if __name__ == "__main__":
    main()
