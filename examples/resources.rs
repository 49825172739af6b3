//! Several databases of a process share memory, threads and a limit on background I/O.
//!
//! ```text
//! cargo run --release --example resources
//! ```

use std::error::Error;

use minikv::{Db, Options, Resources};

const DATABASES: u32 = 8;
const ENTRIES: u32 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    // All databases together use 64 MiB, three threads, and half of a disk's bandwidth.
    let shared = Resources::default()
        .memory_bytes(64 << 20)
        .compaction_threads(2)
        .background_bytes_per_second(200 << 20);
    let options = Options::default().create_if_missing(true).resources(&shared);
    let open = |i| Db::open(home.path().join(format!("tenant{i}")), options.clone());
    let tenants = (0..DATABASES).map(open).collect::<Result<Vec<_>, _>>()?;

    for i in 0..ENTRIES {
        for tenant in &tenants {
            tenant.put(format!("key{i:06}"), [b'v'; 200])?;
        }
    }
    let used = shared.memory_used_bytes() as f64 / f64::from(1 << 20);
    println!("{} databases use {used:.1} MiB of 64", tenants.len());

    // The output for a scraper: all databases have the same metrics, distinguished by a label.
    for (i, tenant) in tenants.iter().enumerate().take(2) {
        let metrics = tenant.stats().prometheus(&[("db", &format!("tenant{i}"))]);
        let sample = metrics.lines().find(|line| line.starts_with("minikv_operations_total{"));
        println!("{}", sample.unwrap_or("no such metric"));
    }
    for tenant in tenants {
        assert_eq!(tenant.iter().count(), ENTRIES as usize);
        tenant.close()?;
    }
    Ok(())
}
