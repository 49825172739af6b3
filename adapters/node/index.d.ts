import {
  AbstractBatchOperation,
  AbstractBatchOptions,
  AbstractChainedBatch,
  AbstractChainedBatchPutOptions,
  AbstractChainedBatchWriteOptions,
  AbstractClearOptions,
  AbstractDatabaseOptions,
  AbstractDelOptions,
  AbstractGetManyOptions,
  AbstractGetOptions,
  AbstractHasManyOptions,
  AbstractHasOptions,
  AbstractIterator,
  AbstractIteratorOptions,
  AbstractKeyIterator,
  AbstractKeyIteratorOptions,
  AbstractLevel,
  AbstractOpenOptions,
  AbstractPutOptions,
  AbstractSnapshot,
  AbstractValueIterator,
  AbstractValueIteratorOptions,
  Transcoder
} from 'abstract-level'

/**
 * What a database and a keyspace have in common.
 *
 * @template KDefault The type of keys, unless an operation has its own encoding.
 * @template VDefault The type of values, unless an operation has its own encoding.
 */
declare abstract class Store<KDefault, VDefault>
  extends AbstractLevel<string | Buffer | Uint8Array, KDefault, VDefault> {
  get (key: KDefault): Promise<VDefault | undefined>
  get<K = KDefault, V = VDefault> (
    key: K,
    options: GetOptions<K, V>
  ): Promise<V | undefined>

  getSync (key: KDefault): VDefault | undefined
  getSync<K = KDefault, V = VDefault> (key: K, options: GetOptions<K, V>): V | undefined

  getMany (keys: KDefault[]): Promise<Array<VDefault | undefined>>
  getMany<K = KDefault, V = VDefault> (
    keys: K[],
    options: GetManyOptions<K, V>
  ): Promise<Array<V | undefined>>

  has (key: KDefault): Promise<boolean>
  has<K = KDefault> (key: K, options: HasOptions<K>): Promise<boolean>

  hasMany (keys: KDefault[]): Promise<boolean[]>
  hasMany<K = KDefault> (keys: K[], options: HasManyOptions<K>): Promise<boolean[]>

  put (key: KDefault, value: VDefault): Promise<void>
  put<K = KDefault, V = VDefault> (key: K, value: V, options: PutOptions<K, V>): Promise<void>

  del (key: KDefault): Promise<void>
  del<K = KDefault> (key: K, options: DelOptions<K>): Promise<void>

  batch (operations: Array<BatchOperation<typeof this, KDefault, VDefault>>): Promise<void>
  batch<K = KDefault, V = VDefault> (
    operations: Array<BatchOperation<typeof this, K, V>>,
    options: BatchOptions<K, V>
  ): Promise<void>
  batch (): ChainedBatch<typeof this, KDefault, VDefault>

  iterator (): Iterator<typeof this, KDefault, VDefault>
  iterator<K = KDefault, V = VDefault> (
    options: IteratorOptions<K, V>
  ): Iterator<typeof this, K, V>

  keys (): KeyIterator<typeof this, KDefault>
  keys<K = KDefault> (options: KeyIteratorOptions<K>): KeyIterator<typeof this, K>

  values (): ValueIterator<typeof this, KDefault, VDefault>
  values<K = KDefault, V = VDefault> (
    options: ValueIteratorOptions<K, V>
  ): ValueIterator<typeof this, K, V>

  snapshot (options?: any | undefined): Snapshot

  /**
   * Returns the approximate size of the entries in `[start, end)`, in bytes of files and of
   * memory.
   */
  approximateSize (start: KDefault, end: KDefault): Promise<number>
  approximateSize<K = KDefault> (start: K, end: K, options: RangeOptions<K>): Promise<number>

  /** Compacts the range `[start, end)`, which frees the space of deleted and replaced entries. */
  compactRange (start: KDefault, end: KDefault): Promise<void>
  compactRange<K = KDefault> (start: K, end: K, options: RangeOptions<K>): Promise<void>

  /** Returns what a get of `key` does, step by step. */
  explain (key: KDefault): Promise<Explanation>
  explain<K = KDefault> (key: K, options: ExplainOptions<K>): Promise<Explanation>
}

/**
 * A LevelDB-compatible database.
 *
 * @template KDefault The type of keys, unless an operation has its own encoding.
 * @template VDefault The type of values, unless an operation has its own encoding.
 */
export class MinikvLevel<KDefault = string, VDefault = string> extends Store<KDefault, VDefault> {
  /**
   * @param location Path of the directory with the database's files.
   * @param options Options, which are also passed to {@link open}.
   */
  constructor (location: string, options?: DatabaseOptions<KDefault, VDefault> | undefined)

  /** The path that the constructor was given. */
  get location (): string

  /** Whether the database was opened for reading only. */
  get readOnly (): boolean

  open (): Promise<void>
  open (options: OpenOptions): Promise<void>

  /**
   * Returns a property of LevelDB as text, such as `leveldb.stats`, or an empty string if the
   * property is unknown.
   */
  getProperty (property: string): string

  /** Copies the database, as it is now, to a new directory, with hard links where possible. */
  checkpoint (location: string): Promise<void>

  /**
   * Adds a backup of the database to a folder of backups, which is created if it is missing.
   * Reads and writes go on meanwhile.
   */
  backup (folder: string, options?: BackupOptions | undefined): Promise<Backup>

  /**
   * Returns a keyspace: a database of its own within this one, with all reads and writes. It opens
   * when this database is open, and closes with it. A batch writes to one keyspace; a transaction
   * can write to several.
   *
   * @param name Name of the keyspace, 1 to 255 bytes.
   */
  keyspace<K = string, V = string> (
    name: string | Uint8Array,
    options?: KeyspaceOptions<K, V> | undefined
  ): Keyspace<K, V>

  /** Returns the keyspaces that have entries. */
  keyspaces (): Promise<KeyspaceName[]>

  /**
   * Begins a transaction. Commit or close it soon: until then it keeps old entries on the disk.
   */
  transaction (): Transaction<KDefault, VDefault>

  /**
   * Runs `body` in a transaction and commits it; after a conflict, does so again in a new one. Thus
   * `body` may run several times, and should have no other effects. An error of `body` ends this
   * without a write.
   *
   * @returns The result of the last run of `body`.
   */
  transact<T> (
    body: (transaction: Transaction<KDefault, VDefault>) => T | Promise<T>,
    options?: WriteOptions | undefined
  ): Promise<T>

  /**
   * The sequence number of the last operation that reads show. Each put and each del has the next
   * number.
   */
  get sequence (): number

  /**
   * Returns the changes after the sequence number `since`, or, by default, those after this call.
   * See {@link OpenOptions.keepLogsBytes} for how long they remain available.
   */
  changes<K = KDefault, V = VDefault> (
    since?: number | undefined,
    options?: ChangesOptions<K, V> | undefined
  ): Changes<K, V>

  /** Reads the whole database and returns a report of every fault. Changes nothing. */
  verify (): Promise<VerifyReport>

  /** Makes all writes so far durable. */
  sync (): Promise<void>

  /** Accepts writes again after an error stopped them, such as a full disk. */
  resume (): Promise<void>

  /**
   * Updates a database that is open for reading only to the current state of its writer. Returns
   * whether anything has changed. Does nothing if the database is open for writing.
   */
  refresh (): Promise<boolean>

  /** Returns the counters since the open, and the sizes of the database's parts. */
  stats (): Promise<Report>

  /** Returns the filters that would pay off, judging by the gets since the open. */
  filterAdvice (): Promise<Report>

  /** Removes the database, and its directory if it contains nothing else. */
  static destroy (location: string): Promise<void>

  /**
   * Repairs a damaged database: saves all data that is not damaged, and sets the rest aside.
   * Returns a report.
   */
  static repair (location: string, options?: RepairOptions | undefined): Promise<RepairReport>

  /** Like {@link verify}, for a database that need not be open. */
  static verify (location: string): Promise<VerifyReport>

  /** Returns the backups in a folder, the oldest first. */
  static backups (folder: string): Promise<Backup[]>

  /** Reads all backups in a folder, and returns the faults: files that are damaged or missing. */
  static verifyBackups (folder: string): Promise<Fault[]>

  /**
   * Copies a backup to the directory `location`, which must be empty or missing. Checks every file.
   */
  static restore (
    folder: string,
    location: string,
    options?: RestoreOptions | undefined
  ): Promise<Backup>
}

/**
 * The same class, for programs in which npm puts this package in the place of classic-level (see
 * `overrides` in README.md).
 */
export { MinikvLevel as ClassicLevel }

/** A keyspace of a database. */
export class Keyspace<KDefault = string, VDefault = string> extends Store<KDefault, VDefault> {
  private constructor ()

  /** The database. */
  get db (): MinikvLevel<any, any>

  /** The name that {@link MinikvLevel.keyspace} was given. */
  get name (): string | Uint8Array

  /** Whether entries may expire; `undefined` as long as the database is not open. */
  get expiring (): boolean | undefined

  /**
   * Returns when the entry of `key` expires: `null`, if it never does; `undefined`, if there is no
   * such entry.
   */
  expiry (key: KDefault): Promise<Date | null | undefined>
  expiry<K = KDefault> (key: K, options: ExplainOptions<K>): Promise<Date | null | undefined>
}

/**
 * A transaction: reads show the database as it was at the beginning, and the transaction's own
 * writes. Calls take effect in their order.
 */
export class Transaction<KDefault = string, VDefault = string> {
  private constructor ()

  /** The database. */
  get db (): MinikvLevel<KDefault, VDefault>

  /** Whether {@link commit} failed because of another write, so that a new attempt makes sense. */
  get hasConflict (): boolean

  get (key: KDefault): Promise<VDefault | undefined>
  get<K = KDefault, V = VDefault> (
    key: K,
    options: TransactionOptions<K, V>
  ): Promise<V | undefined>

  getMany (keys: KDefault[]): Promise<Array<VDefault | undefined>>
  getMany<K = KDefault, V = VDefault> (
    keys: K[],
    options: TransactionOptions<K, V>
  ): Promise<Array<V | undefined>>

  has (key: KDefault): Promise<boolean>
  has<K = KDefault> (key: K, options: TransactionOptions<K, any>): Promise<boolean>

  /** Adds a write, which takes effect at the commit. */
  put (key: KDefault, value: VDefault): void
  put<K = KDefault, V = VDefault> (
    key: K,
    value: V,
    options: TransactionOptions<K, V> & ExpiryOptions
  ): void

  /** Adds a deletion, which takes effect at the commit. */
  del (key: KDefault): void
  del<K = KDefault> (key: K, options: TransactionOptions<K, any>): void

  /**
   * Returns the entries of a range. They are read ahead, up to 1000 entries or 64 KiB at once, and
   * what was read counts as read when the commit looks for conflicts; so give a `limit` if few are
   * needed.
   */
  iterator (): AsyncGenerator<[KDefault, VDefault], void, void>
  iterator<K = KDefault, V = VDefault> (
    options: TransactionIteratorOptions<K, V>
  ): AsyncGenerator<[K, V], void, void>

  /**
   * Commits the writes and ends the transaction.
   *
   * Fails with the code `LEVEL_CONFLICT`, and writes nothing, if another write has changed what the
   * transaction has read: a key, or any key in a range.
   */
  commit (options?: WriteOptions | undefined): Promise<void>

  /** Ends the transaction. Without a commit, its writes are discarded. */
  close (): Promise<void>
}

/** The changes of a database, batch by batch. */
export class Changes<K = string, V = string> {
  private constructor ()

  /** The sequence number of the last operation that was returned: where to go on later. */
  get sequence (): number

  /**
   * Returns the next batch; `undefined`, if there is none for now.
   *
   * Fails with the code `LEVEL_CHANGES_LOST` if the logs do not contain all changes any more. Then
   * read the whole database, and go on from its {@link MinikvLevel.sequence}.
   */
  next (): Promise<Change<K, V> | undefined>

  /**
   * Iterates over the batches there are so far. A later iteration continues where this one was
   * left.
   */
  [Symbol.asyncIterator] (): AsyncGenerator<Change<K, V>, void, void>

  close (): Promise<void>
}

/** A batch of operations that was committed. */
export interface Change<K, V> {
  /** Sequence number of the first operation; the later ones have the following numbers. */
  sequence: number
  operations: Array<ChangeOperation<K, V>>
}

export type ChangeOperation<K, V> = {
  /** The keyspace that contains the key, if any. */
  keyspace?: KeyspaceName
  key: K
} & ({ type: 'del' } | {
  type: 'put'
  value: V
  /** Only in expiring keyspaces: when the entry expires, or `null` for never. */
  expires?: Date | null
})

/** Options of {@link MinikvLevel.changes}. The encodings are those of the database by default. */
export interface ChangesOptions<K, V> {
  keyEncoding?: string | Transcoder.PartialDecoder<K> | undefined
  valueEncoding?: string | Transcoder.PartialDecoder<V> | undefined
}

/** Name and kind of a keyspace. */
export interface KeyspaceName {
  /** The name; a Buffer, if it is not UTF-8. */
  name: string | Buffer
  expiring: boolean
}

/** Options of {@link MinikvLevel.keyspace}. */
export interface KeyspaceOptions<K, V> extends AbstractDatabaseOptions<K, V> {
  /**
   * Whether entries may expire. With `true`, the keyspace does not open if an ordinary one of that
   * name has entries. By default, the one that has entries, otherwise an ordinary one.
   */
  expiring?: boolean | undefined
}

/** When an entry of an expiring keyspace expires: never, without an option. */
export interface ExpiryOptions {
  /** Time to live, in milliseconds. */
  ttl?: number | undefined

  /** The time at which the entry expires, as a Date or in milliseconds since 1970. */
  expires?: Date | number | undefined
}

/** Options of the calls of a transaction. */
export interface TransactionOptions<K, V> {
  /** The keyspace of the call, whose encodings are the default ones. */
  keyspace?: Keyspace<any, any> | undefined
  keyEncoding?: string | Transcoder.PartialEncoding<K> | undefined
  valueEncoding?: string | Transcoder.PartialEncoding<V> | undefined
}

/** Options of {@link Transaction.iterator}. */
export interface TransactionIteratorOptions<K, V> extends TransactionOptions<K, V> {
  gt?: K
  gte?: K
  lt?: K
  lte?: K
  reverse?: boolean | undefined
  limit?: number | undefined
}

/** A backup. */
export interface Backup {
  /** Number of the backup. Later ones have higher numbers. */
  number: number
  /** When the backup was made, in seconds since 1970. */
  made: number
  files: number
  file_bytes: number
  /** Bytes that were copied, rather than linked to the backup before. */
  copied_bytes: number
}

/** Options of {@link MinikvLevel.backup}. */
export interface BackupOptions {
  /** Removes all backups except this many, the latest ones. By default, none is removed. */
  keep?: number | undefined
}

/** Options of {@link MinikvLevel.restore}. */
export interface RestoreOptions {
  /** Number of the backup. By default, the latest one. */
  number?: number | undefined
}

/** Options of the constructor. */
export interface DatabaseOptions<K, V>
  extends AbstractDatabaseOptions<K, V>, Omit<OpenOptions, 'passive'> {}

/** Options of {@link MinikvLevel.open}. Sizes are clamped to LevelDB's limits. */
export interface OpenOptions extends AbstractOpenOptions {
  /**
   * Opens the database for reading only, even while another process writes to it. The database
   * shows the state at the time of the open until {@link MinikvLevel.refresh} is called.
   *
   * @defaultValue `false`
   */
  readOnly?: boolean | undefined

  /**
   * Compresses the blocks of new tables with snappy.
   *
   * @defaultValue `true`
   */
  compression?: boolean | undefined

  /**
   * Size of the block cache, in bytes.
   *
   * @defaultValue `8 * 1024 * 1024`
   */
  cacheSize?: number | undefined

  /**
   * Size of the writes, in bytes, that are held in memory and in the log before they are flushed to
   * a table.
   *
   * @defaultValue `4 * 1024 * 1024`
   */
  writeBufferSize?: number | undefined

  /**
   * Approximate size of a block before compression, in bytes.
   *
   * @defaultValue `4096`
   */
  blockSize?: number | undefined

  /**
   * Maximum number of files that are kept open.
   *
   * @defaultValue `1000`
   */
  maxOpenFiles?: number | undefined

  /**
   * Number of keys between restart points: one out of this many keys is stored in full, the others
   * without the prefix that they share with the previous key.
   *
   * @defaultValue `16`
   */
  blockRestartInterval?: number | undefined

  /**
   * Size at which a compaction begins a new table, in bytes.
   *
   * @defaultValue `2 * 1024 * 1024`
   */
  maxFileSize?: number | undefined

  /**
   * Lets worker threads of this process share the database if they open the same location, each
   * with this option. Ignored with {@link OpenOptions.readOnly}, which needs no sharing.
   *
   * @defaultValue `false`
   */
  multithreading?: boolean | undefined

  /**
   * Keeps flushed logs for {@link MinikvLevel.changes} while they have at most this many bytes
   * together.
   *
   * @defaultValue `0`
   */
  keepLogsBytes?: number | undefined

  /**
   * Keeps flushed logs for {@link MinikvLevel.changes} for this time, in milliseconds.
   *
   * @defaultValue `0`
   */
  keepLogsFor?: number | undefined

  /**
   * Bits per key of the filters of new tables, up to 64; 0 means no filters.
   *
   * @defaultValue `10`
   */
  bloomFilterBits?: number | undefined

  /**
   * The kind of filters: `'block'` for LevelDB's filters, one for each block; `'table'` for one
   * filter for each table, which only minikv reads; or `'both'`.
   *
   * @defaultValue `'block'`
   */
  filterLayout?: 'block' | 'table' | 'both' | undefined
}

/** Additional options of reads. */
export interface ReadOptions {
  /**
   * Keeps in the cache what was read from files.
   *
   * @defaultValue `true`
   */
  fillCache?: boolean | undefined
}

/** Additional options of writes. */
export interface WriteOptions {
  /**
   * Makes the write durable, even against a loss of power, before its promise is resolved.
   *
   * @defaultValue `false`
   */
  sync?: boolean | undefined
}

/** Additional options of iterators. */
export interface AdditionalIteratorOptions {
  /**
   * Keeps in the cache what was read from files.
   *
   * @defaultValue `false`
   */
  fillCache?: boolean | undefined

  /**
   * Size of the keys and values after which one read ends, in bytes: a read ends with the entry
   * that exceeds it. As in classic-level, every number is taken, and `Infinity` is 0.
   *
   * @defaultValue `64 * 1024`
   */
  highWaterMarkBytes?: number | undefined
}

export interface GetOptions<K, V> extends AbstractGetOptions<K, V>, ReadOptions {}
export interface GetManyOptions<K, V> extends AbstractGetManyOptions<K, V>, ReadOptions {}
export interface HasOptions<K> extends AbstractHasOptions<K>, ReadOptions {}
export interface HasManyOptions<K> extends AbstractHasManyOptions<K>, ReadOptions {}
export interface PutOptions<K, V>
  extends AbstractPutOptions<K, V>, WriteOptions, ExpiryOptions {}
export interface DelOptions<K> extends AbstractDelOptions<K>, WriteOptions {}
export interface BatchOptions<K, V> extends AbstractBatchOptions<K, V>, WriteOptions {}
export interface ChainedBatchWriteOptions extends AbstractChainedBatchWriteOptions, WriteOptions {}

/** Options of {@link MinikvLevel.approximateSize} and {@link MinikvLevel.compactRange}. */
export interface RangeOptions<K> {
  keyEncoding?: string | Transcoder.PartialEncoder<K> | undefined
}

/** Options of {@link MinikvLevel.explain}. */
export interface ExplainOptions<K> {
  keyEncoding?: string | Transcoder.PartialEncoder<K> | undefined
  snapshot?: Snapshot | undefined
}

/** Options of {@link MinikvLevel.repair}. */
export interface RepairOptions {
  /**
   * Only returns the report, and changes nothing.
   *
   * @defaultValue `false`
   */
  dryRun?: boolean | undefined
}

/** A report, as `minikv --json` prints it. */
export interface Report {
  [name: string]: any
}

/** The report of {@link MinikvLevel.explain}. */
export interface Explanation {
  key: Bytes
  /** The sequence number at which the key was looked up. */
  sequence: number
  found: boolean
  value_bytes: number | null
  steps: Step[]
  /** Whether filters were asked, and if not, why. */
  filters: 'asked' | 'turned_off' | 'no_policy' | 'none_in_tables' | 'no_tables'
  /** Counters of this get, and of the same get without filters. */
  this_get: ReadCounters
  without_filters: ReadCounters | null
  without_filters_error: string | null
}

/** Bytes in a report: text, or the bytes in base64 if they are not UTF-8. */
export type Bytes = string | { base64: string }

/** A step of a get. */
export type Step =
  | { step: 'memtable', frozen: boolean, entry: FoundEntry | null }
  | { step: 'skipped', level: number, tables: number }
  | {
    step: 'table'
    level: number
    number: number
    file_bytes: number
    first_key: Bytes
    last_key: Bytes
    filter: 'readable' | 'damaged' | 'missing'
  }
  | { step: 'table_filter' | 'block_filter', may_match: boolean, truth: boolean | null }
  | { step: 'index', block: { separator: Bytes, offset: number, bytes: number } | null }
  | {
    step: 'block'
    offset: number
    stored_bytes: number
    source: 'cache' | 'file'
    checksum_verified: boolean
    decompressed_bytes: number | null
  }
  | { step: 'entry', entry: FoundEntry | null }

/** An entry that a get has found: a value, or a deletion. */
export interface FoundEntry {
  sequence: number
  kind: 'put' | 'delete'
  value_bytes: number
}

/** Counters of reads, in one level. */
export interface LevelCounters {
  tables_considered: number
  tables_skipped_by_range: number
  index_seeks: number
  filter_checks: number
  filter_negatives: number
  filter_true_positives: number
  filter_false_positives: number
  data_blocks_from_cache: number
  data_blocks_from_file: number
  bytes_read: number
  bytes_decompressed: number
  checksums_verified: number
  table_filter_checks: number
  table_filter_negatives: number
  table_filter_true_positives: number
  table_filter_false_positives: number
  prefix_filter_checks: number
  prefix_filter_negatives: number
}

/** Counters of reads, in all levels together and one by one. */
export interface ReadCounters extends LevelCounters {
  memtables_probed: number
  memtable_hits: number
  levels: Array<LevelCounters & { level: number }>
}

/** A place at which bytes contradict the format, a checksum or another file. */
export interface Fault {
  file: string | null
  offset: number | null
  what: string
  expected: string | null
  found: string | null
}

/** The report of {@link MinikvLevel.verify}. */
export interface VerifyReport extends Report {
  fault_count: number
  faults: Fault[]
  entries: number
}

/** The report of {@link MinikvLevel.repair}. */
export interface RepairReport extends Report {
  dry_run: boolean
  healthy: boolean
  fault_count: number
  faults: Fault[]
}

export class ChainedBatch<TDatabase, KDefault, VDefault>
  extends AbstractChainedBatch<TDatabase, KDefault, VDefault> {
  put (key: KDefault, value: VDefault): this
  put<K = KDefault, V = VDefault> (
    key: K,
    value: V,
    options: AbstractChainedBatchPutOptions<TDatabase, K, V> & ExpiryOptions
  ): this

  write (): Promise<void>
  write (options: ChainedBatchWriteOptions): Promise<void>
}

export type BatchOperation<TDatabase, K, V> =
  AbstractBatchOperation<TDatabase, K, V> & ExpiryOptions
export type ClearOptions<K> = AbstractClearOptions<K>
export type Iterator<TDatabase, K, V> = AbstractIterator<TDatabase, K, V>
export type KeyIterator<TDatabase, K> = AbstractKeyIterator<TDatabase, K>
export type ValueIterator<TDatabase, K, V> = AbstractValueIterator<TDatabase, K, V>
export type IteratorOptions<K, V> = AbstractIteratorOptions<K, V> & AdditionalIteratorOptions
export type KeyIteratorOptions<K> = AbstractKeyIteratorOptions<K> & AdditionalIteratorOptions
export type ValueIteratorOptions<K, V> =
  AbstractValueIteratorOptions<K, V> & AdditionalIteratorOptions
export type Snapshot = AbstractSnapshot
