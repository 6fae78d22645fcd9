"""The error function on arrays, which NumPy lacks.

erf and erfc follow the rational approximations of Sun's fdlibm (`s_erf.c`, 1993, freely granted):
the interval is cut at 0.84375, 1.25, 1/0.35 and 28, and on each piece the error is below one unit
in the last place of float64. Results are computed in float64 and cast to the input's dtype.
"""

from __future__ import annotations

from typing import Any

Array = Any

_ERX = 8.45062911510467529297e-01

_P0 = (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
       -5.77027029648944159157e-03, -2.37630166566501626084e-05)
_Q0 = (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
       1.32494738004321644526e-04, -3.96022827877536812320e-06)
_P1 = (-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
       3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
       -2.16637559486879084300e-03)
_Q1 = (1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
       1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02)
_R2 = (-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
       -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
       -8.12874355063065934246e+01, -9.81432934416914548592e+00)
_S2 = (1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
       6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
       6.57024977031928170135e+00, -6.04244152148580987438e-02)
_R3 = (-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
       -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
       -4.83519191608651397019e+02)
_S3 = (1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
       3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
       -2.24409524465858183362e+01)


def _poly(x: Array, coefficients: tuple[float, ...]) -> Array:
    result = x * 0.0 + coefficients[-1]
    for c in coefficients[-2::-1]:
        result = result * x + c
    return result


def _pieces(xp: Any, size: Array) -> tuple[Array, Array]:
    """(erf, erfc) of non-negative float64 `size`, each to about one ulp."""
    square = xp.minimum(size, 0.84375) ** 2
    small = xp.minimum(size, 0.84375)
    ratio0 = _poly(square, _P0) / _poly(square, _Q0)
    erf0 = small + small * ratio0
    s = xp.clip(size, 0.84375, 1.25) - 1.0
    ratio1 = _poly(s, _P1) / _poly(s, _Q1)
    x = xp.clip(size, 1.25, 28.0)
    inverse = 1.0 / (x * x)
    near = x < 1.0 / 0.35
    ratio2 = xp.where(
        near, _poly(inverse, _R2) / _poly(inverse, _S2), _poly(inverse, _R3) / _poly(inverse, _S3)
    )
    # exp(-x²) with x split in two, so that the rounding of x² does not enter the exponent.
    head = x.astype(xp.float32).astype(xp.float64)
    tail = xp.exp(-head * head - 0.5625) * xp.exp((head - x) * (head + x) + ratio2) / x
    tail = xp.where(size >= 28.0, 0.0, tail)
    in0, in1 = size < 0.84375, size < 1.25
    erf = xp.where(in0, erf0, xp.where(in1, _ERX + ratio1, 1.0 - tail))
    # fdlibm's split at 1/4 keeps 1 - erf exact to the last bit near 1/2.
    erfc0 = xp.where(size < 0.25, 1.0 - erf0, 0.5 - (small - 0.5 + small * ratio0))
    erfc = xp.where(in0, erfc0, xp.where(in1, 1.0 - _ERX - ratio1, tail))
    return erf, erfc


def _on_float64(xp: Any, x: Array) -> tuple[Array, Any]:
    x = xp.asarray(x)
    dtype = x.dtype if x.dtype.kind == "f" else xp.float64
    return x.astype(xp.float64), dtype


def erf(xp: Any, x: Array) -> Array:
    """2/√π ∫₀ˣ exp(-t²) dt, elementwise; NaN stays NaN, ±inf gives ±1."""
    wide, dtype = _on_float64(xp, x)
    value, _ = _pieces(xp, xp.abs(wide))
    return xp.where(xp.isnan(wide), wide, xp.copysign(value, wide)).astype(dtype)


def erfc(xp: Any, x: Array) -> Array:
    """1 - erf(x), elementwise, accurate in the far tail where 1 - erf(x) would cancel."""
    wide, dtype = _on_float64(xp, x)
    value, complement = _pieces(xp, xp.abs(wide))
    result = xp.where(wide < 0, 1.0 + value, complement)
    return xp.where(xp.isnan(wide), wide, result).astype(dtype)
