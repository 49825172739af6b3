"""The names of plyvel's native module, for programs that import some of them from here."""

from minikv import *  # noqa: F403
