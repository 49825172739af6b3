//! Tests of the page of `trace` and `demo --html`: its data matches the run, and a browser shows
//! it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Browser;
use crate::{Place, minikv, run};

/// Returns the data of a page.
fn data(page: &Path) -> Value {
    let html = fs::read_to_string(page).unwrap();
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains(" src="));
    assert_eq!(html.matches("<script").count(), 2, "the data and the script");
    assert_eq!(html.matches("</script").count(), 2);
    let (_, data) = html.split_once("id=\"data\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], |list| list)
}

/// Sums over the steps of a run.
#[derive(Default)]
struct Sums {
    tables: BTreeMap<u64, u64>,
    /// Counters by name. The name of a counter of a level begins with the level, as in `1 moves`.
    /// The name of a counter of stalls begins with the cause of the stalls.
    counters: BTreeMap<String, u64>,
    gets: u64,
}

impl Sums {
    fn count(&mut self, name: impl ToString, by: u64) {
        *self.counters.entry(name.to_string()).or_default() += by;
    }

    fn of(run: &Value) -> Sums {
        let mut sums = Sums::default();
        let pair = |pair: &Value| (number(&pair[0]), number(&pair[1]));
        let bytes = |tables: &Value| -> u64 {
            let numbers = list(tables).iter().map(|table| table[0].to_string());
            numbers.map(|table| number(&run["tables"][table]["bytes"])).sum()
        };
        let mut micros = 0;
        for step in list(&run["steps"]) {
            let us = number(&step["us"]);
            let kind = step["t"].as_str().unwrap();
            assert!(us >= micros || kind == "get", "{step} comes after {micros}");
            micros = micros.max(us);
            if step["gave_up"] == true {
                continue; // when the database was closed
            }
            assert!(step["error"].is_null(), "{step}");
            for table in list(&step["in"]).iter().filter(|_| kind != "compact") {
                let (table, level) = pair(table);
                assert_eq!(sums.tables.remove(&table), Some(level), "{step}");
            }
            for table in list(&step["add"]) {
                let (table, level) = pair(table);
                assert_eq!(sums.tables.insert(table, level), None, "{step}");
            }
            match kind {
                "flushed" => {
                    sums.count("flushes", 1);
                    sums.count("flush_bytes", bytes(&step["add"]));
                    sums.count("flush_micros", number(&step["took"]));
                }
                "compacted" if step["kind"] == "move" => {
                    let moved = list(&step["add"]).len() as u64;
                    sums.count(format!("{} moves", step["to"]), moved);
                }
                "compacted" => {
                    let mut count =
                        |name: &str, by| sums.count(format!("{} {name}", step["to"]), by);
                    count("compactions", 1);
                    count("bytes_read", bytes(&step["in"]));
                    count("bytes_written", bytes(&step["add"]));
                    count("entries_dropped", number(&step["dropped"]));
                    count("micros", number(&step["took"]));
                }
                "stalled" => {
                    let why = step["why"].as_str().unwrap();
                    sums.count(format!("{why} stalls"), 1);
                    sums.count(format!("{why} micros"), number(&step["took"]));
                }
                "get" => {
                    sums.gets += 1;
                    sums.count("found", u64::from(step["found"] == true));
                    let (cache, file) = pair(&step["without"]);
                    sums.count("from cache", number(&step["cache"]) + cache);
                    sums.count("from files", number(&step["file"]) + file);
                    for part in list(&step["path"]).iter().filter(|part| part[0] == "table") {
                        let level = sums.tables.get(&number(&part[1]));
                        assert_eq!(level, Some(&number(&part[2])), "{step}: {part} was not there");
                    }
                }
                _ => {}
            }
        }
        sums
    }

    /// Checks that the sums equal the counters of the database.
    #[track_caller]
    fn are_those_of(&self, stats: &Value) {
        let ours = |name: &str| self.counters.get(name).copied().unwrap_or(0);
        for name in ["flushes", "flush_bytes", "flush_micros"] {
            assert_eq!(ours(name), number(&stats[name]), "{name}");
        }
        for why in ["flush", "level0", "slowdown"] {
            assert_eq!(ours(&format!("{why} stalls")), number(&stats["stalls"][why][0]), "{why}");
            assert_eq!(ours(&format!("{why} micros")), number(&stats["stalls"][why][1]), "{why}");
        }
        for (level, counters) in list(&stats["levels"]).iter().enumerate() {
            for name in
                ["compactions", "moves", "bytes_read", "bytes_written", "entries_dropped", "micros"]
            {
                let sum = ours(&format!("{level} {name}"));
                assert_eq!(sum, number(&counters[name]), "{name} of level {level}");
            }
            let tables = self.tables.values().filter(|&&at| at == level as u64).count();
            assert_eq!(tables as u64, number(&counters["files"]), "level {level}");
        }
    }
}

/// Writes a file of operations that make more than ten thousand events if write buffers are small,
/// also where a disk is so fast that fewer writes wait.
/// Some keys contain text that would end a script element if it were not escaped.
fn write_many(file: &Path) {
    let mut text = String::new();
    for i in 0..5200u32 {
        let key = match i % 4 {
            0 => "</script><script>throw 1</script>",
            1 => "<!--",
            2 => "\\x00\\xff\"'&",
            _ => "plain",
        };
        let place = u64::from(i) * 7919 % 5200;
        text.push_str(&format!("put\t{place:05}{key}\t{}\n", "v".repeat(1200)));
        if i % 3 == 0 {
            text.push_str(&format!("delete\t{:05}plain\n", (place + 17) % 5200));
        }
        text.push_str("commit\n");
    }
    fs::write(file, text).unwrap();
}

#[test]
fn a_page_of_ten_thousand_events_has_the_counters_of_the_run_and_plays_to_the_end() {
    let place = Place::new();
    let (page, file) = (place.path("page.html"), place.path("operations"));
    write_many(&file);
    let words = ["trace", "--html"].map(str::to_string).into_iter();
    let words = words.chain([page.display().to_string()]);
    let batch = ["--", "batch", "--write-buffer", "4KiB"].map(str::to_string);
    let words: Vec<String> = words.chain(batch).chain([file.display().to_string()]).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = place.run(&words);
    assert!(ran.stderr.contains("wrote "), "{}", ran.stderr);
    ran.ok();

    let data = data(&page);
    let [run] = list(&data["runs"]) else { panic!("one database was opened") };
    let steps = list(&run["steps"]);
    assert!(steps.len() > 10_000, "{}", steps.len());
    let sums = Sums::of(run);
    sums.are_those_of(&run["stats"]);
    assert!(sums.gets > 100 && run["replay"] == true, "{} lookups", sums.gets);
    // The page shows the tables listed in the MANIFEST.
    let stats: Value = serde_json::from_str(&place.text(&["stats", "--json"])).unwrap();
    let tables: BTreeMap<u64, u64> = list(&stats["tables"])
        .iter()
        .map(|table| (number(&table["number"]), number(&table["level"])))
        .collect();
    assert_eq!(sums.tables, tables);
    for table in list(&stats["tables"]) {
        let shown = &run["tables"][table["number"].to_string()];
        assert_eq!((&shown["bytes"], &shown["filter"]), (&table["bytes"], &Value::from("block")));
        assert!(number(&shown["tombstones"]) <= number(&shown["entries"]));
    }

    let Some(mut browser) = Browser::start(&place.path("profile")) else { return };
    browser.open(&page, "");
    browser.value(GAPS);
    browser.value("document.getElementById('speed').value = 'fast'");
    browser.press(" ");
    browser.until("document.body.dataset.played === 'end'");
    let gaps = browser.value(
        "gaps.sort((a, b) => a - b) && [gaps.length >> 1, gaps.length - 1]\
         .map((at) => gaps[at])",
    );
    println!("{} steps; median and longest time between frames, ms: {gaps}", steps.len());
    assert_eq!(browser.value("Number(document.body.dataset.step)"), steps.len());
    assert_eq!(browser.said, [""; 0], "on the console");
    assert!(browser.text("check").contains("counters that the database itself had"));
    for (level, counters) in list(&run["stats"]["levels"]).iter().enumerate() {
        let row = format!(
            "[...[...document.querySelectorAll('#levels tbody tr')].find((row) => \
                row.innerText.startsWith('L{level}'))?.querySelectorAll('data') ?? []]\
                .map((data) => data.value)"
        );
        let row = browser.value(&row);
        let names = ["files", "bytes", "compactions", "moves", "bytes_read", "bytes_written"];
        for (at, name) in names.iter().enumerate() {
            let shown = row[at + 1].as_str().map_or(0, |value| value.parse().unwrap());
            assert_eq!(shown, number(&counters[name]), "{name} of level {level}: {row}");
        }
    }
    // The page can draw steps forwards and backwards.
    for key in ["Home", "ArrowRight", "ArrowRight", "ArrowLeft", "PageDown", "End", "PageUp"] {
        browser.press(key);
    }
    browser.until("Number(document.body.dataset.step) > 10000");
    assert_eq!(browser.said, [""; 0], "on the console");

    // To show that the page's check of the counters can fail, change one counter.
    let html = fs::read_to_string(&page).unwrap();
    let right = format!("\"flushes\":{}", run["stats"]["flushes"]);
    assert!(html.contains(&right));
    fs::write(&page, html.replace(&right, "\"flushes\":1")).unwrap();
    browser.open(&page, "#step=100000");
    browser.until("document.getElementById('check').innerText !== ''");
    assert!(browser.text("check").contains("Not the database's own counters: flushes: "));
}

/// Script that records the times between frames.
const GAPS: &str = "globalThis.gaps = []; globalThis.before = performance.now();
    (function next() {
        const now = performance.now();
        gaps.push(now - before);
        before = now;
        requestAnimationFrame(next);
    })(); 0";

#[test]
fn demo_makes_a_page_of_the_words() {
    let place = Place::new();
    let page = place.path("page.html");
    run(minikv().args(["demo", "--html"]).arg(&page), b"").ok();
    let data = data(&page);
    let [run] = list(&data["runs"]) else { panic!("one database is shown") };
    let sums = Sums::of(run);
    sums.are_those_of(&run["stats"]);
    let counted = |name: &str| sums.counters[name];
    let reads = &run["stats"]["reads"];
    assert_eq!(2 * sums.gets, number(&run["stats"]["gets"]));
    assert_eq!(2 * counted("found"), number(&run["stats"]["gets_found"]));
    assert_eq!(counted("from cache"), number(&reads["data_blocks_from_cache"]));
    assert_eq!(counted("from files"), number(&reads["data_blocks_from_file"]));
    assert!(list(&run["stats"]["levels"])[2]["files"] != 0, "the words reach level 2");

    let Some(mut browser) = Browser::start(&place.path("profile")) else { return };
    browser.open(&page, "#key=filtre");
    browser.until("document.body.dataset.step !== '1'");
    let path = browser.text("path");
    assert!(path.contains("Get of filtre: not found"), "{path}");
    assert!(path.contains("Level 0: table ") && path.contains("Level 1: table "), "{path}");
    browser.open(&page, "#key=<b>no such</b>");
    browser.until("document.getElementById('path').innerText.includes('no such')");
    let path = browser.text("path");
    assert!(path.contains("No lookup of <b>no such</b> was recorded."), "{path}");
    // The page fits each width, in both colour schemes.
    for (width, dark) in [(400, false), (400, true), (1400, true), (2000, false)] {
        browser.show(width, 1000, dark);
        browser.open(&page, "#step=300");
        browser.until("document.body.dataset.step === '300'");
        let wide = browser.value("document.documentElement.scrollWidth");
        assert!(number(&wide) <= width, "{wide} wide in {width}");
        let drawn = "document.getElementById('stage').width === \
                     document.getElementById('stage').clientWidth";
        assert_eq!(browser.value(drawn), true, "at {width}");
    }
    // The page can be used with the keyboard alone.
    browser.press("ArrowRight");
    browser.until("document.body.dataset.step === '301'");
    browser.press("Home");
    browser.until("document.body.dataset.step === '1'");
    browser.press(" ");
    browser.until("Number(document.body.dataset.step) > 10");
    browser.press(" ");
    browser.press("/");
    browser.until("document.activeElement.id === 'key'");
    assert_eq!(browser.said, [""; 0], "on the console");
    begins_where_there_is_something_to_see(&mut browser, &page, run);
    follows_its_address(&mut browser, &page, list(&run["steps"]).len());
    says_that_no_lookup_follows(&mut browser);
    shows_that_a_table_goes_on(&mut browser);
    works_without_room(&mut browser);
    assert_eq!(browser.said, [""; 0], "on the console");
}

/// Checks that the page opens at a lookup in several tables, but plays from the first step.
fn begins_where_there_is_something_to_see(browser: &mut Browser, page: &Path, run: &Value) {
    browser.open(page, "");
    let shown = number(&browser.value("Number(document.body.dataset.step)")) as usize;
    let step = &run["steps"][shown - 1];
    let filters = list(&step["path"]).iter().filter(|part| part[0] == "filter").count();
    assert!(step["t"] == "get" && step["found"] == false && filters > 1, "{shown}: {step}");
    assert!(browser.text("clock").starts_with(&format!("step {shown} of ")));
    browser.press(" ");
    browser.until(&format!("Number(document.body.dataset.step) < {shown}"));
    browser.press(" ");
}

/// Checks that `#step=12` opens step 12 as shown, and that another hash moves the open page.
fn follows_its_address(browser: &mut Browser, page: &Path, steps: usize) {
    browser.open(page, "#step=12");
    browser.until("document.body.dataset.step === '12'");
    assert!(browser.text("clock").starts_with("step 12 of "), "{}", browser.text("clock"));
    assert_eq!(browser.value("document.getElementById('seek').value"), "12");
    browser.value("location.hash = '#step=20'");
    browser.until("document.body.dataset.step === '20'");
    browser.value("location.hash = '#key=filtre'");
    browser.until("document.getElementById('path').innerText.includes('Get of filtre')");
    browser.value("location.hash = '#step=0'");
    browser.until("document.body.dataset.step === '1'");
    browser.value("location.hash = '#key=100%'");
    browser.until("document.getElementById('path').innerText.includes('No lookup of 100%')");
    browser.value("location.hash = '#step=99999999'");
    browser.until(&format!("document.body.dataset.step === '{steps}'"));
}

/// Checks that the buttons at the last step say that nothing further follows.
fn says_that_no_lookup_follows(browser: &mut Browser) {
    browser.press("End");
    browser.value("document.getElementById('next-bad').click()");
    browser.until("document.getElementById('hint').innerText.includes('no later false positive')");
    browser.press("Home");
    browser.until("document.getElementById('hint').innerText === ''");
    browser.value("document.getElementById('prev-get').click()");
    browser.until("document.getElementById('hint').innerText.includes('no earlier lookup')");
}

/// Checks that the table of counters fits, or shows that it goes on to the right.
fn shows_that_a_table_goes_on(browser: &mut Browser) {
    for width in [360, 500, 704, 1056, 1152, 1320, 1600] {
        browser.show(width, 1000, false);
        let state = "document.querySelector('#levels').parentElement";
        let drawn = "document.getElementById('stage').width === \
                     document.getElementById('stage').clientWidth";
        browser.until(drawn);
        let cut = browser.value(&format!("{state}.scrollWidth > {state}.clientWidth + 1"));
        browser.until(&format!("{state}.classList.contains('more') === {cut}"));
        assert!(width < 704 || cut == false, "the counters are cut off at {width}");
        browser.value(&format!("{state}.scrollLeft = 10000"));
        browser.until(&format!("!{state}.classList.contains('more')"));
        browser.value(&format!("{state}.scrollLeft = 0"));
    }
}

/// Checks that the page has no uncaught error while it is hidden, and is drawn again afterwards.
fn works_without_room(browser: &mut Browser) {
    browser.value("document.querySelector('main').style.display = 'none'");
    browser.value("window.dispatchEvent(new Event('resize'))");
    browser.press("End");
    browser.press("ArrowLeft");
    browser.until("document.getElementById('stage').width === 0");
    browser.value("document.querySelector('main').style.display = ''");
    browser.value("window.dispatchEvent(new Event('resize'))");
    browser.until("document.getElementById('line').width > 300");
}

#[test]
fn trace_runs_the_commands_it_is_given() {
    let place = Place::new();
    let page = place.path("page.html").display().to_string();
    place.feed(&["trace", "--html", &page, "--", "load"], b"a\t1\nb\t2\n").ok();
    assert_eq!(place.text(&["get", "a"]), "1", "in the database that trace was given");
    let loaded = data(Path::new(&page));
    assert_eq!(Sums::of(&loaded["runs"][0]).gets, 4, "two keys, and one after each");

    // `trace` repeats some of the lookups of `bench`.
    let words = ["trace", "--html", &page, "--lookups", "50", "--"];
    let bench = ["bench", "readrandom", "--entries", "5000", "--json"];
    run(minikv().args(words).args(bench), b"").ok();
    let read = data(Path::new(&page));
    let runs = list(&read["runs"]);
    assert!(runs.iter().any(|run| Sums::of(run).gets == 50), "of {} databases", runs.len());
    runs.iter().for_each(|run| Sums::of(run).are_those_of(&run["stats"]));

    place.run(&["trace", "--html", &page, "--", "trace"]).fails(2, &["required"]);
    place.run(&["trace", "--html", &page, "--", "get", "a"]).fails(2, &["nothing to show"]);
    place.run(&["trace", "--html", "/no/such/page", "--", "load"]).fails(5, &["/no/such/page"]);
    place.run(&["trace", "--html", &page, "--", "nosuch"]).fails(2, &["nosuch"]);
}

#[test]
fn each_trace_in_a_shell_shows_only_the_databases_of_its_command() {
    let place = Place::new();
    let pages = ["a.html", "b.html", "c.html"].map(|name| place.path(name));
    let [a, b, c] = pages.each_ref().map(|page| page.display());
    let lines = format!(
        "trace --html '{a}' -- put a 1\nput b 2\ntrace --html '{b}' -- put c 3\n\
         trace --html '{c}' -- scan\n"
    );
    let ran = place.feed(&["shell"], lines.as_bytes());
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("stdin line 4: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing to show"), "{}", ran.stderr);
    for page in &pages[..2] {
        assert_eq!(list(&data(page)["runs"]).len(), 1, "{}", page.display());
    }
    assert!(!pages[2].exists());
    assert_eq!(place.text(&["scan"]), "a\t1\nb\t2\nc\t3\n");
}
