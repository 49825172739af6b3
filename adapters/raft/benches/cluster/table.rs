//! The table of results.

use std::time::Duration;

#[derive(Clone)]
pub struct Row {
    name: String,
    nodes: usize,
    clients: usize,
    per_second: f64,
    /// Latencies of the puts: the 50th, 99th and 99.9th percentiles, and the maximum.
    latencies: [Duration; 4],
    /// Number of bytes that a node wrote to its disk for each byte of keys and values.
    written: f64,
    /// Memory of the node that used the most memory, in bytes.
    memory: u64,
}

impl Row {
    pub fn new(
        name: &str,
        [nodes, clients]: [usize; 2],
        length: Duration,
        mut latencies: Vec<Duration>,
        written: f64,
        memory: u64,
    ) -> Row {
        latencies.sort_unstable();
        let at = |share: f64| {
            let place = (latencies.len() as f64 * share) as usize;
            latencies.get(place.min(latencies.len().saturating_sub(1))).copied().unwrap_or_default()
        };
        Row {
            name: name.into(),
            nodes,
            clients,
            per_second: latencies.len() as f64 / length.as_secs_f64(),
            latencies: [at(0.5), at(0.99), at(0.999), at(1.0)],
            written,
            memory,
        }
    }
}

/// Returns the run with the median number of puts per second.
pub fn median(mut runs: Vec<Row>) -> Option<Row> {
    runs.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle)
}

pub fn print(rows: &[Row]) {
    println!(
        "nodes clients            puts/s    p50 ms    p99 ms  p99.9 ms    max ms  written    MiB"
    );
    for row in rows {
        let Row { name, nodes, clients, per_second, latencies, written, memory } = row;
        print!("{nodes:>5} {clients:>7} {name:<8} {per_second:>9.0}");
        for latency in latencies {
            print!(" {:>9.2}", latency.as_secs_f64() * 1e3);
        }
        println!(" {written:>8.1} {:>6}", memory >> 20);
    }
}
