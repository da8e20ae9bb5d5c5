"""The transport map of Fern: Householder reflections, the SPD push, and the Gaussian distribution they make."""

from fern.transport.ellipsoid import Ellipsoid
from fern.transport.householder import reflect, reflect_back, spd_push

__all__ = ["Ellipsoid", "reflect", "reflect_back", "spd_push"]
