"""Types of the reports, which are the dictionaries that `minikv --json` prints."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union


class Base64(TypedDict):
    """Bytes that are not UTF-8, in base64."""

    base64: str


# Bytes in a report: text, if they are UTF-8.
Text = Union[str, Base64]


class FoundEntry(TypedDict):
    """An entry that a get has found: a value, or a deletion."""

    sequence: int
    kind: Literal['put', 'delete']
    value_bytes: int


class MemtableStep(TypedDict):
    """The search in a memtable."""

    step: Literal['memtable']
    frozen: bool
    entry: Optional[FoundEntry]


class SkippedStep(TypedDict):
    """Tables whose ranges do not include the key."""

    step: Literal['skipped']
    level: int
    tables: int


class TableStep(TypedDict):
    """The beginning of the search in a table."""

    step: Literal['table']
    level: int
    number: int
    file_bytes: int
    first_key: Text
    last_key: Text
    filter: Literal['readable', 'damaged', 'missing']


class FilterStep(TypedDict):
    """A question to a filter; truth says what the answer should have been."""

    step: Literal['table_filter', 'block_filter']
    may_match: bool
    truth: Optional[bool]


class IndexBlock(TypedDict):
    """The entry of an index that leads to a block."""

    separator: Text
    offset: int
    bytes: int


class IndexStep(TypedDict):
    """The search in the index of a table."""

    step: Literal['index']
    block: Optional[IndexBlock]


class BlockStep(TypedDict):
    """The read of a block."""

    step: Literal['block']
    offset: int
    stored_bytes: int
    source: Literal['cache', 'file']
    checksum_verified: bool
    decompressed_bytes: Optional[int]


class EntryStep(TypedDict):
    """The search in a block."""

    step: Literal['entry']
    entry: Optional[FoundEntry]


Step = Union[
    MemtableStep, SkippedStep, TableStep, FilterStep, IndexStep, BlockStep, EntryStep
]


class Counters(TypedDict):
    """Counters of reads."""

    tables_considered: int
    tables_skipped_by_range: int
    index_seeks: int
    filter_checks: int
    filter_negatives: int
    filter_true_positives: int
    filter_false_positives: int
    data_blocks_from_cache: int
    data_blocks_from_file: int
    bytes_read: int
    bytes_decompressed: int
    checksums_verified: int
    table_filter_checks: int
    table_filter_negatives: int
    table_filter_true_positives: int
    table_filter_false_positives: int
    prefix_filter_checks: int
    prefix_filter_negatives: int


class LevelCounters(Counters):
    """Counters of reads in one level."""

    level: int


class ReadCounters(Counters):
    """Counters of reads in all levels together, and one by one."""

    memtables_probed: int
    memtable_hits: int
    levels: List[LevelCounters]


class Explanation(TypedDict):
    """The report of explain: what a get does, step by step."""

    key: Text
    sequence: int
    found: bool
    value_bytes: Optional[int]
    steps: List[Step]
    filters: Literal['asked', 'turned_off', 'no_policy', 'none_in_tables', 'no_tables']
    this_get: ReadCounters
    without_filters: Optional[ReadCounters]
    without_filters_error: Optional[str]


class Fault(TypedDict):
    """A place at which bytes contradict the format, a checksum or another file."""

    file: Optional[str]
    offset: Optional[int]
    what: str
    expected: Optional[str]
    found: Optional[str]


class Backup(TypedDict):
    """A backup.

    number is higher for later backups; made is in seconds since 1970; copied_bytes counts what was
    copied rather than linked to the backup before.
    """

    number: int
    made: int
    files: int
    file_bytes: int
    copied_bytes: int


# A report with further parts, whose types are not declared.
Report = Dict[str, Any]
