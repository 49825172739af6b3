//! Measurements: operations per second, latencies, memory, bytes written.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::store::Result;

const MAX_NANOS: u64 = 3_600_000_000_000;

/// Whether a higher or a lower figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
}

/// A measured number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the workload. If the figure is not the workload's speed, the name also says what was
    /// measured.
    pub name: String,
    /// The value, in its unit.
    pub value: f64,
    /// The unit: `op/s`, `s`, `ms`, `µs`, `MiB`, `%`, or empty for a ratio.
    pub unit: String,
    /// Whether a higher or a lower value is better.
    pub better: Better,
}

impl Figure {
    /// Creates a figure.
    pub fn new(name: impl Into<String>, value: f64, unit: &str, better: Better) -> Figure {
        Figure { name: name.into(), value, unit: unit.to_string(), better }
    }
}

/// Latencies of single operations, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The 50th percentile.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The 99.99th percentile.
    pub p9999: f64,
    /// The maximum.
    pub max: f64,
}

/// The results of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the workload.
    pub workload: String,
    /// Number of operations, summed over all threads.
    pub operations: u64,
    /// Duration of the workload, in seconds.
    pub seconds: f64,
    /// Latencies of every put, delete, batch and transaction, and of every eighth get and seek. If
    /// one thread runs several kinds of requests, the latencies of all its requests. Steps of a
    /// scan are not timed. For `sync`, latencies of the syncs; for `follow`, latencies of the
    /// rounds in which the follower catches up.
    pub latency: Option<Latency>,
    /// The figures. The speed comes first.
    pub figures: Vec<Figure>,
}

/// Records the latencies of operations.
#[derive(Clone, Debug)]
pub struct Timings {
    histogram: Histogram<u64>,
    longest: Duration,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings::new()
    }
}

impl Timings {
    /// Creates a record without operations.
    pub fn new() -> Timings {
        // Two significant digits make a histogram of about ten KiB, which takes up little of the
        // CPU's caches.
        let histogram = Histogram::new_with_bounds(1, MAX_NANOS, 2).expect("bounds that are sound");
        Timings { histogram, longest: Duration::ZERO }
    }

    /// Adds an operation that took `time`.
    pub fn record(&mut self, time: Duration) {
        self.longest = self.longest.max(time);
        self.histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(MAX_NANOS));
    }

    /// Adds the operations of `other`.
    pub fn add(&mut self, other: &Timings) {
        self.histogram.add(&other.histogram).expect("the same bounds");
        self.longest = self.longest.max(other.longest);
    }

    /// Returns the latencies; `None` if there is no operation.
    pub fn latency(&self) -> Option<Latency> {
        let longest = self.longest.as_nanos() as f64 / 1000.0;
        // A quantile is the upper bound of a bucket, which may exceed the maximum.
        let at = |q| (self.histogram.value_at_quantile(q) as f64 / 1000.0).min(longest);
        (!self.histogram.is_empty()).then(|| Latency {
            median: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: longest,
        })
    }
}

/// Returns the number after `name` in a file of Linux's `/proc`, or `None` on other systems.
fn proc_number(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Resets the peak memory use to the current memory use. Linux only.
pub fn reset_peak_memory() {
    // If this write fails, the peak covers the whole life of the process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the peak memory of this process, in MiB.
pub fn peak_memory_mib() -> Option<f64> {
    proc_number("/proc/self/status", "VmHWM:").map(|kib| kib as f64 / 1024.0)
}

/// Returns the memory of this process that no file stands behind, in MiB.
pub fn own_memory_mib() -> Option<f64> {
    proc_number("/proc/self/status", "RssAnon:").map(|kib| kib as f64 / 1024.0)
}

/// Returns the number of bytes written by this process: the greater of the bytes passed to `write`
/// and the bytes dirtied in the page cache. The second count includes writes to mapped files, which
/// need no system calls.
pub fn written_bytes() -> Option<u64> {
    let called = proc_number("/proc/self/io", "wchar:")?;
    Some(called.max(proc_number("/proc/self/io", "write_bytes:").unwrap_or(0)))
}

/// Returns the processor time used by this process, in clock ticks.
fn processor_ticks() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Waits until the process is idle: until it uses at most one clock tick of processor time in each
/// of three consecutive intervals of 100 ms. Gives up after two minutes.
pub fn wait_until_quiet() {
    const SPAN: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(120);
    let (start, mut quiet) = (Instant::now(), 0);
    while quiet < 3 && start.elapsed() < LONGEST {
        let before = processor_ticks();
        std::thread::sleep(SPAN);
        let (Some(before), Some(after)) = (before, processor_ticks()) else { return };
        quiet = if after - before <= 1 { quiet + 1 } else { 0 };
    }
}

/// Returns the total size on disk of the files in `path` and below it, in bytes. A file with
/// several names counts once.
///
/// # Errors
/// An I/O error that keeps a directory from being read.
pub fn disk_bytes(path: &Path) -> Result<u64> {
    add_disk_bytes(path, &mut HashSet::new())
}

/// Returns the total size on disk of the files in `path` and below it that are not in `seen`, in
/// bytes. Adds the device and inode of each file with several names to `seen`.
fn add_disk_bytes(path: &Path, seen: &mut HashSet<(u64, u64)>) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // The file may have been removed in the meantime.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += match metadata.is_dir() {
            true => add_disk_bytes(&entry.path(), seen)?,
            false => file_bytes(&metadata, seen),
        };
    }
    Ok(bytes)
}

/// Returns the space that a file takes; 0 if the file is in `seen`.
#[cfg(unix)]
fn file_bytes(metadata: &std::fs::Metadata, seen: &mut HashSet<(u64, u64)>) -> u64 {
    use std::os::unix::fs::MetadataExt;
    match metadata.nlink() > 1 && !seen.insert((metadata.dev(), metadata.ino())) {
        true => 0,
        false => metadata.blocks() * 512,
    }
}

/// Returns the length of a file: neither its space nor its other names are known.
#[cfg(not(unix))]
fn file_bytes(metadata: &std::fs::Metadata, _: &mut HashSet<(u64, u64)>) -> u64 {
    metadata.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_those_recorded() {
        let mut timings = Timings::new();
        assert_eq!(timings.latency(), None);
        (1..=1000).for_each(|us| timings.record(Duration::from_micros(us)));
        let mut slow = Timings::new();
        slow.record(Duration::from_micros(5_432));
        timings.add(&slow);
        let latency = timings.latency().unwrap();
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
        assert!(near(latency.median, 501.0), "{latency:?}");
        assert!(near(latency.p99, 991.0), "{latency:?}");
        assert!(near(latency.p999, 1000.0), "{latency:?}");
        assert_eq!(latency.max, 5_432.0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_peak_of_memory_is_reset() {
        let before = peak_memory_mib().unwrap();
        // This memory is freed only after the peak has been read. If another test resets the peak
        // in the meantime, the new peak still includes this memory.
        let held = std::hint::black_box(vec![1u8; 256 << 20]);
        let with = peak_memory_mib().unwrap();
        drop(held);
        assert!(with > before + 200.0, "{before} {with}");
        reset_peak_memory();
        let after = peak_memory_mib().unwrap();
        assert!(after < with - 200.0, "{with} {after}");
    }

    #[test]
    fn files_below_count_as_on_disk() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("below")).unwrap();
        for name in ["one", "below/two"] {
            std::fs::write(home.path().join(name), vec![1; 100_000]).unwrap();
        }
        std::fs::hard_link(home.path().join("one"), home.path().join("below/one")).unwrap();
        let bytes = disk_bytes(home.path()).unwrap();
        assert!((200_000..300_000).contains(&bytes), "{bytes}");
    }
}
