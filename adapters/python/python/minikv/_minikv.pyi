from collections.abc import Callable
from os import PathLike
from types import TracebackType
from typing import Any, Literal, TypeVar, final, overload

from typing_extensions import Buffer, Self, TypeAlias

__all__ = [
    'DB',
    'Iterator',
    'PrefixedDB',
    'RawIterator',
    'Snapshot',
    'WriteBatch',
    '_close_all',
    '_forked',
    'destroy_db',
    'open_read_only',
    'repair_db',
    'verify',
]

_T = TypeVar('_T')
_Name: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]
_Comparator: TypeAlias = Callable[[bytes, bytes], int]
_Layout: TypeAlias = Literal['block', 'table', 'both']

@final
class DB:
    def __new__(
        cls,
        name: _Name,
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: bool | None = None,
        write_buffer_size: int | None = None,
        max_open_files: int | None = None,
        lru_cache_size: int | None = None,
        block_size: int | None = None,
        block_restart_interval: int | None = None,
        max_file_size: int | None = None,
        compression: Literal['snappy'] | None = 'snappy',
        bloom_filter_bits: int = 0,
        filter_layout: _Layout = 'block',
        comparator: _Comparator | None = None,
        comparator_name: bytes | None = None,
    ) -> Self: ...
    @property
    def name(self) -> _Name: ...
    @property
    def closed(self) -> bool: ...
    @property
    def read_only(self) -> bool: ...
    def close(self) -> None: ...
    @overload
    def get(
        self,
        key: bytes,
        default: None = None,
        *,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> bytes | None: ...
    @overload
    def get(
        self,
        key: bytes,
        default: _T,
        *,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> bytes | _T: ...
    def put(self, key: bytes, value: Buffer, *, sync: bool | None = False) -> None: ...
    def delete(self, key: bytes, *, sync: bool | None = False) -> None: ...
    def delete_range(
        self, start: bytes | None, stop: bytes | None, *, sync: bool | None = False
    ) -> None: ...
    def write_batch(
        self, *, transaction: bool | None = False, sync: bool | None = False
    ) -> WriteBatch: ...
    def __iter__(self) -> Iterator: ...
    def iterator(
        self,
        *,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: bool | None = True,
        include_value: bool | None = True,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> Iterator: ...
    def raw_iterator(
        self, *, verify_checksums: bool | None = True, fill_cache: bool | None = True
    ) -> RawIterator: ...
    def snapshot(self) -> Snapshot: ...
    def get_property(self, name: bytes) -> bytes | None: ...
    def compact_range(self, *, start: bytes | None = None, stop: bytes | None = None) -> None: ...
    def approximate_size(self, start: bytes, stop: bytes) -> int: ...
    def approximate_sizes(self, *ranges: tuple[bytes, bytes]) -> list[int]: ...
    def prefixed_db(self, prefix: bytes) -> PrefixedDB: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def checkpoint(self, path: _Name) -> None: ...
    def explain(self, key: bytes) -> dict[str, Any]: ...
    def stats(self) -> dict[str, Any]: ...
    def filter_advice(self) -> dict[str, Any]: ...
    def refresh(self) -> bool: ...
    def resume(self) -> None: ...
    def sync(self) -> None: ...

@final
class PrefixedDB:
    def __new__(cls, *, db: DB, prefix: bytes) -> Self: ...
    @property
    def db(self) -> DB: ...
    @property
    def prefix(self) -> bytes: ...
    @overload
    def get(
        self,
        key: bytes,
        default: None = None,
        *,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> bytes | None: ...
    @overload
    def get(
        self,
        key: bytes,
        default: _T,
        *,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> bytes | _T: ...
    def put(self, key: bytes, value: Buffer, *, sync: bool | None = False) -> None: ...
    def delete(self, key: bytes, *, sync: bool | None = False) -> None: ...
    def write_batch(
        self, *, transaction: bool | None = False, sync: bool | None = False
    ) -> WriteBatch: ...
    def __iter__(self) -> Iterator: ...
    def iterator(
        self,
        *,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: bool | None = True,
        include_value: bool | None = True,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> Iterator: ...
    def snapshot(self) -> Snapshot: ...
    def prefixed_db(self, prefix: bytes) -> PrefixedDB: ...

@final
class Snapshot:
    def __new__(cls, *, db: DB, prefix: bytes | None = None) -> Self: ...
    @overload
    def get(
        self,
        key: bytes,
        default: None = None,
        *,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> bytes | None: ...
    @overload
    def get(
        self,
        key: bytes,
        default: _T,
        *,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> bytes | _T: ...
    def __iter__(self) -> Iterator: ...
    def iterator(
        self,
        *,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: bool | None = True,
        include_value: bool | None = True,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> Iterator: ...
    def raw_iterator(
        self, *, verify_checksums: bool | None = True, fill_cache: bool | None = True
    ) -> RawIterator: ...
    def explain(self, key: bytes) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def release(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Literal[False]: ...

@final
class WriteBatch:
    def put(self, key: bytes, value: Buffer) -> None: ...
    def delete(self, key: bytes) -> None: ...
    def clear(self) -> None: ...
    def write(self) -> None: ...
    def approximate_size(self) -> int: ...
    def append(self, source: WriteBatch) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

# The type of the items depends on include_key and include_value: pairs, keys, values, or None.
@final
class Iterator:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def prev(self) -> Any: ...
    def seek_to_start(self) -> None: ...
    def seek_to_stop(self) -> None: ...
    def seek(self, target: bytes) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Literal[False]: ...

@final
class RawIterator:
    def valid(self) -> bool: ...
    def seek_to_first(self) -> None: ...
    def seek_to_last(self) -> None: ...
    def seek(self, target: bytes) -> None: ...
    def next(self) -> None: ...
    def prev(self) -> None: ...
    def key(self) -> bytes: ...
    def value(self) -> bytes: ...
    def item(self) -> tuple[bytes, bytes]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Literal[False]: ...

def open_read_only(
    name: _Name,
    *,
    paranoid_checks: bool | None = None,
    max_open_files: int | None = None,
    lru_cache_size: int | None = None,
    bloom_filter_bits: int = 0,
    filter_layout: _Layout = 'block',
    comparator: _Comparator | None = None,
    comparator_name: bytes | None = None,
) -> DB: ...
def repair_db(
    name: _Name,
    *,
    dry_run: bool = False,
    paranoid_checks: bool | None = None,
    write_buffer_size: int | None = None,
    max_open_files: int | None = None,
    lru_cache_size: int | None = None,
    block_size: int | None = None,
    block_restart_interval: int | None = None,
    max_file_size: int | None = None,
    compression: Literal['snappy'] | None = 'snappy',
    bloom_filter_bits: int = 0,
    filter_layout: _Layout = 'block',
    comparator: _Comparator | None = None,
    comparator_name: bytes | None = None,
) -> dict[str, Any]: ...
def verify(
    name: _Name,
    *,
    comparator: _Comparator | None = None,
    comparator_name: bytes | None = None,
) -> dict[str, Any]: ...
def destroy_db(name: _Name) -> None: ...
def _close_all() -> None: ...
def _forked() -> None: ...
