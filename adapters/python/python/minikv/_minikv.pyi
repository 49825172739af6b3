from collections.abc import Callable
from datetime import datetime, timedelta
from os import PathLike
from types import GenericAlias, TracebackType
from typing import Any, Generic, Literal, TypeVar, final, overload, type_check_only

from typing_extensions import Buffer, Self, TypeAlias

from ._records import Change, KeyspaceName
from .reports import Backup, Explanation, Fault, Report

__all__ = [
    'DB',
    'Changes',
    'Iterator',
    'Keyspace',
    'PrefixedDB',
    'RawIterator',
    'Snapshot',
    'Transaction',
    'WriteBatch',
    '_close_all',
    '_forked',
    'backups',
    'destroy_db',
    'open_read_only',
    'repair_db',
    'restore',
    'verify',
    'verify_backups',
]

_T = TypeVar('_T')
_Item_co = TypeVar('_Item_co', covariant=True)
_Name: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]
_Comparator: TypeAlias = Callable[[bytes, bytes], int]
_Ttl: TypeAlias = float | timedelta
_Yes: TypeAlias = Literal[True]
_No: TypeAlias = Literal[False] | None
_Layout: TypeAlias = Literal['block', 'table', 'both']

# The methods that DB, PrefixedDB, Keyspace and Snapshot have in common.
@type_check_only
class _Reads:
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
    def __contains__(self, key: bytes, /) -> bool: ...
    def __iter__(self) -> Iterator[tuple[bytes, bytes]]: ...
    # The items depend on include_key and include_value; in the last case, which is Any, they are
    # not known before the call.
    @overload
    def iterator(
        self,
        *,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: _Yes = True,
        include_value: _Yes = True,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> Iterator[tuple[bytes, bytes]]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: _No,
        include_value: _Yes = True,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: _Yes = True,
        include_value: _No,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: _No,
        include_value: _No,
        verify_checksums: bool | None = True,
        fill_cache: bool | None = True,
    ) -> Iterator[None]: ...
    @overload
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
    ) -> Iterator[Any]: ...

@final
class DB(_Reads):
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
        keep_logs_bytes: int | None = None,
        keep_logs_for: _Ttl | None = None,
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
    def put(self, key: bytes, value: Buffer, *, sync: bool | None = False) -> None: ...
    def delete(self, key: bytes, *, sync: bool | None = False) -> None: ...
    def delete_range(
        self, start: bytes | None, stop: bytes | None, *, sync: bool | None = False
    ) -> None: ...
    def write_batch(
        self, *, transaction: bool | None = False, sync: bool | None = False
    ) -> WriteBatch: ...
    def raw_iterator(
        self, *, verify_checksums: bool | None = True, fill_cache: bool | None = True
    ) -> RawIterator: ...
    def snapshot(self) -> Snapshot: ...
    def get_property(self, name: bytes) -> bytes | None: ...
    def compact_range(self, *, start: bytes | None = None, stop: bytes | None = None) -> None: ...
    def approximate_size(self, start: bytes, stop: bytes) -> int: ...
    def approximate_sizes(self, *ranges: tuple[bytes, bytes] | list[bytes]) -> list[int]: ...
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
    def backup(self, folder: _Name, *, keep: int | None = None) -> Backup: ...
    def keyspace(self, name: bytes, *, expiring: bool | None = None) -> Keyspace: ...
    def keyspaces(self) -> list[KeyspaceName]: ...
    def transaction(self, *, sync: bool | None = False) -> Transaction: ...
    def transact(
        self, body: Callable[[Transaction], _T], *, sync: bool | None = False
    ) -> _T: ...
    @property
    def sequence(self) -> int: ...
    def changes(self, since: int | None = None) -> Changes: ...
    def explain(self, key: bytes) -> Explanation: ...
    def stats(self) -> Report: ...
    def filter_advice(self) -> Report: ...
    def refresh(self) -> bool: ...
    def resume(self) -> None: ...
    def sync(self) -> None: ...

@final
class PrefixedDB(_Reads):
    def __new__(cls, *, db: DB, prefix: bytes) -> Self: ...
    @property
    def db(self) -> DB: ...
    @property
    def prefix(self) -> bytes: ...
    def put(self, key: bytes, value: Buffer, *, sync: bool | None = False) -> None: ...
    def delete(self, key: bytes, *, sync: bool | None = False) -> None: ...
    def write_batch(
        self, *, transaction: bool | None = False, sync: bool | None = False
    ) -> WriteBatch: ...
    def snapshot(self) -> Snapshot: ...
    def prefixed_db(self, prefix: bytes) -> PrefixedDB: ...

@final
class Keyspace(_Reads):
    @property
    def db(self) -> DB: ...
    @property
    def name(self) -> bytes: ...
    @property
    def expiring(self) -> bool: ...
    def put(
        self,
        key: bytes,
        value: Buffer,
        *,
        sync: bool | None = False,
        ttl: _Ttl | None = None,
        expires: float | datetime | None = None,
    ) -> None: ...
    def delete(self, key: bytes, *, sync: bool | None = False) -> None: ...
    def delete_range(
        self, start: bytes | None, stop: bytes | None, *, sync: bool | None = False
    ) -> None: ...
    def write_batch(
        self, *, transaction: bool | None = False, sync: bool | None = False
    ) -> WriteBatch: ...
    def snapshot(self) -> Snapshot: ...
    def expiry(self, key: bytes) -> float | None: ...
    def explain(self, key: bytes) -> Explanation: ...
    def compact_range(self, *, start: bytes | None = None, stop: bytes | None = None) -> None: ...
    def approximate_size(self, start: bytes, stop: bytes) -> int: ...

@final
class Snapshot(_Reads):
    def __new__(cls, *, db: DB, prefix: bytes | None = None) -> Self: ...
    def raw_iterator(
        self, *, verify_checksums: bool | None = True, fill_cache: bool | None = True
    ) -> RawIterator: ...
    def keyspace(self, name: bytes, *, expiring: bool | None = None) -> Snapshot: ...
    def explain(self, key: bytes) -> Explanation: ...
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
class Transaction:
    @overload
    def get(
        self, key: bytes, default: None = None, *, keyspace: Keyspace | None = None
    ) -> bytes | None: ...
    @overload
    def get(
        self, key: bytes, default: _T, *, keyspace: Keyspace | None = None
    ) -> bytes | _T: ...
    def __contains__(self, key: bytes, /) -> bool: ...
    def put(
        self,
        key: bytes,
        value: Buffer,
        *,
        keyspace: Keyspace | None = None,
        ttl: _Ttl | None = None,
        expires: float | datetime | None = None,
    ) -> None: ...
    def delete(self, key: bytes, *, keyspace: Keyspace | None = None) -> None: ...
    def __iter__(self) -> Iterator[tuple[bytes, bytes]]: ...
    @overload
    def iterator(
        self,
        *,
        keyspace: Keyspace | None = None,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: _Yes = True,
        include_value: _Yes = True,
    ) -> Iterator[tuple[bytes, bytes]]: ...
    @overload
    def iterator(
        self,
        *,
        keyspace: Keyspace | None = None,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: _No,
        include_value: _Yes = True,
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        keyspace: Keyspace | None = None,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: _Yes = True,
        include_value: _No,
    ) -> Iterator[bytes]: ...
    @overload
    def iterator(
        self,
        *,
        keyspace: Keyspace | None = None,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: _No,
        include_value: _No,
    ) -> Iterator[None]: ...
    @overload
    def iterator(
        self,
        *,
        keyspace: Keyspace | None = None,
        reverse: bool | None = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool | None = True,
        include_stop: bool | None = False,
        prefix: bytes | None = None,
        include_key: bool | None = True,
        include_value: bool | None = True,
    ) -> Iterator[Any]: ...
    def commit(self) -> None: ...
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
class Changes:
    @property
    def sequence(self) -> int: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Change: ...
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
class WriteBatch:
    def put(
        self,
        key: bytes,
        value: Buffer,
        *,
        ttl: _Ttl | None = None,
        expires: float | datetime | None = None,
    ) -> None: ...
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

@final
class Iterator(Generic[_Item_co]):
    @classmethod
    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> _Item_co: ...
    def prev(self) -> _Item_co: ...
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
) -> Report: ...
def verify(
    name: _Name,
    *,
    comparator: _Comparator | None = None,
    comparator_name: bytes | None = None,
) -> Report: ...
def backups(folder: _Name) -> list[Backup]: ...
def verify_backups(folder: _Name) -> list[Fault]: ...
def restore(folder: _Name, name: _Name, *, number: int | None = None) -> Backup: ...
def destroy_db(name: _Name) -> None: ...
def _close_all() -> None: ...
def _forked() -> None: ...
