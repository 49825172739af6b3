//! Statistics as text for Prometheus.
//!
//! The text has Prometheus's text-based exposition format, version 0.0.4.

use std::fmt::Write;
use std::time::Duration;

use crate::engine::report::stats::{LevelStats, Stats};
use crate::table::counts::LevelTrace;

/// Type of a metric: a counter never decreases while the database is open; a gauge may decrease.
#[derive(Clone, Copy)]
enum MetricType {
    Counter,
    Gauge,
}

use MetricType::{Counter, Gauge};

impl Stats {
    /// Returns the statistics in Prometheus's text format, for Prometheus to scrape. Each sample
    /// carries `labels`, which are pairs of a name and a value: for example a database's name, if a
    /// process has several databases.
    ///
    /// Metric names begin with `minikv_`. Times are in seconds, sizes in bytes. Counters begin at 0
    /// when the database is opened.
    ///
    /// ```
    /// # use minikv::Db;
    /// # let dir = tempfile::tempdir()?;
    /// let db = Db::create(dir.path())?;
    /// db.put("key", "value")?;
    /// let text = db.stats().prometheus(&[("db", "users")]);
    /// assert!(text.contains("\nminikv_operations_total{db=\"users\"} 1\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prometheus(&self, labels: &[(&str, &str)]) -> String {
        let mut text = Text { text: String::new(), labels };
        self.print_reads(&mut text);
        self.print_writes(&mut text);
        self.print_sizes(&mut text);
        self.print_levels(&mut text);
        text.text
    }

    fn print_reads(&self, text: &mut Text<'_>) {
        let (reads, total) = (&self.reads, self.reads.total());
        text.one("gets_total", Counter, "Gets, by key.", self.gets);
        text.one("gets_found_total", Counter, "Gets that found a value.", self.gets_found);
        text.one("memtables_probed_total", Counter, "Memtables searched.", reads.memtables_probed);
        text.one("memtable_hits_total", Counter, "Answers from memtables.", reads.memtable_hits);
        text.metric("data_blocks_total", Counter, "Data blocks searched, by source.");
        text.sample("data_blocks_total", &[("source", "cache")], total.data_blocks_from_cache);
        text.sample("data_blocks_total", &[("source", "file")], total.data_blocks_from_file);
        text.one("read_bytes_total", Counter, "Bytes read from tables.", total.bytes_read);
        let help = "Tables whose range of keys has the key of a get.";
        text.one("tables_considered_total", Counter, help, total.tables_considered);
        print_filters(&total, text);
    }

    fn print_writes(&self, text: &mut Text<'_>) {
        text.one("operations_total", Counter, "Puts and deletes.", self.operations);
        text.one("commit_groups_total", Counter, "Records of the log.", self.commit_groups);
        text.one("user_bytes_total", Counter, "Bytes of the operations.", self.user_bytes);
        text.one("wal_bytes_total", Counter, "Bytes written to logs.", self.wal_bytes);
        text.one("wal_syncs_total", Counter, "Syncs of the log.", self.wal_syncs);
        text.one("flushes_total", Counter, "Memtables flushed.", self.flushes);
        text.one("flush_bytes_total", Counter, "Bytes of flushed tables.", self.flush_bytes);
        let help = "Time taken by flushes.";
        text.metric("flush_seconds_total", Counter, help);
        text.sample("flush_seconds_total", &[], Seconds(self.flush_time));
        let stalls = &self.stalls;
        let causes =
            [("flush", stalls.flush), ("level0", stalls.level0), ("slowdown", stalls.slowdown)];
        text.metric("stalls_total", Counter, "Write stalls, by cause.");
        for (cause, sum) in causes {
            text.sample("stalls_total", &[("cause", cause)], sum.count);
        }
        text.metric("stall_seconds_total", Counter, "Time of write stalls, by cause.");
        for (cause, sum) in causes {
            text.sample("stall_seconds_total", &[("cause", cause)], Seconds(sum.time));
        }
    }

    fn print_sizes(&self, text: &mut Text<'_>) {
        text.one("memtable_bytes", Gauge, "Memory of memtables.", self.memtable_bytes);
        text.one("block_cache_bytes", Gauge, "Memory of cached blocks.", self.block_cache_bytes);
        text.one("open_tables", Gauge, "Open tables.", self.open_tables);
        let help = "Memory of the indexes and filters of open tables.";
        text.one("index_and_filter_bytes", Gauge, help, self.pinned_bytes);
        text.one("snapshots", Gauge, "Snapshots that exist.", self.snapshots);
        let help = "Tables all of whose entries have expired.";
        text.one("expired_tables", Gauge, help, self.expired_tables);
        text.one("expired_bytes", Gauge, "Bytes of these tables.", self.expired_bytes);
        text.one("expired_entries", Gauge, "Entries of these tables.", self.expired_entries);
        let help = "Expired tables that were dropped without being read.";
        text.one("expired_tables_dropped_total", Counter, help, self.expired_tables_dropped);
    }

    fn print_levels(&self, text: &mut Text<'_>) {
        type Value = fn(&LevelStats) -> u64;
        let metrics: [(&str, MetricType, &str, Value); 7] = [
            ("level_tables", Gauge, "Tables, by level.", |level| level.files),
            ("level_bytes", Gauge, "Bytes of tables, by level.", |level| level.bytes),
            ("compactions_total", Counter, "Merges into a level.", |level| level.compactions),
            ("table_moves_total", Counter, "Tables moved into a level.", |level| level.moves),
            ("compaction_read_bytes_total", Counter, "Bytes of the merges' inputs.", |level| {
                level.bytes_read
            }),
            ("compaction_written_bytes_total", Counter, "Bytes of the merges' outputs.", |level| {
                level.bytes_written
            }),
            (
                "compaction_dropped_entries_total",
                Counter,
                "Entries that merges dropped.",
                |level| level.entries_dropped,
            ),
        ];
        let levels: Vec<_> = (0..self.levels.len()).map(|level| level.to_string()).collect();
        for (name, kind, help, value) in metrics {
            text.metric(name, kind, help);
            for (number, level) in levels.iter().zip(&self.levels) {
                text.sample(name, &[("level", number)], value(level));
            }
        }
        text.metric("compaction_seconds_total", Counter, "Time taken by merges into a level.");
        for (number, level) in levels.iter().zip(&self.levels) {
            let time = Seconds(level.merge_time);
            text.sample("compaction_seconds_total", &[("level", number)], time);
        }
    }
}

fn print_filters(total: &LevelTrace, text: &mut Text<'_>) {
    // Other threads may change the counters between the two reads, so the difference could be
    // negative.
    let maybe = total.prefix_filter_checks.saturating_sub(total.prefix_filter_negatives);
    let answers = [
        ("block", "no", total.filter_negatives),
        ("block", "true_positive", total.filter_true_positives),
        ("block", "false_positive", total.filter_false_positives),
        ("table", "no", total.table_filter_negatives),
        ("table", "true_positive", total.table_filter_true_positives),
        ("table", "false_positive", total.table_filter_false_positives),
        ("prefix", "no", total.prefix_filter_negatives),
        ("prefix", "maybe", maybe),
    ];
    text.metric("filter_answers_total", Counter, "Answers of filters, by kind of filter.");
    for (filter, answer, count) in answers {
        text.sample("filter_answers_total", &[("answer", answer), ("filter", filter)], count);
    }
}

/// A duration, printed in seconds.
struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0.as_secs(), self.0.subsec_micros())
    }
}

/// The text written so far, and the labels that every sample has.
struct Text<'a> {
    text: String,
    labels: &'a [(&'a str, &'a str)],
}

impl Text<'_> {
    /// Adds a metric with one sample.
    fn one(&mut self, name: &str, kind: MetricType, help: &str, value: u64) {
        self.metric(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Begins a metric.
    fn metric(&mut self, name: &str, kind: MetricType, help: &str) {
        let kind = match kind {
            Counter => "counter",
            Gauge => "gauge",
        };
        let _infallible =
            writeln!(self.text, "# HELP minikv_{name} {help}\n# TYPE minikv_{name} {kind}");
    }

    /// Adds a sample with the labels `own` in addition to the labels that every sample has.
    fn sample(&mut self, name: &str, own: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels = self.labels.iter().chain(own).map(|(name, value)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        });
        let labels = labels.collect::<Vec<_>>().join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _infallible = writeln!(self.text, "minikv_{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::report::stats::{StallSum, Stalls};

    #[test]
    fn each_metric_is_introduced_once_before_its_samples() {
        let micros = Duration::from_micros;
        let levels =
            vec![LevelStats { files: 3, merge_time: micros(1_500_000), ..<_>::default() }; 2];
        let level0 = StallSum { count: 2, time: micros(250) };
        let stalls = Stalls { level0, ..<_>::default() };
        let stats = Stats { gets: 5, stalls, levels, ..<_>::default() };
        let text = stats.prometheus(&[]);
        let mut introduced = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.split(' ').next().unwrap();
                assert!(!introduced.contains(&name), "{name} twice");
                introduced.push(name);
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert_eq!(introduced.last(), Some(&name), "{line}");
                let value = line.rsplit(' ').next().unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert!(introduced.len() > 25, "{introduced:?}");
        for line in [
            "# HELP minikv_gets_total Gets, by key.",
            "# TYPE minikv_snapshots gauge",
            "minikv_gets_total 5",
            "minikv_stalls_total{cause=\"level0\"} 2",
            "minikv_stall_seconds_total{cause=\"level0\"} 0.000250",
            "minikv_level_tables{level=\"1\"} 3",
            "minikv_compaction_seconds_total{level=\"0\"} 1.500000",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let text = Stats::default().prometheus(&[("db", "a\"b\\c\nd"), ("host", "h")]);
        let label = r#"{db="a\"b\\c\nd",host="h"}"#;
        assert!(text.contains(&format!("\nminikv_gets_total{label} 0\n")), "{text}");
        let label = r#"{db="a\"b\\c\nd",host="h",cause="flush"}"#;
        assert!(text.contains(&format!("\nminikv_stalls_total{label} 0\n")), "{text}");
    }
}
