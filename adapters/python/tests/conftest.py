import pytest

import minikv


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / 'db')


@pytest.fixture
def db(path):
    with minikv.DB(path, create_if_missing=True) as db:
        yield db
