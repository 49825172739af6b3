//! Checks the documentation against the code: hex dumps, figures, names and links.

mod figures;
mod names;
mod pictures;
mod public;
mod tour;
mod walks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use minikv::filter::math::{best_probes, false_positive_probability};
use minikv::{BloomFilterPolicy, Compression, Db, Options, WriteBatch};

/// Returns the pages of the project: those in the top folder, in `docs/` and in the packages.
fn pages() -> Vec<String> {
    let folders =
        [".", "docs", "docs/history", "adapters", "benches", "tests"].map(|name| root().join(name));
    let mut pages = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            pages.extend(path.extension().is_some_and(|of| of == "md").then(|| path.clone()));
            pages.extend(Some(path.join("README.md")).filter(|readme| readme.exists()));
        }
    }
    let name = |path: PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let mut pages: Vec<String> = pages.into_iter().map(name).collect();
    pages.sort();
    pages.dedup();
    pages
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the bytes of each fenced block that is marked `hex NAME`, keyed by name. Each line of a
/// block consists of bytes, optionally followed by two spaces and a note.
fn hex_dumps(markdown: &str) -> BTreeMap<&str, Vec<u8>> {
    let mut dumps = BTreeMap::new();
    for block in markdown.split("```hex ").skip(1) {
        let (name, rest) = block.split_once('\n').expect("a name, then lines");
        let (lines, _) = rest.split_once("```").expect("an end");
        let bytes = lines
            .lines()
            .filter_map(|line| line.split("  ").next())
            .flat_map(str::split_whitespace)
            .map(|byte| u8::from_str_radix(byte, 16).unwrap_or_else(|_| panic!("{name}: {byte}")));
        dumps.insert(name, bytes.collect());
    }
    dumps
}

#[test]
fn the_dumps_are_the_files_of_the_example() {
    let home = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read(home.path().join(name)).unwrap();
    let options = Options::default().create_if_missing(true).compression(Compression::None);
    let db = Db::open(home.path(), options).unwrap();
    db.put("apple", "red").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("banana", "yellow");
    batch.delete("cherry");
    db.write(batch).unwrap();
    let wal = read("000002.log");
    db.flush().unwrap();
    db.close().unwrap();

    let page = page("docs/format.md");
    let dumps = hex_dumps(&page);
    assert_eq!(dumps.len(), 4);
    for (name, dump) in dumps {
        let file = if name == "000002.log" { wal.clone() } else { read(name) };
        assert_eq!(dump, file, "{name}");
    }
}

#[test]
fn the_filter_block_of_the_example_is_that_of_the_builder() {
    let mut builder =
        minikv::internals::filter::FilterBlockBuilder::new(&BloomFilterPolicy::new(10));
    builder.start_block(0);
    builder.add_key(b"first");
    builder.start_block(4 << 10);
    builder.add_key(b"second");
    builder.start_block(11 << 10);
    let page = page("docs/filters.md");
    assert_eq!(hex_dumps(&page)["two blocks"], builder.finish());
}

/// Returns those rows of Markdown tables that begin with a number, each as a list of cells.
fn rows(markdown: &str) -> impl Iterator<Item = Vec<&str>> {
    markdown.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.trim_end_matches('|').split('|').collect();
        let cells: Vec<&str> = cells.into_iter().map(str::trim).collect();
        cells[0].parse::<u32>().ok().map(|_| cells)
    })
}

#[test]
fn the_predicted_rates_are_those_of_the_formula() {
    let page = page("docs/filters.md");
    let mut seen = BTreeSet::new();
    for cells in rows(&page).filter(|cells| cells.len() == 7) {
        let bits_per_key: u32 = cells[0].parse().unwrap();
        let policy = BloomFilterPolicy::new(bits_per_key);
        let (bits, best) =
            (policy.filter_bits(10_000), best_probes(policy.filter_bits(10_000), 10_000));
        let percent = |k| format!("{:.3} %", 100.0 * false_positive_probability(bits, 10_000, k));
        assert_eq!(cells[1], policy.probes().to_string(), "{bits_per_key} bits");
        assert_eq!(cells[2], percent(policy.probes()), "{bits_per_key} bits");
        assert_eq!(cells[3], best.to_string(), "{bits_per_key} bits");
        assert_eq!(cells[4], percent(best), "{bits_per_key} bits");
        seen.insert(bits_per_key);
    }
    assert_eq!(seen, [2, 3, 4, 6, 8, 9, 10, 12, 16, 20].into());
}

/// Returns the targets of Markdown links, each as a path and the anchor after its `#`.
fn links(markdown: &str) -> impl Iterator<Item = (&str, &str)> {
    let targets = markdown.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(|target| target.split_once('#').unwrap_or((target, "")))
}

/// Returns the anchors of a page's headings, as GitHub makes them.
fn anchors(markdown: &str) -> BTreeSet<String> {
    let outside_fences = markdown.split("```").step_by(2);
    let headings = outside_fences.flat_map(str::lines).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        text.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    for name in &pages() {
        let dir = root().join(name).parent().unwrap().to_path_buf();
        let page = page(name);
        for (target, anchor) in links(&page).filter(|(target, _)| !target.contains("://")) {
            let path = if target.is_empty() { root().join(name) } else { dir.join(target) };
            assert!(path.exists(), "{name} links to {target}");
            if !anchor.is_empty() && (target.is_empty() || target.ends_with(".md")) {
                let there = anchors(&fs::read_to_string(path).unwrap());
                assert!(there.contains(anchor), "{name} links to {target}#{anchor}: {there:?}");
            }
        }
    }
}

/// Most words, as `wc -w` counts them, of all pages below docs/. A new passage takes the place of
/// an old one.
const MAX_WORDS: usize = 28_000;

/// Prints the words of each page, and checks their sum.
#[test]
fn the_pages_have_a_limit_of_words() {
    let mut folders = vec![root().join("docs")];
    let mut counts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|of| of == "md") {
                let words = fs::read_to_string(&path).unwrap().split_whitespace().count();
                counts.push((words, path.strip_prefix(root()).unwrap().to_path_buf()));
            }
        }
    }
    counts.sort();
    counts.iter().for_each(|(words, path)| println!("{words:6} {}", path.display()));
    let all: usize = counts.iter().map(|(words, _)| words).sum();
    println!("{all:6} in {} pages", counts.len());
    assert!(counts.len() >= 20 && all <= MAX_WORDS, "{all} words in {} pages", counts.len());
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the inline code spans of a page, without the contents of fenced blocks.
fn code_spans(markdown: &str) -> Vec<&str> {
    let outside_fences = markdown.split("```").step_by(2);
    outside_fences.flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
}

/// Functions of other libraries that the pages name, because the benchmark `peers` calls them.
const FOREIGN_NAMES: [&str; 3] = ["flush_wal(true)", "persist(SyncData)", "Durability::None"];

/// Packages whose pages name functions in a language other than Rust.
const OTHER_LANGUAGES: [&str; 2] = ["adapters/node/", "adapters/python/"];

/// Checks that names on the pages exist in the code: `Type::method`, `module::function`,
/// `function()`, `file.rs`. Names from LevelDB's code are not checked; the page gives the LevelDB
/// source file for each of them.
#[test]
fn names_of_the_code_are_in_the_code() {
    let mut files = Vec::new();
    for dir in ["src", "instrument", "bin/src", "tests", "benches", "examples", "adapters"] {
        rust_files(&root().join(dir), &mut files);
    }
    let known = names::Names::of(&files);
    let mut checked = 0;
    let mut unknown = Vec::new();
    for name in &pages() {
        let own = OTHER_LANGUAGES.iter().any(|package| name.starts_with(package));
        let dir = root().join(name).parent().unwrap().to_path_buf();
        let page = page(name);
        for span in code_spans(&page) {
            if FOREIGN_NAMES.contains(&span) || own && span.contains('(') {
                continue;
            }
            if span.ends_with(".rs") && !span.contains(' ') {
                let there = root().join(span).exists() || dir.join(span).exists();
                let there = there || files.iter().any(|path| path.ends_with(span));
                if !there {
                    unknown.push(format!("{name}: {span}"));
                }
            } else if let Some(path) = names::path_of(span) {
                if !known.contain(&path) {
                    unknown.push(format!("{name}: {span}"));
                }
            } else {
                continue;
            }
            checked += 1;
        }
    }
    assert!(unknown.is_empty(), "not in the code: {unknown:#?}");
    assert!(checked > 500, "only {checked} names were found");
}

#[test]
fn a_method_of_another_type_is_not_in_the_code() {
    let source = [
        "impl<T: Clone> Table<T> {",
        "    pub fn get(&self) {}",
        "}",
        "pub enum Kind {",
        "    Small,",
        "}",
        "impl fmt::Display for Kind {",
        "    fn fmt() {}",
        "}",
        "macro_rules! reads {",
        "    ($of:ty) => {",
        "        impl $of {",
        "            pub fn peek() {}",
        "        }",
        "    };",
        "}",
        "reads!(Kind);",
    ];
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("reader.rs");
    fs::write(&file, source.join("\n")).unwrap();
    let known = names::Names::of(&[file]);
    let contain = |span: &str| known.contain(&names::path_of(span).unwrap());
    assert!(contain("Table::get") && contain("Kind::Small") && contain("Kind::fmt"));
    assert!(contain("Kind::peek") && !contain("Table::peek"));
    assert!(contain("reader::Kind") && contain("fmt()") && contain("Table::get(key)"));
    assert!(!contain("Kind::get") && !contain("Table::Small") && !contain("Table::get_with"));
    assert!(!contain("writer::Kind") && !contain("get_with()"));
    assert_eq!(names::path_of("no path"), None);
}

/// Checks that the section of known bugs names tests, and that these tests exist.
#[test]
fn tests_of_known_bugs_are_there() {
    let mut files = Vec::new();
    for dir in ["src", "instrument", "tests"] {
        rust_files(&root().join(dir), &mut files);
    }
    let sources: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let page = page("docs/durability.md");
    let (_, rest) = page.split_once("\n## Known bugs").expect("a section of known bugs");
    let names = code_spans(rest.split("\n## ").next().unwrap_or(rest));
    let names = || names.iter().filter(|name| name.contains('_'));
    for name in names() {
        let is_test = sources.contains(&format!("#[test]\nfn {name}()"))
            || sources.contains(&format!("#[test]\n    fn {name}()"));
        assert!(is_test, "no test is called {name}");
    }
    assert!(names().count() >= 33, "{} tests of known bugs", names().count());
}

/// Checks that the results without a type in the Python package's stubs are those that its README
/// names: the parts of some reports, and the items of iterators whose kind is a variable.
#[test]
fn the_python_readme_names_faults_that_type_checkers_miss() {
    let stubs = page("adapters/python/python/minikv/_minikv.pyi");
    let mut untyped = BTreeSet::new();
    let mut name = "";
    for line in stubs.lines() {
        if let Some((_, rest)) = line.split_once("def ") {
            name = rest.split('(').next().unwrap_or_default();
        }
        if line
            .split_once("->")
            .is_some_and(|(_, result)| result.contains("Any") || result.contains("Report"))
        {
            untyped.insert(name);
        }
    }
    assert_eq!(untyped, ["filter_advice", "iterator", "repair_db", "stats", "verify"].into());
    let readme = page("adapters/python/README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for says in [
        "the parts of `stats`, `filter_advice`, `verify` and `repair_db` are `Any` to them",
        "So are the items of an iterator if `include_key` or `include_value` is a variable",
    ] {
        assert!(readme.contains(says), "{says}");
    }
}

#[test]
fn each_dependency_has_its_purpose_beside_it() {
    let mut manifests = Vec::new();
    for dir in [".", "instrument", "bin", "benches", "fuzz", "tests"] {
        find_manifests(&root().join(dir), &mut manifests);
    }
    let mut count = 0;
    for manifest in &manifests {
        let text = fs::read_to_string(manifest).unwrap();
        let (mut section, mut explained) = (String::new(), false);
        for line in text.lines() {
            match line {
                _ if line.starts_with('[') => section = line.to_owned(),
                _ if line.starts_with('#') => explained = true,
                _ if section.ends_with("dependencies]") && line.contains('=') => {
                    assert!(
                        explained,
                        "{}: no comment says what this is for: {line}",
                        manifest.display()
                    );
                    count += 1;
                }
                _ => explained = false,
            }
        }
    }
    assert!(count >= 40, "{count} dependencies in {manifests:?}");
}

fn find_manifests(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let manifest = path.join("Cargo.toml");
        found.extend(manifest.exists().then_some(manifest));
    }
    let own = dir.join("Cargo.toml");
    found.extend((own.exists() && !found.contains(&own)).then_some(own));
}

/// Checks that arc-swap is required in version 1.9.5 or later. In earlier versions, `ArcSwap::load`
/// may return the value of another instance whose memory was reused, so that a get searches the
/// wrong table. The requirement in Cargo.toml must exclude these versions too, because Cargo.lock
/// has no effect on programs that depend on the library.
#[test]
fn arc_swap_is_at_least_1_9_5() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let numbers =
        |text: &str| -> Vec<u64> { text.split('.').map(|part| part.parse().unwrap()).collect() };
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let required = manifest.lines().find_map(|line| line.strip_prefix("arc-swap = \"")).unwrap();
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let (_, package) = lock.split_once("name = \"arc-swap\"\nversion = \"").unwrap();
    for version in [required, package] {
        let version = version.split('"').next().unwrap();
        assert!(numbers(version) >= vec![1, 9, 5], "arc-swap {version}");
    }
}
