"""What the token embeddings have come to say: neighbours by their angle, and a plane to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def neighbours(
    vectors: NDArray[np.floating], tokens: Sequence[int], count: int
) -> list[list[tuple[int, float]]]:
    """For each of `tokens` the `count` rows of `vectors` (V, C) with the largest cosine to its own,
    itself left out: (row, cosine), the nearest first; of equals the smaller row.

    A row of zeros has a cosine of 0 to all.
    """
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    found = []
    for token in tokens:
        cosines = unit @ unit[token]
        nearest = np.argsort(-cosines, kind="stable")
        nearest = nearest[nearest != token][:count]
        found.append([(int(other), float(cosines[other])) for other in nearest])
    return found


@dataclass(frozen=True)
class Plane:
    """The plane through the middle of some points in which they are spread most (PCA).

    Attributes:
        middle: (C,), their mean.
        axes: (2, C), the first two right singular vectors of the centred points; the largest number
            of each is positive, as its sign would be chance.
        shares: of the points' variance, along each of the two.
    """

    middle: Floats
    axes: Floats
    shares: tuple[float, float]

    def project(self, points: NDArray[np.floating]) -> Floats:
        """(N, C) -> (N, 2)."""
        return np.asarray((np.asarray(points, np.float64) - self.middle) @ self.axes.T)


def principal_plane(points: NDArray[np.floating]) -> Plane:
    """That of points (N, C), N and C at least 2, by a singular value decomposition."""
    whole = np.asarray(points, np.float64)
    middle = whole.mean(axis=0)
    _, sizes, right = np.linalg.svd(whole - middle, full_matrices=False)
    axes = right[:2]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    variance = sizes**2
    shares = variance[:2] / (variance.sum() or 1.0)
    upright = axes * np.where(largest < 0, -1.0, 1.0)
    return Plane(middle, upright, (float(shares[0]), float(shares[1])))
