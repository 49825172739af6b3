"""minikv under the name plyvel, for programs that import plyvel."""

from minikv import *  # noqa: F403
