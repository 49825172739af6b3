//! Options for opening a database, under classic-level's names.

use std::time::Duration;

use minikv::{Compression, Filters, Options};
use napi_derive::napi;

/// Options that `lib/options.js` has checked.
#[napi(object, object_to_js = false)]
pub struct OpenOptions {
    pub create_if_missing: bool,
    pub error_if_exists: bool,
    pub read_only: bool,
    pub multithreading: bool,
    pub compression: bool,
    pub cache_size: f64,
    pub write_buffer_size: f64,
    pub block_size: f64,
    pub max_open_files: f64,
    pub block_restart_interval: f64,
    pub max_file_size: f64,
    pub keep_logs_bytes: f64,
    pub keep_logs_for: f64,
    pub bloom_filter_bits: f64,
    pub filter_layout: String,
}

/// Returns the value of a numeric option, clamped to LevelDB's limits.
fn size(number: f64, least: u32, most: u32) -> usize {
    // JavaScript has checked that the number is an integer and not negative.
    number.clamp(f64::from(least), f64::from(most)) as usize
}

impl OpenOptions {
    /// Converts these options to the library's options.
    pub fn to_options(&self) -> Options {
        let mut options = Options::default()
            .create_if_missing(self.create_if_missing)
            .error_if_exists(self.error_if_exists)
            .block_cache_bytes(self.cache_size as usize)
            .write_buffer_bytes(size(self.write_buffer_size, 64 << 10, 1 << 30))
            .block_bytes(size(self.block_size, 1 << 10, 4 << 20))
            .max_open_files(size(self.max_open_files, 74, 50_000))
            .block_restart_interval(size(self.block_restart_interval, 1, u32::MAX))
            .keep_logs_bytes(self.keep_logs_bytes as u64)
            .keep_logs_for(Duration::from_millis(self.keep_logs_for as u64))
            .max_file_bytes(size(self.max_file_size, 1 << 20, 1 << 30) as u64);
        if !self.compression {
            options = options.compression(Compression::None);
        }
        let bits = size(self.bloom_filter_bits, 0, 64) as u32;
        options.filters(match self.filter_layout.as_str() {
            _ if bits == 0 => Filters::None,
            "table" => Filters::Table(bits),
            "both" => Filters::Both(bits),
            _ => Filters::Block(bits),
        })
    }
}
