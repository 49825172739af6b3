//! Tests of `tree` and `top`, on a terminal and in a pipe, for databases of several LevelDB
//! programs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Interrupt, Place, contents, interrupt, minikv, run, run_on_terminal};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// Adds the directories of databases under `dir` to `found`.
fn databases(dir: &Path, found: &mut Vec<PathBuf>) {
    if dir.join("CURRENT").is_file() {
        found.push(dir.to_path_buf());
    }
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            databases(&path, found);
        }
    }
}

fn text(command: &mut Command) -> String {
    String::from_utf8(run(command, b"").ok()).unwrap()
}

#[test]
fn tree_shows_the_tables_of_databases_of_other_programs_and_changes_nothing() {
    let mut found = Vec::new();
    databases(&fixture(""), &mut found);
    let mut shown = 0;
    for dir in found {
        let stats = run(minikv().args(["stats", "--json", "--db"]).arg(&dir), b"");
        if stats.code != Some(0) {
            continue; // a broken one
        }
        let stats: Value = serde_json::from_slice(&stats.stdout).unwrap();
        let before = contents(&dir);
        let plain = text(minikv().arg("tree").arg(&dir));
        let drawn = text(minikv().args(["tree", "--width", "100"]).arg(&dir));
        assert!(before == contents(&dir), "{} has changed", dir.display());
        let lines = plain.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let (logs, tables): (Vec<_>, Vec<_>) = lines.partition(|line| line[0] == "log");
        let listed: Vec<_> = stats["tables"].as_array().unwrap().iter().collect();
        assert_eq!((tables.len(), logs.len() as u64), (listed.len(), files(&stats["logs"])));
        for table in &listed {
            let part = |name: &str| table[name].to_string();
            let parts = [part("level"), part("number"), part("bytes")];
            assert!(tables.iter().any(|line| line[..3] == parts), "{table} in {plain}");
        }
        for level in stats["levels"].as_array().unwrap().iter().filter(|level| files(level) > 0) {
            let name = format!("L{}  ", level["level"]);
            assert!(drawn.contains(&name), "{name} in {drawn}");
        }
        assert!(drawn.lines().all(|line| line.chars().count() <= 100), "{drawn}");
        assert!(listed.is_empty() || drawn.contains('█'));
        shown += 1;
    }
    assert!(shown > 5, "only {shown} databases of other programs");
}

fn files(of: &Value) -> u64 {
    of["files"].as_u64().unwrap()
}

#[test]
fn tree_draws_overlapping_tables_below_each_other_and_the_rest_in_a_row() {
    let place = Place::new();
    for (number, keys) in [("a", "z"), ("b", "m")].iter().enumerate() {
        let lines = format!("{}\t{number}\n{}\t{number}\n", keys.0, keys.1);
        place.feed(&["load"], lines.as_bytes()).ok();
    }
    let drawn = place.text(&["tree", "--width", "60"]);
    let lines: Vec<&str> = drawn.lines().collect();
    let level0: Vec<_> = lines.iter().filter(|line| line.starts_with("L0 ")).collect();
    let width = |line: &str| line.matches('█').count();
    let [newer, older] = level0[..] else { panic!("{drawn}") };
    assert!(width(newer) < width(older) && width(older) > 20, "{drawn}");
    assert!(lines.last().unwrap().starts_with("keys") && drawn.ends_with("z\n"), "{drawn}");
    place.ok(&["compact"]);
    let drawn = place.text(&["tree", "--width", "60"]);
    assert!(drawn.contains("L1    1 table") && !drawn.contains("L0"), "{drawn}");
    assert_eq!(place.text(&["tree", "--plain"]).lines().next().unwrap().matches('\t').count(), 4);

    let (code, shown) = run_on_terminal(&mut place.command(&["tree"]), "");
    assert!(code == Some(0) && shown.contains('█'), "{shown}");
    run(minikv().args(["tree", "/no/such"]), b"").fails(5, &["/no/such"]);
    place.run(&["tree", "--width", "3"]).fails(2, &["--width"]);
}

#[test]
fn top_follows_a_writer() {
    let place = Place::new();
    let mut writer = place.hold();
    let mut top = place
        .command(&["top", "--interval", "20", "--plain"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut next = || -> Vec<String> {
        lines.next().unwrap().unwrap().split('\t').map(str::to_owned).collect()
    };
    let names = next();
    assert_eq!(
        (names.len(), &names[..2]),
        (19, &["seconds".to_owned(), "sequence".to_owned()][..])
    );
    let (first, value) = (next(), |line: &[String], at: usize| line[at].parse::<u64>().unwrap());
    assert_eq!((first.len(), value(&first, 1)), (19, 1), "the entry that the writer began with");
    let pipe = writer.stdin.as_mut().unwrap();
    let big = "v".repeat(100_000);
    for i in 0..100 {
        writeln!(pipe, "put\tkey{i}\t{big}\ncommit").unwrap();
    }
    pipe.flush().unwrap();
    let (mut rate, mut log) = (0, 0);
    let last = loop {
        let line = next();
        (rate, log) = (rate.max(value(&line, 2)), log.max(value(&line, 3)));
        if value(&line, 1) == 101 && value(&line, 5) + value(&line, 7) > 0 {
            break line;
        }
    };
    assert!(rate > 0 && log > 1_000_000, "{rate} writes per second, {log} bytes of logs");
    assert!(value(&last, 6) + value(&last, 8) > 0, "{last:?}");
    interrupt(&top, Interrupt::ByUser).unwrap();
    let out = top.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.starts_with("minikv: interrupted after "), "{said}");
    drop(writer.stdin.take());
    writer.wait().unwrap();
}

#[test]
fn top_on_a_terminal_begins_at_its_first_line_each_time() {
    let place = Place::new();
    place.feed(&["load"], b"a\t1\n").ok();
    let mut command = place.command(&["top", "--count", "2", "--interval", "1"]);
    let (code, shown) = run_on_terminal(&mut command, "");
    assert_eq!(code, Some(0));
    assert_eq!(shown.matches("\x1b[H").count(), 2, "{shown:?}");
    assert!(shown.contains("no writer") && shown.contains("L0"), "{shown:?}");
    let lines = place.text(&["top", "--count", "3", "--interval", "1"]);
    assert_eq!(lines.lines().count(), 4, "{lines}");
    place.run(&["top", "--count", "0"]).fails(2, &["--count"]);
    run(minikv().args(["top", "/no/such"]), b"").fails(5, &["/no/such"]);
}

/// Serves `body` over HTTP on a local port, one request after the other. Returns the address.
fn serve(status: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap()).lines();
            while request.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn top_shows_the_metrics_that_the_writer_exports() {
    let place = Place::new();
    place.feed(&["load"], b"a\t1\n").ok();
    let exported = place.text(&["stats", "--prometheus"]);
    let file = place.path("metrics");
    fs::write(&file, &exported).unwrap();
    let file = file.to_str().unwrap();
    let url = serve("200 OK", exported.clone());
    for source in [file, &url] {
        let lines = place.text(&["top", "--count", "2", "--interval", "1", "--metrics", source]);
        let rows: Vec<Vec<&str>> = lines.lines().map(|line| line.split('\t').collect()).collect();
        let samples = exported.lines().filter(|line| line.starts_with("minikv_")).count();
        assert_eq!((rows.len(), rows[0].len()), (3, 19 + samples), "{lines}");
        for row in &rows[1..] {
            assert_eq!(row.len(), rows[0].len());
            let at = rows[0].iter().position(|name| *name == "level_tables{level=\"0\"}");
            assert_eq!(row[at.unwrap()], "1", "{lines}");
        }
    }
    let mut command = place.command(&["top", "--count", "1", "--metrics", file]);
    let (code, shown) = run_on_terminal(&mut command, "");
    assert!(code == Some(0) && shown.contains("0 per second, 0 % found"), "{shown:?}");
    let missing = serve("404 Not Found", String::new());
    place.run(&["top", "--metrics", &missing]).fails(5, &[&missing, "404"]);
    place.run(&["top", "--metrics", "/no/such"]).fails(5, &["/no/such"]);
    place.run(&["top", "--metrics", file, "--label", "x"]).fails(2, &["NAME=VALUE"]);
    fs::write(file, format!("{exported}{}", exported.replace("db=", "other="))).unwrap();
    place.run(&["top", "--metrics", file]).fails(2, &["several databases", "--label"]);
}

/// Checks that `top` continues without metrics after the writer that exports them has ended.
#[test]
fn top_goes_on_without_metrics_that_have_gone() {
    let place = Place::new();
    place.feed(&["load"], b"a\t1\n").ok();
    let file = place.path("metrics");
    fs::write(&file, "minikv_gets_total 5\n").unwrap();
    let mut top = place
        .command(&["top", "--interval", "20", "--count", "500", "--metrics"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().ends_with("\tgets_total"));
    assert!(lines.next().unwrap().ends_with("\t5"));
    fs::remove_file(&file).unwrap();
    assert!(lines.any(|line| line.ends_with("\t-")));
    top.kill().unwrap();
    top.wait().unwrap();
}
