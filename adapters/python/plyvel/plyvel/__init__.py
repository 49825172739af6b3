"""minikv under the name plyvel, for programs that import plyvel."""

from minikv import *  # noqa: F403

from . import _plyvel  # noqa: F401
from ._version import __version__  # noqa: F401
