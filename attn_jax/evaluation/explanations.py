"""Do the weights matter? Figures of a system that need no gold alignment."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def explanations(translator: Any, sources: Sequence[Any], targets: Sequence[Any]) -> dict[str, Any]:
    """Measures on some references what becomes of them if attention looks elsewhere.

    Args:
      translator: has `explain`.
      sources: sentences, as text or cut into tokens; those of one token are left out, since there
        is no other to look at.
      targets: their references.

    Returns:
      The numbers of `sentences` and target `tokens`, and means over the tokens: by how much their
      log-probability falls, in nats, `without_most` and `without_random`, and with `uniform`
      weights; and the `rank_agreement`, Kendall's τ of weights and |gradient × input|, where it is
      defined for any. Empty if no sentence is left.
    """
    cut = [translator.source.cut(source) for source in sources]
    kept = [nth for nth, source in enumerate(cut) if len(source.tokens) > 1]
    explained = translator.explain([cut[nth] for nth in kept], [targets[nth] for nth in kept])
    if not explained:
        return {}
    usual = np.concatenate([one.log_probabilities for one in explained])
    losses = {
        name: float(np.mean(usual - np.concatenate([getattr(one, name) for one in explained])))
        for name in ("without_most", "without_random", "uniform")
    }
    agreements = np.concatenate([rank_agreement(one.weights, one.importance) for one in explained])
    known = agreements[~np.isnan(agreements)]
    agreement = {"rank_agreement": float(known.mean())} if known.size else {}
    return {"sentences": len(explained), "tokens": len(usual), **losses, **agreement}


def rank_agreement(weights: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Kendall's τ (b, for ties) of weights and importance, [T, S] both, for each target token.

    NaN where one of them is the same everywhere. Jain and Wallace 2019, section 4.1.
    """
    pairs = zip(weights, importance, strict=True)
    from scipy.stats import kendalltau  # takes half a second, which other programs save

    taus: list[Any] = [kendalltau(*pair) for pair in pairs]
    return np.array([tau.statistic for tau in taus])
