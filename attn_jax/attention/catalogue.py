"""All parts of mechanisms by name."""

from collections import ChainMap
from collections.abc import Mapping
from typing import TypeVar

from attn_jax.attention.compositions import (
    Dropped,
    Leaky,
    LengthScaled,
    Pair,
    Projected,
    SelfAdaptive,
    SoftCap,
    TransitionAgent,
)
from attn_jax.attention.content_scores import (
    ActivatedGeneral,
    BiasedGeneral,
    FineGrained,
    Ngpt,
    NormedAdditive,
    Performer,
    QkLayerNorm,
    QkNorm,
    ScaledGeneral,
)
from attn_jax.attention.fused_normalizers import Fusedmax, Oscarmax
from attn_jax.attention.gates import Elementwise, Headwise, Leak, RmsNorm, Ungated
from attn_jax.attention.mixing import Apart, TalkingHeads
from attn_jax.attention.monotonic import (
    Forward,
    Milk,
    MmaH,
    Mocha,
    Monotonic,
    StableMocha,
    Stepwise,
    Truncated,
)
from attn_jax.attention.moving_scores import (
    DynamicConvolution,
    Gmm,
    GmmV1,
    GmmV2,
    Logistics,
    MixAttender,
    VeryAttentive,
)
from attn_jax.attention.normalizers import (
    Annealed,
    Exponential,
    Gumbel,
    IntraTemporal,
    Null,
    OffByOne,
    Relu,
    ScalableSoftmax,
    Segments,
    Selective,
    Sigmoid,
    Smoothing,
    Softmax,
    StickBreaking,
    StraightThrough,
    Temperature,
)
from attn_jax.attention.offset_scores import (
    Alibi,
    Buckets,
    FactorizedSynthesizer,
    HardCoded,
    LengthAwareRotary,
    RandomSynthesizer,
    Relative,
    Rotary,
)
from attn_jax.attention.position_scores import (
    Coverage,
    CumulativeLocation,
    Location,
    LocationAware,
    NeuralCoverage,
    PlainCoverage,
    Recurrent,
    Structural,
)
from attn_jax.attention.protocol import Gate, Mixing, Normalizer, Part, Score, Values, Window
from attn_jax.attention.scores import (
    Additive,
    Concat,
    Cosine,
    Dot,
    General,
    Last,
    Linear,
    Mean,
    ScaledDot,
)
from attn_jax.attention.signed_normalizers import Continuous, Differential
from attn_jax.attention.sources import Concatenated, Flat, Gated, Hierarchical, One, Sources
from attn_jax.attention.sparse_normalizers import (
    ConstrainedSoftmax,
    ConstrainedSparsemax,
    Entmax,
    Evidential,
    LearnedEntmax,
    Sparsemax,
    TopK,
)
from attn_jax.attention.values import Annotations, Embeddings, KeyValue, Sum
from attn_jax.attention.windows import (
    AdaptiveSpan,
    AroundMaximum,
    AroundMedian,
    DiagonalPrior,
    Full,
    LocalM,
    Localness,
    LocalP,
    WaitK,
)

Kind = TypeVar("Kind", bound=Part)


def _by_name(*classes: type[Kind]) -> dict[str, type[Kind]]:
    return {one.name: one for one in classes}


SCORES: dict[str, type[Score]] = _by_name(
    # of content
    Additive,
    NormedAdditive,
    FineGrained,
    Dot,
    ScaledDot,
    General,
    ScaledGeneral,
    BiasedGeneral,
    ActivatedGeneral,
    Concat,
    Cosine,
    QkNorm,
    QkLayerNorm,
    Ngpt,
    Linear,
    Performer,
    # of content and offsets, or of offsets alone
    Relative,
    Buckets,
    Alibi,
    Rotary,
    LengthAwareRotary,
    HardCoded,
    RandomSynthesizer,
    FactorizedSynthesizer,
    # of position and history
    Location,
    LocationAware,
    CumulativeLocation,
    Coverage,
    PlainCoverage,
    NeuralCoverage,
    Recurrent,
    Structural,
    # that move
    Gmm,
    GmmV1,
    GmmV2,
    Logistics,
    DynamicConvolution,
    MixAttender,
    VeryAttentive,
    # controls
    Mean,
    Last,
)
COMPOSITIONS: dict[str, type[Score]] = _by_name(
    Pair,
    Projected,
    SoftCap,
    SelfAdaptive,
    LengthScaled,
    Leaky,
    TransitionAgent,
)
WINDOWS: dict[str, type[Window]] = _by_name(
    Full,
    LocalM,
    LocalP,
    AroundMaximum,
    AroundMedian,
    Localness,
    AdaptiveSpan,
    WaitK,
    DiagonalPrior,
)
NORMALIZERS: dict[str, type[Normalizer]] = _by_name(
    Softmax,
    Temperature,
    Annealed,
    ScalableSoftmax,
    Smoothing,
    Sigmoid,
    Null,
    OffByOne,
    IntraTemporal,
    Selective,
    StickBreaking,
    Segments,
    Gumbel,
    StraightThrough,
    Exponential,
    Relu,
    # that give positions exactly 0
    Sparsemax,
    Entmax,
    LearnedEntmax,
    TopK,
    Evidential,
    ConstrainedSoftmax,
    ConstrainedSparsemax,
    Fusedmax,
    Oscarmax,
    # that may be negative
    Differential,
    Continuous,
    # that move
    Monotonic,
    Mocha,
    StableMocha,
    Truncated,
    Milk,
    MmaH,
    Stepwise,
    Forward,
)
WRAPPERS: dict[str, type[Normalizer]] = _by_name(Dropped)
VALUES: dict[str, type[Values]] = _by_name(Annotations, Embeddings, Sum, KeyValue)
GATES: dict[str, type[Gate]] = _by_name(Ungated, Elementwise, Headwise, RmsNorm, Leak)
MIXING: dict[str, type[Mixing]] = _by_name(Apart, TalkingHeads)
SOURCES: dict[str, type[Sources]] = _by_name(One, Flat, Hierarchical, Concatenated, Gated)
TABLES: dict[type[Part], Mapping[str, type[Part]]] = {
    Score: ChainMap(COMPOSITIONS, SCORES),  # a view: the scores first, also those added later
    Window: WINDOWS,
    Normalizer: ChainMap(WRAPPERS, NORMALIZERS),
    Values: VALUES,
    Gate: GATES,
    Mixing: MIXING,
    Sources: SOURCES,
}
