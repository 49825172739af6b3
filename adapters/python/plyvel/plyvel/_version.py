"""The version whose interface minikv has, as in pyproject.toml."""

__version__ = '1.5.1+minikv'
