//! Exports the report as JSON and CSV.

use minikv::files::NUM_LEVELS;
use minikv::stats::{AllFilters, LevelTrace};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::measure::{Class, Measured, Pass, Times};
use super::rates::Rate;
use super::report::Report;

/// Returns the names and values of the counters of a level or of all levels, followed by sums of
/// some counters.
fn counters(trace: &LevelTrace) -> Vec<(&'static str, u64)> {
    let all = AllFilters::of(trace);
    let sums = [
        ("data_blocks", trace.data_blocks()),
        ("all_filter_checks", all.checks),
        ("all_filter_negatives", all.negatives),
        ("all_filter_true_positives", all.true_positives),
        ("all_filter_false_positives", all.false_positives),
    ];
    trace.counters().into_iter().chain(sums).collect()
}

/// Serializes the report as JSON.
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let configurations: Vec<_> = self.measured.iter().map(|m| self.configuration(m)).collect();
        let mut fields = serializer.serialize_struct("Report", 15)?;
        fields.serialize_field("data", &self.data)?;
        fields.serialize_field("entries", &self.entries)?;
        fields.serialize_field("tables", &self.held.tables)?;
        fields.serialize_field("tables_per_level", &self.tables_per_level)?;
        fields.serialize_field("data_blocks", &self.held.data_blocks)?;
        fields.serialize_field("data_bytes", &self.held.data_bytes)?;
        fields.serialize_field("stored_entries", &self.held.entries)?;
        fields.serialize_field("block_cache_bytes", &self.cache_bytes)?;
        fields.serialize_field("lookups", &self.lookups)?;
        fields.serialize_field("different_keys", &self.different_keys)?;
        fields.serialize_field("lookups_chosen", &self.lookups_named)?;
        fields.serialize_field("configurations", &configurations)?;
        fields.serialize_field("writes_and_space", &self.space)?;
        match &self.scans {
            Some(scans) => fields.serialize_field("scans", scans)?,
            None => fields.skip_field("scans")?,
        }
        fields.serialize_field("remarks", &self.remarks())?;
        fields.end()
    }
}

impl Report {
    fn configuration<'a>(&'a self, m: &'a Measured) -> Configuration<'a> {
        let control = self.controls.iter().find(|control| control.filters == m.filters);
        let level_rates = m.level_rates.iter();
        Configuration {
            filters: m.filters.to_string(),
            kind: m.filters.kind(),
            bits_per_key: m.filters.bits(),
            filter_bytes: m.filter_bytes,
            false_positives: m.rate,
            false_positives_per_level: level_rates
                .map(|&(level, rate)| LevelRate { level, rate })
                .collect(),
            false_positives_with_independent_hash: control.map(|control| control.rate),
            cold: &m.cold,
            warm: &m.warm,
        }
    }

    /// Returns the report as CSV. Each combination of configuration, pass and kind of lookup has a
    /// line for each level and a line for all levels together.
    pub fn csv(&self) -> String {
        let names = counters(&LevelTrace::default()).into_iter().map(|(name, _)| name);
        let names: Vec<_> = names.collect();
        let head = "filters,bits_per_key,filter_bytes,pass,keys,level,lookups,memtable_hits";
        let tail = "time_median_ns,time_p99_ns,time_mean_ns,filters_tried,filters_wrong,\
                    rate_measured,rate_low,rate_high,rate_predicted";
        let mut csv = format!("{head},{},{tail}\n", names.join(","));
        for m in &self.measured {
            for (pass_name, pass) in [("cold", &m.cold), ("warm", &m.warm)] {
                for (kind, class) in pass.classes() {
                    let head = format!("{},{pass_name},{kind}", csv_head(m));
                    let all = (None, class.trace.total(), m.rate);
                    let levels = (0..NUM_LEVELS).filter(|&l| self.tables_per_level[l] > 0);
                    let rate = |level| m.level_rates.iter().find(|(l, _)| *l == level).map(|r| r.1);
                    let levels = levels.map(|l| (Some(l), class.trace.levels[l].clone(), rate(l)));
                    for (level, trace, rate) in std::iter::once(all).chain(levels) {
                        csv.push_str(&csv_line(&head, level, class, &trace, rate));
                    }
                }
            }
        }
        csv
    }
}

fn csv_head(m: &Measured) -> String {
    let bits = m.filters.bits().map(|bits| bits.to_string()).unwrap_or_default();
    format!("{},{bits},{}", m.filters, m.filter_bytes)
}

fn csv_line(
    head: &str,
    level: Option<usize>,
    class: &Class,
    trace: &LevelTrace,
    rate: Option<Rate>,
) -> String {
    let name = level.map_or("all".to_string(), |level| level.to_string());
    let counts: Vec<_> = counters(trace).into_iter().map(|(_, n)| n.to_string()).collect();
    let counts = counts.join(",");
    // Memtable hits and times are recorded for whole gets, not for levels.
    let (memtable, times) = match level {
        Some(_) => (String::new(), ",,".to_string()),
        None => {
            let times = &class.times;
            let times = format!("{},{},{:.0}", times.median, times.p99, times.mean);
            (class.trace.memtable_hits.to_string(), times)
        }
    };
    let rates = rate.map_or(",,,,,".to_string(), |rate| {
        let (low, high) = rate.interval();
        let (tried, wrong) = (rate.tried, rate.wrong);
        format!("{tried},{wrong},{},{low},{high},{}", rate.measured(), rate.predicted)
    });
    format!("{head},{name},{},{memtable},{counts},{times},{rates}\n", class.lookups)
}

#[derive(Serialize)]
struct Configuration<'a> {
    filters: String,
    kind: &'static str,
    bits_per_key: Option<u32>,
    filter_bytes: u64,
    false_positives: Option<Rate>,
    false_positives_per_level: Vec<LevelRate>,
    false_positives_with_independent_hash: Option<Rate>,
    cold: &'a Pass,
    warm: &'a Pass,
}

#[derive(Serialize)]
struct LevelRate {
    level: usize,
    #[serde(flatten)]
    rate: Rate,
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Rate", 8)?;
        fields.serialize_field("tried", &self.tried)?;
        fields.serialize_field("independent_tries", &self.independent)?;
        fields.serialize_field("wrong", &self.wrong)?;
        fields.serialize_field("measured", &self.measured())?;
        fields.serialize_field("interval_95_percent", &self.interval())?;
        fields.serialize_field("predicted", &self.predicted)?;
        fields.serialize_field("predicted_by_textbook", &self.textbook)?;
        fields.serialize_field("within", &self.agrees())?;
        fields.end()
    }
}

impl Serialize for Pass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Pass", 3)?;
        fields.serialize_field("present", &self.present)?;
        fields.serialize_field("absent", &self.absent)?;
        fields.serialize_field("all", &self.all())?;
        fields.end()
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Document<'a> {
            #[serde(flatten)]
            total: Counters<'a>,
            lookups: u64,
            memtables_probed: u64,
            memtable_hits: u64,
            levels: Vec<Counters<'a>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            time_ns: Option<&'a Times>,
        }
        Document {
            total: Counters(&self.trace.total()),
            lookups: self.lookups,
            memtables_probed: self.trace.memtables_probed,
            memtable_hits: self.trace.memtable_hits,
            levels: self.trace.levels.iter().map(Counters).collect(),
            time_ns: (self.times.median > 0).then_some(&self.times),
        }
        .serialize(serializer)
    }
}

/// The counters of a level, or of all levels, as JSON fields.
struct Counters<'a>(&'a LevelTrace);

impl Serialize for Counters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(counters(self.0))
    }
}
