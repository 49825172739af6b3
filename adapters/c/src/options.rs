//! Options, caches and environments. Values are clamped to the same ranges as in LevelDB.

use std::ffi::c_int;
use std::mem::take;
use std::sync::Arc;

use minikv::{
    BytewiseComparator, Comparator, Compression, Error, Feature, FilterPolicy, Filters, Options,
    ReadOptions, ReadSample, Resources, Result, WriteOptions,
};

use crate::border::{Kept, Malloced, effective_user, export};
use crate::callbacks::{leveldb_comparator_t, leveldb_filterpolicy_t};
use crate::snapshot::leveldb_snapshot_t;

pub struct leveldb_options_t {
    options: Options,
    /// The comparator set in the options, kept for error messages.
    pub order: Arc<dyn Comparator>,
    /// The policy of block filters, if it is not LevelDB's bloom filter. Kept apart from the
    /// options, which cannot go back to the bloom filter.
    policy: Option<Arc<dyn FilterPolicy>>,
    /// The error that an open returns while the compression is set to an unknown value.
    compression_error: Option<String>,
    /// The error that an open returns while the filter layout is set to an unknown value.
    layout_error: Option<String>,
}

impl leveldb_options_t {
    /// Returns LevelDB's defaults: no filter, and one thousand open tables, which are mapped.
    fn new() -> leveldb_options_t {
        let options = Options::default().filters(Filters::None).max_open_files(1000);
        let options = options.map_tables(true);
        let (order, policy) = (Arc::new(BytewiseComparator), None);
        leveldb_options_t { options, order, policy, compression_error: None, layout_error: None }
    }

    /// Replaces the options with what `change` makes of them.
    pub fn change(&mut self, change: impl FnOnce(Options) -> Options) {
        self.options = change(take(&mut self.options));
    }

    /// Sets the comparator.
    pub fn set_order(&mut self, order: Arc<dyn Comparator>) {
        self.order = order.clone();
        self.change(|options| options.comparator(order));
    }

    /// Returns the options.
    ///
    /// # Errors
    /// Invalid argument, if an option is set to an unknown value.
    pub fn checked(&self) -> Result<Options> {
        match self.compression_error.as_ref().or(self.layout_error.as_ref()) {
            Some(what) => Err(Error::InvalidArgument { what: what.clone() }),
            None => {
                let options = self.options.clone();
                Ok(match &self.policy {
                    Some(policy) => options.filter_policy(policy.clone()),
                    None => options,
                })
            }
        }
    }

    /// Calls `open` with the options. If the comparators differ, the error names the comparator of
    /// the database and the comparator of the options, as LevelDB's error does.
    ///
    /// # Errors
    /// Errors of [`Self::checked`] and of `open`.
    pub fn open_with<T>(&self, open: impl FnOnce(Options) -> Result<T>) -> Result<T> {
        // `minikv_filter_advice_json` replays the reads of this database.
        open(self.checked()?.sample_reads(&ReadSample::new())).map_err(|error| match error {
            Error::Unsupported { what: Feature::Comparator, name, .. } => {
                let ours = self.order.name();
                let what = format!("{name} does not match existing comparator : {ours}");
                Error::InvalidArgument { what }
            }
            error => error,
        })
    }
}

fn filters(number: c_int, bits_per_key: c_int) -> Option<Filters> {
    let bits = u32::try_from(bits_per_key).unwrap_or(0);
    match number {
        0 => Some(Filters::None),
        1 => Some(Filters::Block(bits)),
        2 => Some(Filters::Table(bits)),
        3 => Some(Filters::Both(bits)),
        _ => None,
    }
}

pub struct leveldb_readoptions_t {
    pub read: ReadOptions,
    pub snapshot: Kept<leveldb_snapshot_t>,
}

pub struct leveldb_writeoptions_t {
    pub write: WriteOptions,
}

pub struct leveldb_cache_t {
    shared: Resources,
}

pub struct leveldb_env_t;

/// A logger. No function of the API creates a logger.
pub struct leveldb_logger_t;

export! {
    fn leveldb_options_create() -> Kept<leveldb_options_t> {
        Kept::new(leveldb_options_t::new())
    }

    fn leveldb_options_destroy(options: Kept<leveldb_options_t>) {
        drop(options.take());
    }

    fn leveldb_options_set_comparator(
        options: &mut leveldb_options_t,
        comparator: Option<&leveldb_comparator_t>,
    ) {
        let comparator: Arc<dyn Comparator> = match comparator {
            Some(comparator) => comparator.comparator.clone(),
            None => Arc::new(BytewiseComparator),
        };
        options.set_order(comparator);
    }

    fn leveldb_options_set_filter_policy(
        options: &mut leveldb_options_t,
        policy: Option<&leveldb_filterpolicy_t>,
    ) {
        let filters = policy.map_or(Filters::None, |policy| policy.filters);
        options.policy = policy.and_then(|policy| policy.policy.clone());
        options.change(|options| options.filters(filters));
    }

    fn leveldb_options_set_create_if_missing(options: &mut leveldb_options_t, on: u8) {
        options.change(|options| options.create_if_missing(on != 0));
    }

    fn leveldb_options_set_error_if_exists(options: &mut leveldb_options_t, on: u8) {
        options.change(|options| options.error_if_exists(on != 0));
    }

    fn leveldb_options_set_paranoid_checks(options: &mut leveldb_options_t, on: u8) {
        options.change(|options| options.paranoid_checks(on != 0));
    }

    /// Has no effect: there is only one environment.
    fn leveldb_options_set_env(_options: &mut leveldb_options_t, _env: Kept<leveldb_env_t>) {}

    /// Has no effect: nothing is logged.
    fn leveldb_options_set_info_log(
        _options: &mut leveldb_options_t,
        _logger: Kept<leveldb_logger_t>,
    ) {}

    fn leveldb_options_set_write_buffer_size(options: &mut leveldb_options_t, bytes: usize) {
        options.change(|options| options.write_buffer_bytes(bytes.clamp(64 << 10, 1 << 30)));
    }

    fn leveldb_options_set_max_open_files(options: &mut leveldb_options_t, files: c_int) {
        let files = usize::try_from(files).unwrap_or(0).clamp(74, 50_000);
        options.change(|options| options.max_open_files(files));
    }

    fn leveldb_options_set_cache(
        options: &mut leveldb_options_t,
        cache: Option<&leveldb_cache_t>,
    ) {
        let shared = cache.map(|cache| cache.shared.clone()).unwrap_or_default();
        options.change(|options| options.resources(&shared));
    }

    fn leveldb_options_set_block_size(options: &mut leveldb_options_t, bytes: usize) {
        options.change(|options| options.block_bytes(bytes.clamp(1 << 10, 4 << 20)));
    }

    fn leveldb_options_set_block_restart_interval(options: &mut leveldb_options_t, keys: c_int) {
        let keys = usize::try_from(keys).unwrap_or(0).max(1);
        options.change(|options| options.block_restart_interval(keys));
    }

    fn leveldb_options_set_max_file_size(options: &mut leveldb_options_t, bytes: usize) {
        let bytes = bytes.clamp(1 << 20, 1 << 30) as u64;
        options.change(|options| options.max_file_bytes(bytes));
    }

    fn leveldb_options_set_compression(options: &mut leveldb_options_t, number: c_int) {
        let compression = match number {
            0 => Compression::None,
            1 => Compression::Snappy,
            _ => {
                options.compression_error = Some(format!("there is no compression {number}"));
                return;
            }
        };
        options.compression_error = None;
        options.change(|options| options.compression(compression));
    }

    fn minikv_options_set_filter_layout(
        options: &mut leveldb_options_t,
        number: c_int,
        bits_per_key: c_int,
    ) {
        match filters(number, bits_per_key) {
            Some(filters) => {
                options.layout_error = None;
                options.policy = None;
                options.change(|options| options.filters(filters));
            }
            None => options.layout_error = Some(format!("there is no filter layout {number}")),
        }
    }

    fn minikv_options_set_filter_at_level(
        options: &mut leveldb_options_t,
        level: c_int,
        number: c_int,
        bits_per_key: c_int,
    ) {
        let level = usize::try_from(level).unwrap_or(usize::MAX);
        match filters(number, bits_per_key) {
            Some(filters) => options.change(|all| all.filters_at_level(level, filters)),
            None => options.layout_error = Some(format!("there is no filter layout {number}")),
        }
    }

    fn minikv_options_set_reuse_logs(options: &mut leveldb_options_t, on: u8) {
        options.change(|options| options.reuse_logs(on != 0));
    }

    fn minikv_options_set_preallocate_logs(options: &mut leveldb_options_t, on: u8) {
        options.change(|options| options.preallocate_logs(on != 0));
    }

    fn minikv_options_set_map_tables(options: &mut leveldb_options_t, on: u8) {
        options.change(|options| options.map_tables(on != 0));
    }

    fn leveldb_readoptions_create() -> Kept<leveldb_readoptions_t> {
        let (read, snapshot) = (ReadOptions::default(), Kept::null());
        Kept::new(leveldb_readoptions_t { read, snapshot })
    }

    fn leveldb_readoptions_destroy(options: Kept<leveldb_readoptions_t>) {
        drop(options.take());
    }

    fn leveldb_readoptions_set_verify_checksums(options: &mut leveldb_readoptions_t, on: u8) {
        options.read = take(&mut options.read).verify_checksums(on != 0);
    }

    fn leveldb_readoptions_set_fill_cache(options: &mut leveldb_readoptions_t, on: u8) {
        options.read = take(&mut options.read).fill_cache(on != 0);
    }

    fn leveldb_readoptions_set_snapshot(
        options: &mut leveldb_readoptions_t,
        snapshot: Kept<leveldb_snapshot_t>,
    ) {
        options.snapshot = snapshot;
    }

    fn leveldb_writeoptions_create() -> Kept<leveldb_writeoptions_t> {
        Kept::new(leveldb_writeoptions_t { write: WriteOptions::default() })
    }

    fn leveldb_writeoptions_destroy(options: Kept<leveldb_writeoptions_t>) {
        drop(options.take());
    }

    fn leveldb_writeoptions_set_sync(options: &mut leveldb_writeoptions_t, on: u8) {
        options.write = options.write.sync(on != 0);
    }

    fn leveldb_cache_create_lru(bytes: usize) -> Kept<leveldb_cache_t> {
        Kept::new(leveldb_cache_t { shared: Resources::default().block_cache_bytes(bytes) })
    }

    fn leveldb_cache_destroy(cache: Kept<leveldb_cache_t>) {
        drop(cache.take());
    }

    fn leveldb_create_default_env() -> Kept<leveldb_env_t> {
        Kept::new(leveldb_env_t)
    }

    fn leveldb_env_destroy(env: Kept<leveldb_env_t>) {
        drop(env.take());
    }

    /// Creates the directory for tests, and returns its path.
    fn leveldb_env_get_test_directory(_env: Kept<leveldb_env_t>) -> Malloced {
        let given = std::env::var("TEST_TMPDIR").ok().filter(|dir| !dir.is_empty());
        let dir = given.unwrap_or_else(|| format!("/tmp/leveldbtest-{}", effective_user()));
        // An error is ignored here, because any later use of the directory returns an error, too.
        let _ = std::fs::create_dir(&dir);
        Malloced::copy(dir.as_bytes())
    }
}
