//! Counters that the writer exports in Prometheus's text format, as [`Stats::prometheus`] prints
//! them: what they grew by between two polls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use minikv::Stats;
use minikv::stats::LevelStats;

use crate::text::{size, thousands};

/// Names of the metrics of a database (without the prefix `minikv_`), and names of the labels that
/// the library gives to metrics.
struct Known {
    names: BTreeSet<String>,
    labels: BTreeSet<String>,
}

impl Known {
    fn new() -> Known {
        let mut stats = Stats::default();
        stats.levels.push(LevelStats::default());
        let text = stats.prometheus(&[]);
        let samples: Vec<Sample> = text.lines().filter_map(Sample::parse).collect();
        Known {
            names: samples.iter().map(|sample| sample.name.clone()).collect(),
            labels: samples.into_iter().flat_map(|sample| sample.labels.into_keys()).collect(),
        }
    }
}

/// Sample: one line of the text of metrics.
#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Sample {
    /// Parses a line such as `minikv_stalls_total{cause="flush"} 3`. Returns `None` for comments,
    /// metrics of other programs, and anything else that is not a sample.
    fn parse(line: &str) -> Option<Sample> {
        let rest = line.strip_prefix("minikv_")?;
        let end = rest.find(['{', ' '])?;
        let (name, mut rest) = rest.split_at(end);
        let mut labels = BTreeMap::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.starts_with('}') {
                let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
                let (value, after) = unquoted(after)?;
                labels.insert(label.to_string(), value);
                rest = after;
            }
            rest = &rest[1..];
        }
        // A timestamp may follow the value.
        let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Sample { name: name.to_string(), labels, value })
    }
}

/// Returns a label's value, which ends at the closing quote, and the text after the quote.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, char) in text.char_indices() {
        match (escaped, char) {
            (true, 'n') => value.push('\n'),
            (true, char) => value.push(char),
            (false, '"') => return Some((value, &text[at + 1..])),
            (false, '\\') => {}
            (false, char) => value.push(char),
        }
        escaped = !escaped && char == '\\';
    }
    None
}

/// Values of a database's metrics, with their names, such as `stalls_total{cause="flush"}`.
#[derive(Debug, Default)]
pub struct Metrics(Vec<(String, f64)>);

impl Metrics {
    /// Reads the metrics of one database from `text`, which may have metrics of other programs,
    /// too. If `wanted` is given, the metrics must have this label: its name and its value.
    ///
    /// # Errors
    /// A text, if there are metrics of several databases.
    pub fn parse(text: &str, wanted: Option<&(String, String)>) -> Result<Metrics, String> {
        let known = Known::new();
        let (mut metrics, mut databases) = (Vec::new(), BTreeSet::new());
        // A line without a line end may be incomplete.
        let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        for sample in lines.filter_map(Sample::parse) {
            let (own, of_database): (Vec<_>, Vec<_>) =
                sample.labels.iter().partition(|(name, _)| known.labels.contains(*name));
            let show = |labels: &[(&String, &String)]| {
                let pairs = labels.iter().map(|(name, value)| format!("{name}=\"{value}\""));
                pairs.collect::<Vec<_>>().join(",")
            };
            let is_wanted =
                wanted.is_none_or(|(name, value)| sample.labels.get(name) == Some(value));
            if !known.names.contains(&sample.name) || !is_wanted {
                continue;
            }
            databases.insert(show(&of_database));
            let own = if own.is_empty() { String::new() } else { format!("{{{}}}", show(&own)) };
            metrics.push((format!("{}{own}", sample.name), sample.value));
        }
        match databases.len() {
            0 | 1 => Ok(Metrics(metrics)),
            _ => {
                let databases = Vec::from_iter(databases).join(" and ");
                Err(format!("has metrics of several databases, {databases}; give one as --label"))
            }
        }
    }

    /// Returns the names of all metrics.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the value of a metric.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, value)| *value)
    }

    /// Returns the sum of a metric over all its labels, or 0 if the metric is missing.
    fn sum(&self, name: &str) -> f64 {
        let is_of = |of: &str| of.split('{').next() == Some(name);
        self.0.iter().filter(|(of, _)| is_of(of)).map(|(_, value)| value).sum()
    }
}

/// Metrics of this poll and of the previous poll, and the time between the two polls.
pub struct Since<'a> {
    /// The metrics of this poll.
    pub now: &'a Metrics,
    /// The metrics of the previous poll.
    pub before: &'a Metrics,
    /// The time between the two polls.
    pub time: Duration,
}

impl Since<'_> {
    /// Returns the growth of a counter since the previous poll, summed over its labels.
    fn growth(&self, name: &str) -> f64 {
        grown(self.now.sum(name), self.before.sum(name))
    }

    fn growth_of(&self, name: &str) -> f64 {
        let (now, before) = (self.now.value(name), self.before.value(name));
        grown(now.unwrap_or(0.0), before.unwrap_or(0.0))
    }

    fn rate(&self, name: &str) -> String {
        thousands(per_second(self.growth(name), self.time))
    }

    fn bytes_rate(&self, name: &str) -> String {
        format!("{}/s", size(per_second(self.growth(name), self.time)))
    }

    /// Returns a few lines that summarize the work of the writer's process.
    pub fn screen(&self) -> String {
        let rows = [
            ("gets", self.gets()),
            ("filters", self.filters()),
            ("puts", self.puts()),
            ("tables", self.tables()),
            ("stalls", self.stalls()),
            ("memory", self.memory()),
        ];
        rows.map(|(name, text)| format!("{name:<8} {text}\n")).concat()
    }

    fn gets(&self) -> String {
        let gets = self.growth("gets_total");
        let per_get = |number: f64| if gets > 0.0 { number / gets } else { 0.0 };
        format!(
            "{} per second, {:.0} % found; {:.2} data blocks per get, {:.2} from files",
            self.rate("gets_total"),
            100.0 * per_get(self.growth("gets_found_total")),
            per_get(self.growth("data_blocks_total")),
            per_get(self.growth_of("data_blocks_total{source=\"file\"}")),
        )
    }

    fn filters(&self) -> String {
        let no_of = |filter: &str| {
            let labels = format!("answer=\"no\",filter=\"{filter}\"");
            self.growth_of(&format!("filter_answers_total{{{labels}}}"))
        };
        let no: f64 = ["block", "table", "prefix"].map(no_of).iter().sum();
        let answers = self.growth("filter_answers_total");
        let percent = if answers > 0.0 { 100.0 * no / answers } else { 0.0 };
        let rate = self.rate("filter_answers_total");
        format!("{rate} answers per second, {percent:.0} % of them \"no\"")
    }

    fn puts(&self) -> String {
        format!(
            "{} per second in {} groups; {}, log {}, {} syncs per second",
            self.rate("operations_total"),
            self.rate("commit_groups_total"),
            self.bytes_rate("user_bytes_total"),
            self.bytes_rate("wal_bytes_total"),
            self.rate("wal_syncs_total"),
        )
    }

    fn tables(&self) -> String {
        format!(
            "flushes {}; compactions read {}, write {}",
            self.bytes_rate("flush_bytes_total"),
            self.bytes_rate("compaction_read_bytes_total"),
            self.bytes_rate("compaction_written_bytes_total"),
        )
    }

    fn stalls(&self) -> String {
        let percent = |cause: &str| {
            let seconds = self.growth_of(&format!("stall_seconds_total{{cause=\"{cause}\"}}"));
            100.0 * seconds / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
        };
        format!(
            "{:.0} % of the time for flushes, {:.0} % for level 0, {:.0} % slowed down",
            percent("flush"),
            percent("level0"),
            percent("slowdown"),
        )
    }

    fn memory(&self) -> String {
        let bytes = |name: &str| size(self.now.sum(name) as u64);
        format!(
            "{} memtables, {} block cache, {} indexes and filters",
            bytes("memtable_bytes"),
            bytes("block_cache_bytes"),
            bytes("index_and_filter_bytes"),
        )
    }
}

/// Returns `number` divided by the seconds of `time`, or 0 if `time` is zero.
pub fn per_second(number: f64, time: Duration) -> u64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { (number / seconds).round() as u64 } else { 0 }
}

/// Returns the growth of a counter. If the counter became smaller, its process has restarted, which
/// reset the counter to 0.
fn grown(now: f64, before: f64) -> f64 {
    if now < before { now } else { now - before }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, label: Option<(&str, &str)>) -> Result<Metrics, String> {
        let label = label.map(|(name, value)| (name.to_string(), value.to_string()));
        Metrics::parse(text, label.as_ref())
    }

    #[test]
    fn everything_that_the_library_prints_is_read() {
        let mut stats = Stats::default();
        stats.gets = 7;
        stats.stalls.level0.count = 2;
        stats.stalls.level0.time = Duration::from_millis(1500);
        stats.flush_time = Duration::from_millis(250);
        stats.levels = vec![LevelStats::default(); 2];
        stats.levels[1].bytes = 9;
        let text = stats.prometheus(&[("db", "a \"b\",{c}\\\n"), ("host", "x")]);
        let metrics = parsed(&text, None).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(metrics.names().len(), samples);
        assert_eq!(unquoted("a\\\"\\\\\\n\",b"), Some(("a\"\\\n".to_string(), ",b")));
        assert_eq!(metrics.value("gets_total"), Some(7.0));
        assert_eq!(metrics.value("stalls_total{cause=\"level0\"}"), Some(2.0));
        assert_eq!(metrics.sum("stall_seconds_total"), 1.5);
        assert_eq!(metrics.value("flush_seconds_total"), Some(0.25));
        assert_eq!(metrics.value("level_bytes{level=\"1\"}"), Some(9.0));
    }

    #[test]
    fn a_label_chooses_among_several_databases() {
        let mut text = String::from("minikv_raft_term 3\nother_gets_total 4\nminikv_gets_total{");
        text.push_str("db=\"a\"} 1\nminikv_gets_total{db=\"b\"} 2 1700000000\n");
        let several = parsed(&text, None).unwrap_err();
        assert!(several.contains("db=\"a\" and db=\"b\""), "{several}");
        assert_eq!(parsed(&text, Some(("db", "b"))).unwrap().sum("gets_total"), 2.0);
        assert!(parsed(&text, Some(("db", "c"))).unwrap().names().is_empty());
    }

    #[test]
    fn lines_that_are_cut_off_or_no_samples_are_left_out() {
        for text in
            ["minikv_gets_total 12", "minikv_gets_total{db=\"a 1\n", "minikv_gets_total x\n"]
        {
            assert_eq!(parsed(text, None).unwrap().value("gets_total"), None, "{text:?}");
        }
    }

    #[test]
    fn a_counter_that_became_smaller_began_anew() {
        let at = |gets: u64| parsed(&format!("minikv_gets_total {gets}\n"), None).unwrap();
        let growth = |before, now| {
            let (now, before) = (&at(now), &at(before));
            Since { now, before, time: Duration::from_secs(1) }.growth("gets_total")
        };
        assert_eq!((growth(10, 15), growth(10, 4)), (5.0, 4.0));
    }

    #[test]
    fn the_screen_shows_rates_and_shares_of_the_time_between_two_polls() {
        let mut stats = Stats::default();
        let before = parsed(&stats.prometheus(&[]), None).unwrap();
        (stats.gets, stats.gets_found, stats.operations, stats.commit_groups) = (200, 50, 30, 10);
        stats.stalls.slowdown.count = 3;
        stats.stalls.slowdown.time = Duration::from_millis(500);
        let level = &mut stats.reads.levels[1];
        (level.data_blocks_from_cache, level.data_blocks_from_file) = (60, 40);
        (level.filter_negatives, level.filter_true_positives) = (90, 20);
        (level.table_filter_false_positives, level.table_filter_negatives) = (10, 20);
        (level.prefix_filter_checks, level.prefix_filter_negatives) = (60, 40);
        (stats.flush_bytes, stats.memtable_bytes) = (4096, 2048);
        let now = parsed(&stats.prometheus(&[]), None).unwrap();
        let time = Duration::from_secs(2);
        let screen = Since { now: &now, before: &before, time }.screen();
        for line in [
            "gets     100 per second, 25 % found; 0.50 data blocks per get, 0.20 from files",
            "filters  100 answers per second, 75 % of them \"no\"",
            "puts     15 per second in 5 groups; 0 B/s, log 0 B/s, 0 syncs per second",
            "tables   flushes 2.0 KiB/s; compactions read 0 B/s, write 0 B/s",
            "stalls   0 % of the time for flushes, 0 % for level 0, 25 % slowed down",
            "memory   2.0 KiB memtables, 0 B block cache, 0 B indexes and filters",
        ] {
            assert!(screen.lines().any(|shown| shown == line), "{line}:\n{screen}");
        }
    }
}
