"""The encoders and decoders that options choose from, and which options each choice uses."""

from collections.abc import Callable

from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.copying import OneSoftmax
from attn_jax.models.copynet import CopyNet
from attn_jax.models.decoders import Bahdanau, Luong, LuongInputFeeding
from attn_jax.models.encoders import LAYERS, RecurrentEncoder
from attn_jax.models.fed_with_posterior import FedWithPosterior
from attn_jax.models.integrate_and_fire import Cif
from attn_jax.models.marginal import Marginal
from attn_jax.models.over_positions import LuongOverPositions, TransformerOverPositions
from attn_jax.models.posterior import Posterior
from attn_jax.models.protocols import Decoder, Encoder
from attn_jax.models.readouts import Readout, find_readout
from attn_jax.models.syntactic import Syntactic
from attn_jax.models.transformer import Transformer, TransformerEncoder
from attn_jax.settings.grammar import choose_or_import, own_names

ENCODERS: dict[str, type[Encoder]] = {
    **dict.fromkeys(LAYERS, RecurrentEncoder),
    "transformer": TransformerEncoder,
}

DECODERS: dict[str, type[Decoder]] = {
    "bahdanau": Bahdanau,
    "luong": Luong,
    "luong_input_feeding": LuongInputFeeding,
    "syntactic": Syntactic,
    "cif": Cif,
    "transformer": Transformer,
}

# What they are with a readout that needs states of its own, or one derived from it.
WITH_READOUT: dict[type[Readout], dict[type[Decoder], type[Decoder]]] = {
    OneSoftmax: {Bahdanau: CopyNet},
    Posterior: {LuongInputFeeding: FedWithPosterior},
    Marginal: {Luong: LuongOverPositions, Transformer: TransformerOverPositions},
}

# The options of every model; the parts that others choose say what they use.
OPTIONS = frozenset(
    {"encoder", "decoder", "sources", "embeddings", "embedding_size", "initialization"}
)


def options_of(config: Model) -> frozenset[str]:
    """The names of the options that a model uses; with parts of one's own, all.

    Raises:
      InputError: there is no such encoder, decoder or readout.
    """
    if any(map(own_names, (config.encoder, config.decoder, config.readout))):
        return frozenset(vars(config))
    encoder = choose_or_import(ENCODERS, config.encoder, "encoder")
    decoder = choose_or_import(DECODERS, config.decoder, "decoder")
    readout = find_readout(config, decoder.usual_readout)
    used = OPTIONS | encoder.options | decoder.options | readout.options
    return used if readout.reads_weights else used - {"score", "window", "normalizer"}


def find_encoder(config: Model) -> Callable[..., Encoder]:
    """The class of the encoder selected by the options.

    Raises:
      InputError: there is no such encoder.
    """
    return choose_or_import(ENCODERS, config.encoder, "encoder")


def find_decoder(config: Model) -> Callable[..., Decoder]:
    """The class of the decoder selected by the options.

    Raises:
      InputError: there is no such decoder, or the readout does not work with it.
    """
    decoder = choose_or_import(DECODERS, config.decoder, "decoder")
    if not hasattr(decoder, "step"):
        raise InputError(f"model.decoder={config.decoder} is not a decoder: it has no `step`")
    if config.readout == "auto":
        return decoder
    readout = find_readout(config, "")
    kinds = next((kinds for kind, kinds in WITH_READOUT.items() if issubclass(readout, kind)), None)
    if kinds is None:
        return decoder
    if decoder not in kinds:
        named = " or ".join(name for name, kind in DECODERS.items() if kind in kinds)
        raise InputError(
            f"model.readout={config.readout} works with model.decoder={named}, got {config.decoder}"
        )
    return kinds[decoder]
