//! The report for programs: JSON and CSV.

use minikv::format::edit::NUM_LEVELS;
use minikv::table::counts::LevelTrace;
use serde_json::{Map, Value, json};

use super::measure::{Class, Measured, Pass};
use super::rates::Rate;
use super::report::Report;

/// The counters of a level, or of all, by name: those that are counted, and their sums.
fn counters(trace: &LevelTrace) -> Vec<(&'static str, u64)> {
    let sums = [
        ("data_blocks", trace.data_blocks()),
        ("all_filter_checks", trace.all_filter_checks()),
        ("all_filter_negatives", trace.all_filter_negatives()),
        ("all_filter_true_positives", trace.all_filter_true_positives()),
        ("all_filter_false_positives", trace.all_filter_false_positives()),
    ];
    trace.counters().into_iter().chain(sums).collect()
}

fn counters_json(trace: &LevelTrace) -> Map<String, Value> {
    counters(trace).into_iter().map(|(name, n)| (name.to_string(), json!(n))).collect()
}

impl Report {
    pub fn json(&self) -> Value {
        let configurations = self.measured.iter().map(|m| self.configuration(m));
        json!({
            "data": self.data,
            "entries": self.entries,
            "tables": self.held.tables,
            "tables_per_level": self.tables_per_level,
            "data_blocks": self.held.data_blocks,
            "data_bytes": self.held.data_bytes,
            "stored_entries": self.held.entries,
            "block_cache_bytes": self.cache_bytes,
            "lookups": self.lookups,
            "different_keys": self.different_keys,
            "lookups_chosen": self.lookups_named,
            "configurations": configurations.collect::<Vec<_>>(),
            "remarks": self.remarks(),
        })
    }

    fn configuration(&self, m: &Measured) -> Value {
        let control = self.controls.iter().find(|control| control.filters == m.filters);
        json!({
            "filters": m.filters.to_string(),
            "kind": m.filters.kind(),
            "bits_per_key": m.filters.bits(),
            "filter_bytes": m.filter_bytes,
            "false_positives": m.rate.as_ref().map(rate_json),
            "false_positives_per_level": m.level_rates.iter().map(|(level, rate)| {
                let mut json = rate_json(rate);
                json["level"] = json!(level);
                json
            }).collect::<Vec<_>>(),
            "false_positives_with_independent_hash": control.map(|c| rate_json(&c.rate)),
            "cold": pass_json(&m.cold),
            "warm": pass_json(&m.warm),
        })
    }

    /// One line for each configuration, pass, kind of lookup and level, and for all levels.
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
    // The memtable and the time are the whole get's.
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

fn rate_json(rate: &Rate) -> Value {
    let (low, high) = rate.interval();
    json!({
        "tried": rate.tried,
        "independent_tries": rate.independent,
        "wrong": rate.wrong,
        "measured": rate.measured(),
        "interval_95_percent": [low, high],
        "predicted": rate.predicted,
        "predicted_by_textbook": rate.textbook,
        "within": rate.agrees(),
    })
}

fn pass_json(pass: &Pass) -> Value {
    json!({
        "present": class_json(&pass.present),
        "absent": class_json(&pass.absent),
        "all": class_json(&pass.all()),
    })
}

fn class_json(class: &Class) -> Value {
    let mut json = counters_json(&class.trace.total());
    json.insert("lookups".to_string(), json!(class.lookups));
    json.insert("memtables_probed".to_string(), json!(class.trace.memtables_probed));
    json.insert("memtable_hits".to_string(), json!(class.trace.memtable_hits));
    let levels = class.trace.levels.iter().map(|level| Value::Object(counters_json(level)));
    json.insert("levels".to_string(), levels.collect());
    if class.times.median > 0 {
        let times = &class.times;
        let times = json!({ "median": times.median, "p99": times.p99, "mean": times.mean });
        json.insert("time_ns".to_string(), times);
    }
    Value::Object(json)
}
