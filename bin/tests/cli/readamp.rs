//! Tests of `minikv readamp`: budgets, filters by level, profiles, scans and sweeps, as text, as
//! JSON and as a page.

use serde_json::Value;

use super::browser::Browser;
use super::{Place, Ran, minikv, number, run};

/// Runs `readamp` on a few thousand generated entries in several levels.
fn readamp(args: &[&str]) -> Ran {
    let small = ["readamp", "--write-buffer", "64KiB", "--lookups", "3000"];
    run(minikv().args(small).args(args), b"")
}

/// Returns what `readamp` prints as text, and as JSON.
fn both(args: &[&str]) -> (String, Value) {
    let text = String::from_utf8(readamp(args).ok()).unwrap();
    let json = readamp(&[args, &["--json"]].concat()).ok();
    (text, serde_json::from_slice(&json).unwrap())
}

/// Returns the rows of the table after the line `title`. Each row is split into words.
fn rows<'t>(text: &'t str, title: &str) -> Vec<Vec<&'t str>> {
    let after = text.split(title).nth(1).unwrap_or_else(|| panic!("no {title:?} in {text}"));
    let rows = after.lines().skip(1).take_while(|line| !line.is_empty());
    rows.map(|row| row.split_whitespace().collect()).collect()
}

/// Returns a size as the command prints it.
fn size(bytes: &Value) -> String {
    match bytes.as_u64().unwrap() {
        n if n < 1 << 10 => format!("{n} B"),
        n if n < 1 << 20 => format!("{:.1} KiB", n as f64 / 1024.0),
        n => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no array"))
}

#[test]
fn a_budget_is_divided_the_same_in_text_and_json() {
    let (text, json) = both(&["--entries", "20000", "--zipf", "--budget", "300KiB"]);
    let n = |value: &Value| value.as_u64().unwrap();
    let divisions = array(&json["divisions"]);
    let best = &divisions[json["best"].as_u64().unwrap() as usize];
    let budget = n(&json["budget_bytes"]);
    assert_eq!(budget, 300 << 10);
    let mut sizes = std::collections::BTreeSet::new();
    for division in divisions {
        let taken = n(&json["index_bytes"]) + n(&division["filter_bytes"]);
        assert_eq!(taken + n(&division["cache_bytes"]), budget, "all of it, and no more");
        let reads = |division: &Value| number(&division["file_reads_per_get"]);
        assert!(reads(best) <= reads(division), "{json}");
        sizes.insert(n(&division["filter_bytes"]));
    }
    assert!(sizes.len() > 4 && sizes.contains(&0), "several sizes, and none: {json}");
    assert!((number(&best["file_reads_per_get"]) - number(&json["measured"])).abs() < 0.05);
    // `readamp` counts the second half of the lookups. A get reads no more blocks from files than
    // it searches.
    assert_eq!(json["lookups"], 3000);
    assert!(divisions.iter().all(|d| number(&d["file_reads_per_get"]) <= 6.0));

    assert!(text.contains(&format!("indexes take {}.", size(&json["index_bytes"]))), "{text}");
    let printed = rows(&text, "is counted.\n");
    assert_eq!(printed.len(), divisions.len() + 1, "{text}");
    for (row, division) in printed[1..].iter().zip(divisions) {
        let expected = format!(
            "{} {} {} {:.3} {:.4}",
            division["filters"].as_str().unwrap(),
            size(&division["filter_bytes"]),
            size(&division["cache_bytes"]),
            number(&division["blocks_per_get"]),
            number(&division["file_reads_per_get"])
        );
        assert!(row.join(" ").starts_with(&expected), "{row:?} {expected}");
        assert_eq!(row.last() == Some(&"best"), division == best, "{row:?}");
    }
    let advice = format!(
        "Advice: filters {} for {}, and a block cache of {}. Predicted: {:.4} file reads per get; \
         measured with these: {:.4}.",
        best["filters"].as_str().unwrap(),
        size(&best["filter_bytes"]),
        size(&best["cache_bytes"]),
        number(&best["file_reads_per_get"]),
        number(&json["measured"])
    );
    assert!(text.replace("\n  ", " ").contains(&advice), "{advice}\n{text}");
    let (to_cache, to_best) = (number(&json["next"]["to_cache"]), number(&json["next"]["to_best"]));
    assert!(to_cache > 0.01 && to_best >= to_cache, "the data does not fit: {json}");
    assert!(text.contains(&format!("The next MiB saves {to_cache:.4} file reads")), "{text}");
    let printed = rows(&text, "alone, with the same filters:");
    assert_eq!(printed.len(), array(&json["curve"]).len() + 1, "{text}");
    for (row, point) in printed[1..].iter().zip(array(&json["curve"])) {
        let reads = number(&point["file_reads_per_get"]);
        let expected = format!("{} {reads:.4}", size(&point["cache_bytes"]));
        assert!(row.join(" ").starts_with(&expected), "{row:?} {expected}");
    }
    let curve: Vec<_> = array(&json["curve"]).iter().map(|p| number(&p["miss_ratio"])).collect();
    assert!(curve.is_sorted_by(|a, b| a >= b), "a larger cache misses no more: {curve:?}");
    for size in array(&json["block_sizes"]) {
        let taken = n(&size["index_bytes"]) + n(&best["filter_bytes"]) + n(&size["cache_bytes"]);
        assert!(taken == budget, "{size}");
    }
}

#[test]
fn a_budget_of_more_memory_than_there_is_goes_to_the_cache() {
    let budget = ["--entries", "1000", "--budget", "18446744073709551615", "--json"];
    let json: Value = serde_json::from_slice(&readamp(&budget).ok()).unwrap();
    assert_eq!(json["budget_bytes"], u64::MAX);
    assert_eq!(number(&json["next"]["to_cache"]), 0.0);
}

/// Checks that the first half of the lookups warms the cache up for the second half.
#[test]
fn blocks_read_by_the_first_half_are_cached_for_the_second() {
    let place = Place::new();
    let lines: String = (0..2000).map(|i| format!("key {i:04}\tvalue {i}\n")).collect();
    place.feed(&["load"], lines.as_bytes()).ok();
    let keys = place.path("keys").display().to_string();
    let once: String = (0..2000).step_by(3).map(|i| format!("key {i:04}\n")).collect();
    std::fs::write(&keys, once.repeat(2)).unwrap();
    let budget = |size| -> Value {
        let args = ["readamp", "--json", "--lookups", &keys, "--budget", size];
        serde_json::from_slice(&place.ok(&args)).unwrap()
    };
    let ample = budget("16MiB");
    let best = &ample["divisions"][ample["best"].as_u64().unwrap() as usize];
    assert_eq!((number(&best["file_reads_per_get"]), number(&ample["measured"])), (0.0, 0.0));
    let scarce = budget("10KiB");
    assert!(number(&scarce["measured"]) > 0.01, "{scarce}");
}

#[test]
fn a_budget_must_hold_the_indexes() {
    readamp(&["--entries", "20000", "--budget", "2KiB"])
        .fails(2, &["the indexes alone take", "KiB", "--budget"]);
    readamp(&["--entries", "2000", "--budget", "1MB"]).fails(2, &["--budget", "KiB, MiB or GiB"]);
    for other in [&["--csv"][..], &["--advise"], &["--filters", "none"], &["--scans", "5"]] {
        let args = [&["--entries", "2000", "--budget", "1MiB"], other].concat();
        readamp(&args).fails(2, &["--budget", other[0]]);
    }
}

/// Returns the filter options in the Rust code that the text contains: the layout and the bits per
/// key of the lowest level; and, for each level with other options, its number, layout and bits.
fn pasted(text: &str) -> (String, u64, Vec<(usize, String, u64)>) {
    let options = text.split("Options::default()\n").nth(1).unwrap();
    let calls = options.lines().take_while(|line| line.starts_with("    ."));
    let calls = calls.map(|line| {
        let (name, rest) = line.trim_start_matches("    .").split_once('(').unwrap();
        (name, rest.trim_end_matches(')').split(", ").collect::<Vec<_>>())
    });
    let filters = |text: &str| match text.strip_prefix("Filters::").unwrap().split_once('(') {
        Some((layout, bits)) => (layout.to_string(), bits.trim_end_matches(')').parse().unwrap()),
        None => ("None".to_string(), 0),
    };
    let mut all = (String::new(), 0, Vec::new());
    for (name, args) in calls {
        match (name, &args[..]) {
            ("filters", [of]) => (all.0, all.1) = filters(of),
            ("filters_at_level", [level, of]) => {
                let (layout, bits) = filters(of);
                all.2.push((level.parse().unwrap(), layout, bits));
            }
            other => panic!("{other:?}"),
        }
    }
    all
}

#[test]
fn filters_by_level_are_printed_pasted_and_loaded_alike() {
    let args = ["--write-buffer", "512KiB", "--advise", "--rewrite", "--filters", "none,block:10"];
    let run = |more: &[&str]| {
        let args = [&["readamp", "--lookups", "3000"], &args[..], more].concat();
        run(minikv().args(args), b"").ok()
    };
    let text = String::from_utf8(run(&[])).unwrap();
    let json: Value = serde_json::from_slice(&run(&["--json"])).unwrap();
    let by_level = &json["by_level"];
    let levels = array(&by_level["levels"]);
    assert!(levels.len() >= 2, "{json}");
    for (row, level) in rows(&text, "by their lookups in vain:").iter().skip(1).zip(levels) {
        let expected = [
            format!("L{}", level["level"]),
            level["keys"].to_string(),
            format!("{:.3}", number(&level["in_vain_per_get"])),
            level["uniform_bits"].to_string(),
            level["advised_bits"].to_string(),
            level["smaller_bits"].to_string(),
        ];
        assert_eq!(*row, expected, "{text}");
    }
    let divisions = ["uniform", "advised", "smaller"].map(|name| &by_level[name]);
    for (row, division) in rows(&text, "searched in vain:").iter().skip(1).zip(divisions) {
        let expected = format!(
            "{} {:.4} {:.4}",
            size(&division["filter_bytes"]),
            number(&division["predicted"]),
            number(&division["measured"])
        );
        assert!(row.join(" ").contains(&expected), "{row:?} {division}");
    }
    let [uniform, advised, smaller] = divisions;
    assert!(number(&advised["filter_bytes"]) <= number(&uniform["filter_bytes"]));
    assert!(number(&smaller["filter_bytes"]) < number(&uniform["filter_bytes"]));
    assert!(number(&advised["predicted"]) < number(&uniform["predicted"]));

    let (layout, below, at_levels) = pasted(&text);
    assert_eq!(layout.to_lowercase(), by_level["layout"].as_str().unwrap());
    for level in levels {
        let number = level["level"].as_u64().unwrap() as usize;
        let own = at_levels.iter().find(|(level, ..)| *level == number);
        let (of, bits) = own.map_or((&layout, below), |(_, of, bits)| (of, *bits));
        assert_eq!((of, level["advised_bits"].as_u64()), (&layout, Some(bits)), "{text}");
    }
    assert!(!at_levels.is_empty(), "the levels differ: {text}");

    // No table was moved in this run, so all tables have the filters of their level.
    let rewritten = &json["rewritten"];
    assert_eq!(rewritten["filter_bytes"], advised["filter_bytes"], "{json}");
    assert!((number(&rewritten["in_vain_per_get"]) - number(&advised["measured"])).abs() < 1e-9);
    let again = array(&rewritten["levels"]);
    assert_eq!(again.len(), levels.len());
    for ((again, level), row) in
        again.iter().zip(levels).zip(rows(&text, "data blocks in vain.").iter().skip(1))
    {
        assert_eq!((&again["keys"], &again["moved_in"]), (&level["keys"], &0.into()));
        assert_eq!(again["advised_bits"], level["advised_bits"]);
        assert_eq!(again["filter_bytes"], again["advised_filter_bytes"], "{again}");
        assert_eq!(row[0], format!("L{}", again["level"]));
        assert!(row.join(" ").contains(&size(&again["filter_bytes"])), "{row:?}");
        let bits = number(&again["filter_bytes"]) * 8.0 / number(&again["keys"]);
        assert!(bits > number(&level["advised_bits"]), "{again}");
        assert!(bits < number(&level["advised_bits"]) + 2.0, "{again}");
    }
    let sum: f64 = again.iter().map(|level| number(&level["filter_bytes"])).sum();
    assert_eq!(sum, number(&rewritten["filter_bytes"]));
}

/// Checks that the report mentions moved tables: a table that is moved down keeps the filters of
/// the level above.
#[test]
fn moved_tables_are_told_after_a_rewrite() {
    let args = ["readamp", "--entries", "40000", "--value-bytes", "1000", "--lookups", "1000"];
    let advise = ["--write-buffer", "256KiB", "--advise", "--rewrite", "--json"];
    let filters = ["--filters", "none,block:10"];
    let out = run(minikv().args(args).args(advise).args(filters), b"").ok();
    let json: Value = serde_json::from_slice(&out).unwrap();
    let levels = array(&json["rewritten"]["levels"]);
    let moved = |level: &Value| level["moved_in"].as_u64().unwrap();
    assert!(levels.iter().any(|level| level["level"] == 2 && moved(level) > 0), "{json}");
    for level in levels.iter().filter(|level| moved(level) == 0) {
        assert_eq!(level["filter_bytes"], level["advised_filter_bytes"], "{level}");
    }
}

#[test]
fn rewrite_needs_advise_and_a_database() {
    readamp(&["--entries", "2000", "--rewrite"]).fails(2, &["--advise"]);
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    place.run(&["readamp", "--advise", "--rewrite"]).fails(2, &["--rewrite", "--db"]);
    readamp(&["--entries", "2000", "--advise", "--filters", "block:10"])
        .fails(2, &["--advise", "without filters"]);
}

#[test]
fn wrong_parameters_of_a_profile_are_named() {
    for (profile, words) in [
        ("mixgraf", &["mixgraf", "mixgraph or cache"][..]),
        ("mixgraph:miss=2", &["miss=2", "a share is a number from 0 to 1"]),
        ("mixgraph:zipf=1", &["\"zipf\"", "get, put, scan, miss or key"]),
        ("mixgraph:key=4", &["key=4", "16 bytes to 1 MiB"]),
        ("mixgraph:get=0,put=0,scan=0", &["get, put and scan"]),
        ("cache:zipf=x", &["zipf=x", "an exponent is a number from 0 to 10"]),
        ("cache:scan=0.1", &["\"scan\"", "get, miss, zipf, key or value"]),
        ("cache:value=2000000", &["value=2000000", "1 MiB"]),
    ] {
        readamp(&["--entries", "100", "--like", profile]).fails(2, &[&["--like"], words].concat());
    }
    for other in ["--zipf", "--absent-ratio=0.2"] {
        let name = other.split('=').next().unwrap();
        readamp(&["--like", "cache", other]).fails(2, &["--like", name]);
    }
}

#[test]
fn a_profile_makes_the_data_and_the_lookups() {
    let (text, json) = both(&["--entries", "5000", "--like", "cache:miss=0.25,key=20,value=30"]);
    let name = "cache:get=0.9,miss=0.25,zipf=1,key=20,value=30";
    assert_eq!(json["data"], format!("generated for {name}"));
    assert_eq!(json["writes_and_space"]["live_bytes"], 5000 * 50);
    assert_eq!(json["lookups_chosen"], format!("gets of {name}; seed 1"));
    assert!(text.contains(&format!("gets of {name}; seed 1")), "{text}");
    let cold = &json["configurations"][0]["cold"];
    let absent = number(&cold["absent"]["lookups"]);
    assert!((680.0..820.0).contains(&absent), "{absent}");
    assert!(number(&json["different_keys"]) < 1800.0, "popular keys repeat");
    assert!(json.get("scans").is_none(), "a cache has no scans");
    let like = ["--entries", "5000", "--like", "mixgraph:miss=0.5,scan=0.83"];
    let (text, json) = both(&like);
    assert_eq!(json["scans"]["scans"], 3000, "as many as gets");
    assert!(text.contains("3,000 scans ("), "{text}");
    assert_eq!(both(&[&like[..], &["--scans", "0"]].concat()).1.get("scans"), None);
}

#[test]
fn keys_to_look_up_are_read_as_csv_where_the_data_is() {
    let place = Place::new();
    let [data, keys] = ["data.csv", "keys.csv"].map(|name| place.path(name).display().to_string());
    std::fs::write(&data, "key,value\na,1\n\"b,\"\"c\",2\nd,3\n").unwrap();
    std::fs::write(&keys, "key\na\n\"b,\"\"c\"\nnone\n").unwrap();
    let args = ["readamp", &data, "--format", "csv", "--lookups", &keys, "--json"];
    let json: Value = serde_json::from_slice(&run(minikv().args(args), b"").ok()).unwrap();
    let cold = &json["configurations"][0]["cold"];
    let looked_up = ["present", "absent"].map(|kind| cold[kind]["lookups"].as_u64());
    assert_eq!((&json["lookups"], looked_up), (&3.into(), [Some(2), Some(1)]));
    std::fs::write(&keys, "a\nb\n").unwrap();
    run(minikv().args(args), b"").fails(2, &["keys.csv line 1", "the header is not key"]);
    std::fs::write(&keys, "key\n").unwrap();
    run(minikv().args(args), b"").fails(2, &["keys.csv", "has no keys"]);
}

#[test]
fn scans_are_printed_as_they_are_exported() {
    let args =
        ["--entries", "22000", "--scans", "500", "--scan-entries", "8", "--scan-prefix", "4"];
    let (text, json) = both(&args);
    let scans = &json["scans"];
    let n = |value: &Value| number(value);
    assert_eq!((&scans["scans"], &scans["prefix"]), (&500.into(), &"minikv.fixed.4".into()));
    let levels = array(&scans["levels"]);
    assert!(levels.len() >= 2, "{scans}");
    let grouped = |n: &Value| match n.as_u64().unwrap() {
        n if n < 1000 => n.to_string(),
        n => format!("{},{:03}", n / 1000, n % 1000),
    };
    let blocks = rows(&text, "Data blocks per scan, and those of tables that gave nothing:");
    let pairs = rows(&text, "Tables in the ranges of scans, and those that gave nothing:");
    for (i, level) in levels.iter().chain([&scans["all"]]).enumerate() {
        let (low, high) = (&level["empty_share_interval_95_percent"][0], 1);
        let high = &level["empty_share_interval_95_percent"][high];
        assert!(n(low) <= n(&level["empty_share"]) && n(&level["empty_share"]) <= n(high));
        assert!((n(&level["empty"]) / n(&level["pairs"]) - n(&level["empty_share"])).abs() < 1e-12);
        let row = &pairs[i + 2];
        assert_eq!(
            row[1..4],
            [
                &grouped(&level["pairs"])[..],
                &format!("{:.3}", n(&level["pairs"]) / 500.0),
                &grouped(&level["empty"]),
            ]
        );
        assert_eq!(*row.last().unwrap(), grouped(&level["empty_saved_by_prefix"]));
        let per_scan = |name: &str| format!("{:.3}", n(&level[name]) / 500.0);
        let row = &blocks[i + 2];
        assert_eq!(
            row[1..5],
            [
                per_scan("data_blocks"),
                per_scan("data_blocks_from_file"),
                per_scan("data_blocks_outside"),
                per_scan("data_blocks_for_nothing"),
            ]
        );
        assert_eq!(*row.last().unwrap(), per_scan("data_blocks_saved_by_prefix"));
        assert_eq!(row[0], level["level"].as_u64().map_or("all".to_string(), |l| format!("L{l}")));
    }
    for name in ["pairs", "empty", "data_blocks", "data_blocks_for_nothing"] {
        assert_eq!(levels.iter().map(|level| n(&level[name])).sum::<f64>(), n(&scans["all"][name]));
    }
    assert!(n(&scans["all"]["empty"]) > 400.0 && n(&scans["all"]["data_blocks_outside"]) > 0.0);
    let ceiling = format!(
        "would save {:.3} of {:.3} data blocks per scan",
        n(&scans["all"]["saved_per_scan"]),
        n(&scans["all"]["data_blocks"]) / 500.0
    );
    let text = text.replace("\n  ", " ");
    assert!(text.contains("a range filter could pay.") && text.contains(&ceiling), "{text}");
    // Keys of 16 hexadecimal digits are read as numbers. Ranges that contain few keys still span
    // many numbers.
    assert!(n(&scans["mean_range"]) > 1e12, "{scans}");
    assert_eq!(array(&scans["grafite"]).len(), 3);
    assert!(text.contains("a Grafite filter errs on at most 100.00 % with 10"), "{text}");
}

#[test]
fn scans_of_a_dense_key_range_want_no_filter() {
    let like = ["--entries", "5000", "--like", "mixgraph", "--scans", "300"];
    let (text, json) = both(&like);
    let all = &json["scans"]["all"];
    assert!(number(&all["empty_share"]) < 0.5, "{all}");
    assert!(json["scans"]["prefix"].is_null() && all["empty_saved_by_prefix"].is_null());
    assert!(text.contains("--scan-prefix") && text.contains("a Grafite filter"), "{text}");
    // With --advise, `readamp` also reports the scans, both in its text and on the page.
    let place = Place::new();
    let page = place.path("page.html").display().to_string();
    let advise = [&like[..], &["--advise", "--filters", "none,block:10", "--html", &page]].concat();
    let (text, json) = both(&advise);
    assert!(text.contains("Tables in the ranges of scans"), "{text}");
    assert_eq!(&json["scans"]["all"], all);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("Data blocks per scan") && html.contains("300 scans ("), "{html}");
}

#[test]
fn options_of_scans_are_checked() {
    readamp(&["--scans", "x"]).fails(2, &["--scans"]);
    readamp(&["--scans", "5", "--scan-entries", "0"]).fails(2, &["--scan-entries"]);
    readamp(&["--scans", "5", "--scan-prefix", "ab"])
        .fails(2, &["--scan-prefix", "byte that ends"]);
    readamp(&["--scans", "5", "--csv"]).fails(2, &["--scans", "--csv"]);
}

/// Returns the page of `readamp` for a list of filters.
fn page_of(place: &Place, filters: &str) -> std::path::PathBuf {
    let page = place.path(&format!("{}.html", filters.replace([':', ',', '/'], "-")));
    let file = page.display().to_string();
    let args = ["readamp", "--entries", "20000", "--lookups", "4000", "--write-buffer", "256KiB"];
    run(minikv().args(args).args(["--filters", filters, "--html", &file]), b"").ok();
    page
}

/// Returns the charts of a page for wide windows.
fn wide_charts(html: &str) -> Vec<&str> {
    let charts = html.split("<div class=\"wide\">").skip(1);
    charts.map(|chart| chart.split("</div>").next().unwrap()).collect()
}

#[test]
fn a_sweep_is_drawn_as_lines_over_bits_from_none_on() {
    let place = Place::new();
    let page = page_of(&place, "block:0..20:2,table:0..20:4,both:8,block:12/8");
    let html = std::fs::read_to_string(page).unwrap();
    let wide = wide_charts(&html);
    let titles: Vec<_> = wide
        .iter()
        .map(|chart| chart.split("<title>").nth(1).unwrap().split('<').next().unwrap())
        .collect();
    let sweep = [
        "Data blocks per get of absent keys against bits per key",
        "Data blocks per get of present keys against bits per key",
        "False-positive rate against bits per key",
        "Time of a get of absent keys against bits per key",
        "Time of a get of present keys against bits per key",
    ];
    assert_eq!(titles[..5], sweep);
    // Only the configuration without bits per key is left for bars.
    assert_eq!(wide.len(), 9, "{titles:?}");
    for (at, chart) in wide[..5].iter().enumerate() {
        let dots = if titles[at].starts_with("False") { 16 } else { 17 };
        assert_eq!(chart.matches("<circle").count(), dots, "{}", titles[at]);
        let count = |class: &str| chart.matches(&format!("class=\"{class}\"")).count();
        let curves = ["predicted bloom", "predicted fuse", "predicted both", "textbook"];
        let of_times = ["bloom", "fuse", "both"];
        let is_time = titles[at].starts_with("Time");
        assert_eq!(curves.map(count), [usize::from(!is_time); 4], "{}", titles[at]);
        assert_eq!(of_times.map(count), [usize::from(is_time); 3], "{}", titles[at]);
        assert!(!chart.contains("<rect"), "no bars");
    }
    for chart in &wide[5..] {
        assert!(chart.contains("block:12/8") && !chart.contains("block:10"), "{chart}");
    }
}

#[test]
fn the_predicted_blocks_of_a_sweep_are_near_to_the_counted_ones() {
    let place = Place::new();
    let html = std::fs::read_to_string(page_of(&place, "block:0..8:2")).unwrap();
    let chart = wide_charts(&html)[0];
    assert!(chart.contains("<title>Data blocks per get of absent keys"), "{chart}");
    let mut compared = 0;
    for tooltip in chart.split("<title>block:").skip(1) {
        let (_, figures) = tooltip.split_once(": ").unwrap();
        let (counted, predicted) = figures.split('<').next().unwrap().split_once(", ").unwrap();
        let predicted = predicted.strip_prefix("predicted ").unwrap();
        let [counted, predicted] = [counted, predicted].map(|n| n.parse::<f64>().unwrap());
        assert!((0.8..1.25).contains(&(counted / predicted)), "{tooltip}");
        compared += 1;
    }
    assert_eq!(compared, 4);
}

/// Returns the pairs of labels on the page that overlap, and the labels that leave their chart.
const COLLISIONS: &str = "[...document.querySelectorAll('svg')].flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) return [];
    const labels = [...svg.querySelectorAll('text')].map((text) =>
        [text.textContent, text.getBoundingClientRect()]);
    const out = labels.filter(([, at]) => at.left < frame.left - 1 || at.right > frame.right + 1);
    const pairs = labels.flatMap((a, i) => labels.slice(i + 1).filter(([, at]) =>
        at.left < a[1].right && a[1].left < at.right && at.top < a[1].bottom - 1
        && a[1].top < at.bottom - 1).map((b) => `${a[0]} | ${b[0]}`));
    return [...pairs, ...out.map(([text]) => `${text} leaves the chart`)];
})";

#[test]
fn no_label_of_a_chart_collides_with_another() {
    let place = Place::new();
    let Some(mut browser) = Browser::start(&place.path("profile")) else { return };
    for filters in ["none,block:10,table:10", "none,block:0..24:2,table:0..24:2"] {
        let page = page_of(&place, filters);
        for width in [360, 400, 700, 1000] {
            browser.show(width, 800, false);
            browser.open(&page, "");
            assert_eq!(browser.value(COLLISIONS), serde_json::json!([]), "{filters} at {width}");
        }
    }
    assert_eq!(browser.said, [""; 0], "on the console");
}
