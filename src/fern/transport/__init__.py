"""The transport map of Fern: Householder reflections, the SPD push, and the Gaussian distribution they make."""

from fern.transport.bures import w2_squared
from fern.transport.ellipsoid import EIGENVALUE_FLOOR, Ellipsoid
from fern.transport.householder import reflect, reflect_back, spd_push

__all__ = ["EIGENVALUE_FLOOR", "Ellipsoid", "reflect", "reflect_back", "spd_push", "w2_squared"]
