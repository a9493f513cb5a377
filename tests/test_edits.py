"""Edits against brute force and worked examples."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax.edits import edit_distance, edit_path, edits_of

words = st.lists(st.sampled_from("abc"), max_size=6).map(tuple)


@functools.cache
def distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    change = distance(a[1:], b[1:]) + (a[0] != b[0])
    return min(change, distance(a[1:], b) + 1, distance(a, b[1:]) + 1)


@functools.cache
def paths(a, b):
    """Errors and kept tokens of every way to turn one sequence into the other."""
    if not a or not b:
        return {(len(a) + len(b), 0)}
    same = a[0] == b[0]
    return (
        {(errors + (not same), kept + same) for errors, kept in paths(a[1:], b[1:])}
        | {(errors + 1, kept) for errors, kept in paths(a[1:], b)}
        | {(errors + 1, kept) for errors, kept in paths(a, b[1:])}
    )


@given(words, words)
def test_edit_distance_equals_the_recursion(hypothesis, reference):
    assert edit_distance(hypothesis, reference) == distance(hypothesis, reference)


@given(words, words)
def test_a_path_has_the_fewest_errors_and_of_these_the_most_matches(hypothesis, reference):
    path = edit_path(hypothesis, reference)
    assert [said for said, _ in path if said is not None] == list(range(len(hypothesis)))
    assert [wanted for _, wanted in path if wanted is not None] == list(range(len(reference)))
    kept = edits_of(hypothesis, reference).kept
    assert all(hypothesis[said] == reference[wanted] for said, wanted in kept)
    errors = len(path) - len(kept)
    assert errors == edit_distance(hypothesis, reference)
    assert (errors, -len(kept)) == min((e, -k) for e, k in paths(hypothesis, reference))


@pytest.mark.parametrize(
    ("said", "reference", "kept"),
    [
        ("2049-09-08", "2048-06-09", [0, 1, 2, 4, 5, 7, 8]),  # three errors of the error rate
        ("abcd", "abcd", [0, 1, 2, 3]),
        ("acd", "abcd", [0, 1, 2]),
        ("xabcd", "abcd", [1, 2, 3, 4]),
        ("dd", "abcd", [1]),
        ("ab", "bc", [1]),  # rather than two substitutions
        ("aab", "ab", [0, 2]),
        ("", "abcd", []),
    ],
)
def test_paths_by_hand(said, reference, kept):
    assert [place for place, _ in edits_of(said, reference).kept] == kept
