"""The mathematics of attention: pure functions of one sentence."""

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
from attn_jax.attention.mechanism import Mechanism
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
from attn_jax.attention.past import Past
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
from attn_jax.attention.sources import Combined, Concatenated, Flat, Gated, Hierarchical, One
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
