//! The highest possible speed of loading sorted entries: blocks of 4 KiB, compressed with snappy,
//! written to one file and synced, by one thread, without filters, an index or checksums.
//!
//! ```text
//! cargo run --release -p minikv-workloads --example sorted_floor -- ENTRIES FILE
//! ```

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use minikv_workloads::{Values, key};

const BLOCK_BYTES: usize = 4 << 10;
const VALUE_BYTES: usize = 100;
/// Size of a write, in bytes.
const WRITE_BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, entries, path] = &args[..] else { return Err("ENTRIES FILE".into()) };
    let entries: u64 = entries.parse()?;
    let values = Values::new(VALUE_BYTES);
    let mut snappy = snap::raw::Encoder::new();
    let (mut value, mut block, mut out) = (Vec::new(), Vec::new(), Vec::new());
    let mut compressed = vec![0; snap::raw::max_compress_len(2 * BLOCK_BYTES)];
    let mut file = File::create(path)?;
    let start = Instant::now();
    for number in 0..entries {
        values.fill(number, 0, &mut value);
        block.extend_from_slice(&key(number));
        block.extend_from_slice(&value);
        if block.len() >= BLOCK_BYTES || number + 1 == entries {
            let len = snappy.compress(&block, &mut compressed)?;
            out.extend_from_slice(&compressed[..len]);
            block.clear();
        }
        if out.len() >= WRITE_BYTES {
            file.write_all(&out)?;
            out.clear();
        }
    }
    file.write_all(&out)?;
    file.sync_all()?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{:.0} entries a second", entries as f64 / seconds);
    Ok(())
}
