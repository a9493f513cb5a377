"""The public names, which a new version may not lose without a word."""

import attn_jax

NAMES = """
GATES LOSSES MIXING NORMALIZERS SCORES SOURCES VALUES WINDOWS
Answer Data Experiment Gate Hypothesis InputError Loss Mechanism Memory Mixing Model Normalizer
Part Past Report Score Seen Sentence Slurm Timed Train Translator Trials Values Window
attend attend_all attend_step begin check compare evaluate export heat_map inner
load load_exported nn page
report save_weights scaled_normal setting start sweep train
tuned_sweep weights_of word_times
"""


def test_the_public_names_are_these():
    assert sorted(attn_jax.__all__) == sorted(NAMES.split())


def test_each_public_name_is_there_and_documented():
    for name in attn_jax.__all__:
        assert getattr(attn_jax, name).__doc__, name
