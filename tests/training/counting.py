"""Counts the operations of matrix products in a traced function, whatever the machine."""

import math

import jax


def operations(function, *inputs) -> int:
    """Multiplications and additions of all products; those in a scan count in each iteration."""
    return _of(jax.make_jaxpr(function)(*inputs).jaxpr)


def _of(jaxpr) -> int:
    total = 0
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        if name == "dot_general":
            (contracted, _), _ = parameters["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            length = math.prod(shape[axis] for axis in contracted)
            total += 2 * length * math.prod(equation.outvars[0].aval.shape)
        inner = sum(_of(body) for value in parameters.values() for body in _jaxprs(value))
        total += inner * (parameters["length"] if name == "scan" else 1)
    return total


def _jaxprs(value) -> list:
    if isinstance(value, (tuple, list)):
        return [body for each in value for body in _jaxprs(each)]
    value = getattr(value, "jaxpr", value)
    return [value] if hasattr(value, "eqns") else []
