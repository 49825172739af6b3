import {
  AbstractBatchOperation,
  AbstractBatchOptions,
  AbstractChainedBatch,
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
 * A LevelDB-compatible database.
 *
 * @template KDefault The type of keys, unless an operation has its own encoding.
 * @template VDefault The type of values, unless an operation has its own encoding.
 */
export class MinikvLevel<KDefault = string, VDefault = string>
  extends AbstractLevel<string | Buffer | Uint8Array, KDefault, VDefault> {
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
   * Returns the approximate size of the entries in `[start, end)`, in bytes of files. Entries that
   * are only in memory do not count.
   */
  approximateSize (start: KDefault, end: KDefault): Promise<number>
  approximateSize<K = KDefault> (start: K, end: K, options: RangeOptions<K>): Promise<number>

  /** Compacts the range `[start, end)`, which frees the space of deleted and replaced entries. */
  compactRange (start: KDefault, end: KDefault): Promise<void>
  compactRange<K = KDefault> (start: K, end: K, options: RangeOptions<K>): Promise<void>

  /**
   * Returns a property of LevelDB as text, such as `leveldb.stats`, or an empty string if the
   * property is unknown.
   */
  getProperty (property: string): string

  /** Copies the database, as it is now, to a new directory, with hard links where possible. */
  checkpoint (location: string): Promise<void>

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

  /** Returns what a get of `key` does, step by step. */
  explain (key: KDefault): Promise<Report>
  explain<K = KDefault> (key: K, options: ExplainOptions<K>): Promise<Report>

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
   * with this option.
   *
   * @defaultValue `false`
   */
  multithreading?: boolean | undefined

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
   * Size of the keys and values after which one read ends, in bytes.
   *
   * @defaultValue `64 * 1024`
   */
  highWaterMarkBytes?: number | undefined
}

export interface GetOptions<K, V> extends AbstractGetOptions<K, V>, ReadOptions {}
export interface GetManyOptions<K, V> extends AbstractGetManyOptions<K, V>, ReadOptions {}
export interface HasOptions<K> extends AbstractHasOptions<K>, ReadOptions {}
export interface HasManyOptions<K> extends AbstractHasManyOptions<K>, ReadOptions {}
export interface PutOptions<K, V> extends AbstractPutOptions<K, V>, WriteOptions {}
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
  write (): Promise<void>
  write (options: ChainedBatchWriteOptions): Promise<void>
}

export type BatchOperation<TDatabase, K, V> = AbstractBatchOperation<TDatabase, K, V>
export type ClearOptions<K> = AbstractClearOptions<K>
export type Iterator<TDatabase, K, V> = AbstractIterator<TDatabase, K, V>
export type KeyIterator<TDatabase, K> = AbstractKeyIterator<TDatabase, K>
export type ValueIterator<TDatabase, K, V> = AbstractValueIterator<TDatabase, K, V>
export type IteratorOptions<K, V> = AbstractIteratorOptions<K, V> & AdditionalIteratorOptions
export type KeyIteratorOptions<K> = AbstractKeyIteratorOptions<K> & AdditionalIteratorOptions
export type ValueIteratorOptions<K, V> =
  AbstractValueIteratorOptions<K, V> & AdditionalIteratorOptions
export type Snapshot = AbstractSnapshot
