//! Tests of rules for the source code. The rules concern layers, circles of imports, lengths of
//! files and functions, and the files that may access the disk or use threads.
//!
//! The folders of `src/` are numbered layers. A file may import only from its own layer and from
//! layers with lower numbers. Each rule is a function from a file to its violations, and has a test
//! that shows it can fail.

mod circles;
mod names;
mod source;

use std::path::Path;

use circles::{circles, crates, imports};
use names::{EXCEPTIONS, PACKAGES, shared_types, tests_that_ask};
use source::{Source, closing, mark_tests, paths, read_all, words};

/// The layers and their numbers. `lib.rs` has no number, because it may re-export anything.
const LAYERS: &[(&str, u32)] = &[
    ("base", 0),
    ("dialect", 1),
    ("format", 1),
    ("block", 2),
    ("filter", 2),
    ("fs", 3),
    ("log", 4),
    ("table", 4),
    ("engine", 5),
    ("admin", 6),
    ("explain", 6),
    ("transaction", 6),
    ("readable", 7),
    ("bulk", 7),
    ("backup", 8),
    ("db", 8),
    ("events", 8),
    ("files", 8),
    ("follow", 8),
    ("internals", 8),
    ("repair", 8),
    ("stats", 8),
    ("keyspace", 9),
];

const MAX_COLUMNS: usize = 100;
const MAX_LINES: usize = 500;

const MAX_FUNCTION_LINES: usize = 50;

/// Words with which no doc comment may begin: the reader would have to look at the item to learn
/// what the comment is about. A doc comment begins with a noun or a verb instead.
const RIDDLES: [&str; 10] =
    ["How", "Of", "So", "Such", "Those", "What", "Where", "Who", "Whom", "Whose"];

/// Imports that may close a circle between files of a crate: the importing file, the imported file,
/// and the reason.
const CIRCLE_EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "adapters/python/src/db.rs",
        "adapters/python/src/prefixed.rs",
        "DB.prefixed_db creates a PrefixedDB, which is made from a DB",
    ),
    (
        "adapters/python/src/snapshot.rs",
        "adapters/python/src/db.rs",
        "the constructor of Snapshot takes a DB, whose methods create snapshots",
    ),
];

/// Functions of `src/` that may exceed the length limit, with the reason.
const LONG_FUNCTIONS: &[(&str, &str, &str)] =
    &[("src/engine/version/manifest.rs", "read_manifest", "one loop over edits, and its checks")];

/// Files that may exceed the length limit, with the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Files that may use `unsafe`, with the reason.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("src/fs/mapped.rs", "maps the end of a log, which takes a system call off each put"),
    ("src/fs/mapped_table.rs", "copies from a table, which takes a system call off each read"),
    ("src/fs/system/unix/space.rs", "keeps stray writes away from the mapped log"),
    ("tests/allocation/allocator.rs", "an allocator that fails on demand, for a test"),
    ("tests/interop/c_api/src/lib.rs", "declares the C API of LevelDB, in a package of its own"),
    ("tests/interop/src/ffi.rs", "calls the C API of LevelDB, in a package of its own"),
    ("adapters/cpp/benches/native.rs", "makes keys by C's snprintf, as db_bench does"),
    ("adapters/c/src/border.rs", "reads and writes through C's pointers, in a package of its own"),
    ("tests/flips/src/c_api.rs", "calls the C API of two stores, in a package of its own"),
    ("benches/peers/src/leveldb.rs", "calls the C API of LevelDB, in a package of its own"),
];

/// Exceptions to the rule that blocking, shared and timed primitives come from `base::sync`, where
/// shuttle can replace them. Each is a file of `src/`, the start of the allowed paths, and the
/// reason.
const SYNC_EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("src/table/counts.rs", "std::sync::atomic", "counts, which decide nothing"),
    ("src/engine/stats/metrics.rs", "std::sync::atomic", "counts, which decide nothing"),
    ("src/engine/stats/property.rs", "std::sync::atomic", "reads those counts"),
    ("src/block/view.rs", "std::sync::atomic", "a count of uses: a wrong one evicts another block"),
    ("src/block/view.rs", "triomphe", "counts references, as Arc does"),
    ("src/block/cursor.rs", "std::sync::OnceLock", "of one cursor, filled when asked"),
    (
        "src/engine/stats/totals.rs",
        "parking_lot",
        "numbers of the system's threads, given back at their end",
    ),
    ("src/engine/stats/totals.rs", "std::sync::OnceLock", "set by the thread that counts there"),
    ("src/engine/stats/totals.rs", "thread_local", "numbers of the system's threads"),
    ("src/engine/behalf.rs", "thread_local", "the macro of base::sync"),
    ("src/engine/inside.rs", "thread_local", "the macro of base::sync"),
    ("src/engine/compression.rs", "std::sync::OnceLock", "computed when asked, the same each time"),
    (
        "src/engine/read/view.rs",
        "std::sync::OnceLock",
        "set before the view that it replaces is shown",
    ),
    (
        "src/engine/resources/signal.rs",
        "std::sync::OnceLock",
        "set before the database has a second user",
    ),
    ("src/engine/version/mod.rs", "std::sync::OnceLock", "all who set it take it from one table"),
    ("src/engine/version/tombstones.rs", "std::sync::OnceLock", "set by the writer of the table"),
    ("src/table/table_cache.rs", "std::sync::OnceLock", "set before the table's version is shown"),
    ("src/table/lookup.rs", "thread_local", "a buffer, taken out while it is in use"),
    ("src/table/answers.rs", "thread_local", "a thread's own guess, which only speed depends on"),
    ("src/table/stored.rs", "thread_local", "buffers, taken out while they are in use"),
    ("src/fs/lock.rs", "parking_lot", "a table of the whole process, of real files"),
    (
        "src/fs/random_access_file.rs",
        "std::sync::atomic",
        "a count of the whole process, of real files",
    ),
    ("src/fs/random_access_file.rs", "std::sync::OnceLock", "set before the table has a reader"),
    ("src/fs/mapped_table.rs", "std::sync::atomic", "a guess of the whole process, of real files"),
    ("src/fs/mapped_table.rs", "thread_local", "counts a thread's reads of real files"),
    ("src/fs/mapped_table.rs", "std::time", "times the machine, which no schedule controls"),
    ("src/fs/mapped.rs", "std::sync::atomic", "a fence in what is stored in a mapped file"),
    (
        "src/fs/system/windows/files.rs",
        "std::thread",
        "waits while another program has a file open",
    ),
];

/// Folders that ask which system they are built for: one of the library, and one of the command.
const SYSTEM_ROOMS: [&str; 2] = ["src/fs/system/", "bin/src/system/"];

fn layer_number(name: &str) -> Option<u32> {
    LAYERS.iter().find(|(layer, _)| *layer == name).map(|(_, number)| *number)
}

/// Returns the modules that a file of `src/` is in: `[table, reader]` for `src/table/reader.rs`.
fn module(path: &str) -> Vec<&str> {
    let inner = path.strip_prefix("src/").unwrap_or(path).trim_end_matches(".rs");
    inner.split('/').filter(|part| !matches!(*part, "mod" | "lib")).collect()
}

/// Returns the imports that break the order of layers: those from layers other than the file's own
/// layer and the layers below.
fn imports_go_down(file: &Source) -> Vec<String> {
    let module = module(&file.path);
    let Some(&own) = module.first() else { return Vec::new() };
    let Some(number) = layer_number(own) else {
        return vec![format!("{}: {own} is no layer: give it a number", file.path)];
    };
    let mut imports = paths(&file.shipped, "crate");
    for (offset, path) in paths(&file.shipped, "super") {
        let ups = 1 + path.iter().take_while(|part| *part == "super").count();
        if ups == module.len() {
            imports.push((offset, path[ups - 1..].to_vec()));
        }
    }
    let mut violations = Vec::new();
    for (offset, path) in imports {
        let other = path[0].as_str();
        let what = match layer_number(other) {
            _ if other == own => continue,
            Some(below) if below < number => continue,
            Some(_) => format!("{own} ({number}) imports {other}, which is not below it"),
            None => format!("{own} imports {other} through the root: name its layer"),
        };
        violations.push(format!("{}:{}: {what}", file.path, file.line(offset)));
    }
    violations
}

/// Returns the uses of the disk outside of tests and outside of `src/fs`.
fn only_fs_touches_the_disk(file: &Source) -> Vec<String> {
    if file.path.starts_with("src/fs/") {
        return Vec::new();
    }
    let named = paths(&file.shipped, "std").into_iter().filter(|(_, path)| path[0] == "fs");
    named
        .map(|(at, _)| format!("{}:{}: std::fs outside of src/fs", file.path, file.line(at)))
        .collect()
}

/// Returns the uses of shared and blocking primitives that do not come from `base::sync`.
fn threads_meet_in_sync(file: &Source) -> Vec<String> {
    if file.path.starts_with("src/base/sync/") {
        return Vec::new();
    }
    let is_excepted = |what: &str| {
        let of_file =
            |(path, prefix, _): &(&str, &str, &str)| *path == file.path && what.starts_with(prefix);
        SYNC_EXCEPTIONS.iter().any(of_file)
    };
    shared_things(file)
        .into_iter()
        .filter(|(_, what)| !is_excepted(what))
        .map(|(at, what)| format!("{}:{}: {what}: use base::sync", file.path, file.line(at)))
        .collect()
}

/// Returns the uses of shared and blocking primitives that do not come from `base::sync`, with
/// their offsets.
fn shared_things(file: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for root in ["parking_lot", "arc_swap", "triomphe"] {
        found.extend(paths(&file.shipped, root).into_iter().map(|(at, _)| (at, root.to_owned())));
    }
    let words = words(&file.shipped);
    let crates = words.filter(|(_, word)| *word == "thread_local" || word.starts_with("crossbeam"));
    found.extend(crates.map(|(at, word)| (at, word.to_owned())));
    for (at, path) in paths(&file.shipped, "std") {
        let [first, second, ..] = &path[..] else { continue };
        let is_shared = match (first.as_str(), second.as_str()) {
            ("sync", name) => !matches!(name, "Arc" | "Weak"),
            ("time", name) => matches!(name, "Instant" | "*"),
            (name, _) => name == "thread",
        };
        if is_shared {
            found.push((at, format!("std::{first}::{second}")));
        }
    }
    found
}

/// Returns the uses of one system's items, and the questions which system it is, outside of the
/// rooms for what differs between systems.
fn systems_differ_in_one_room(file: &Source) -> Vec<String> {
    if SYSTEM_ROOMS.iter().any(|room| file.path.starts_with(room)) {
        return Vec::new();
    }
    let mut found: Vec<(usize, String)> = Vec::new();
    for (at, path) in paths(&file.shipped, "std") {
        if let [first, system, ..] = &path[..]
            && first == "os"
            && system != "raw"
        {
            found.push((at, format!("std::os::{system}")));
        }
    }
    let calls = paths(&file.shipped, "rustix").into_iter();
    found.extend(calls.map(|(at, _)| (at, "rustix".to_owned())));
    for (at, word) in words(&file.shipped) {
        let asks = ["unix", "windows", "target_os", "target_family", "target_vendor"];
        if asks.contains(&word) && in_condition(&file.shipped, at) {
            found.push((at, format!("cfg({word})")));
        }
    }
    let named = found.into_iter();
    named
        .map(|(at, what)| {
            format!("{}:{}: {what} outside of {SYSTEM_ROOMS:?}", file.path, file.line(at))
        })
        .collect()
}

/// Returns whether a word is in the brackets of a `cfg`, `cfg_attr` or `cfg!`.
fn in_condition(code: &str, at: usize) -> bool {
    let before = words(&code[..at]).filter(|(_, word)| matches!(*word, "cfg" | "cfg_attr"));
    before.last().is_some_and(|(start, _)| {
        let open = code[start..at].find('(').map(|n| start + n);
        open.is_some_and(|open| closing(code, open) > at)
    })
}

/// Returns a violation if a file is too long for a single subject.
fn files_are_short(file: &Source) -> Vec<String> {
    let lines = file.shipped_lines();
    if lines <= MAX_LINES || LONG_FILES.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    vec![format!("{}: {lines} lines of code outside of tests, over {MAX_LINES}", file.path)]
}

/// Returns the functions that do not fit on a screen.
fn functions_are_short(file: &Source) -> Vec<String> {
    let is_excepted = |name: &str| {
        LONG_FUNCTIONS.iter().any(|(path, function, _)| *path == file.path && *function == name)
    };
    let long = file
        .functions()
        .into_iter()
        .filter(|(_, name, lines)| *lines > MAX_FUNCTION_LINES && !is_excepted(name));
    long.map(|(at, name, lines)| {
        format!("{}:{}: {name} has {lines} lines", file.path, file.line(at))
    })
    .collect()
}

/// Returns the circles of imports in the crate `root` that remain after the listed exceptions are
/// removed.
fn circles_in(root: &str, files: &[Source], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let mut imports = imports(files, root);
    for (from, to, _) in exceptions {
        if let Some(targets) = imports.get_mut(*from) {
            targets.remove(*to);
        }
    }
    let name = |circle: Vec<String>| {
        let inner = |file: &String| -> String {
            let others = imports[file].iter().filter(|other| circle.contains(other));
            format!("{file} -> {}", others.cloned().collect::<Vec<_>>().join(", "))
        };
        format!("a circle:\n  {}", circle.iter().map(inner).collect::<Vec<_>>().join("\n  "))
    };
    circles(&imports).into_iter().map(name).collect()
}

/// Returns the circles of imports in all crates that remain after the listed exceptions are
/// removed.
fn circles_left(files: &[Source], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let roots = crates(files).into_iter();
    roots.flat_map(|root| circles_in(root, files, exceptions)).collect()
}

fn lines_are_short(file: &Source) -> Vec<String> {
    let long = file.text.lines().enumerate().filter(|(_, line)| line.chars().count() > MAX_COLUMNS);
    long.map(|(n, _)| format!("{}:{}: over {MAX_COLUMNS} columns", file.path, n + 1)).collect()
}

/// Returns the doc comments that begin with one of [`RIDDLES`].
fn comments_begin_plainly(file: &Source) -> Vec<String> {
    let mut violations = Vec::new();
    let mut before = "";
    for (n, line) in file.text.lines().map(str::trim_start).enumerate() {
        let comment = ["///", "//!"].iter().find_map(|mark| {
            let begins = !before.starts_with(mark);
            line.strip_prefix(mark).filter(|_| begins)
        });
        let first = comment.and_then(|text| text.split_whitespace().next()).unwrap_or_default();
        if RIDDLES.contains(&first) {
            violations.push(format!("{}:{}: begins with \"{first}\"", file.path, n + 1));
        }
        before = line;
    }
    violations
}

/// Returns the uses of the interior, which is for the library's own tests.
fn uses_the_public_api(file: &Source) -> Vec<String> {
    let named = words(&file.code).filter(|(_, word)| *word == "internals");
    named.map(|(at, _)| format!("{}:{}: the interior", file.path, file.line(at))).collect()
}

/// Adds the manifests below `dir` that turn on the feature `internals`.
fn manifests_with_internals(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            manifests_with_internals(&path, found);
        } else if path.ends_with("Cargo.toml") {
            let text = std::fs::read_to_string(&path).expect("a readable manifest");
            found.extend(text.contains("internals").then(|| path.display().to_string()));
        }
    }
}

fn nothing_is_unsafe(file: &Source) -> Vec<String> {
    if UNSAFE_FILES.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    let named = words(&file.code).filter(|(_, word)| *word == "unsafe");
    named.map(|(at, _)| format!("{}:{}: unsafe", file.path, file.line(at))).collect()
}

/// Returns every `#[allow]` and `#[expect]` without a reason, even inside a `cfg_attr`.
fn exceptions_have_reasons(file: &Source) -> Vec<String> {
    let mut violations = Vec::new();
    for (at, word) in words(&file.code) {
        let after = at + word.len();
        let called = file.code[after..].starts_with('(');
        if !called || !matches!(word, "allow" | "expect") || !in_attribute(&file.code, at) {
            continue;
        }
        let arguments = after..closing(&file.code, after);
        if !gives_reason(&file.text[arguments]) {
            violations.push(format!("{}:{}: {word} without a reason", file.path, file.line(at)));
        }
    }
    violations
}

fn in_attribute(code: &str, at: usize) -> bool {
    let open = code[..at].rfind("#[").max(code[..at].rfind("#!["));
    let bracket = open.and_then(|open| code[open..].find('[').map(|n| open + n));
    bracket.is_some_and(|bracket| closing(code, bracket) > at)
}

fn gives_reason(arguments: &str) -> bool {
    arguments.split_once("reason").is_some_and(|(_, value)| {
        let value = value.trim_start().strip_prefix('=').map(str::trim_start);
        value.is_some_and(|value| value.starts_with('"') && !value.starts_with("\"\""))
    })
}

fn check(folders: &[&str], at_least: usize, rule: fn(&Source) -> Vec<String>) {
    let files = read_all(Path::new(env!("CARGO_MANIFEST_DIR")), folders);
    assert!(files.len() >= at_least, "only {} files found in {folders:?}", files.len());
    let violations: Vec<String> = files.iter().flat_map(rule).collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

const SHIPPED: &[&str] = &["src", "instrument/src", "bin/src"];
const ALL: &[&str] =
    &["src", "instrument", "bin", "examples", "tests", "benches", "fuzz", "adapters"];

/// Folders that use only what any user of the library has.
const ON_THE_PUBLIC_API: &[&str] = &["instrument", "bin", "examples", "benches", "adapters"];

#[test]
fn the_library_keeps_its_layers() {
    check(&["src"], 10, imports_go_down);
}

#[test]
fn the_library_reaches_the_disk_through_fs() {
    check(&["src"], 10, only_fs_touches_the_disk);
}

#[test]
fn the_library_shares_between_threads_through_sync() {
    check(&["src"], 10, threads_meet_in_sync);
}

#[test]
fn systems_differ_only_in_their_rooms() {
    check(SHIPPED, 10, systems_differ_in_one_room);
}

#[test]
fn no_file_outgrows_its_room() {
    check(SHIPPED, 10, files_are_short);
    let files = read_all(Path::new(env!("CARGO_MANIFEST_DIR")), &["src"]);
    println!("src: {} lines of code", files.iter().map(Source::shipped_lines).sum::<usize>());
}

#[test]
fn no_function_outgrows_a_screen() {
    check(&["src"], 10, functions_are_short);
}

#[test]
fn no_files_import_each_other() {
    let files = read_all(Path::new(env!("CARGO_MANIFEST_DIR")), ALL);
    assert!(crates(&files).len() > 20, "{:?}", crates(&files));
    let left = circles_left(&files, CIRCLE_EXCEPTIONS);
    assert!(left.is_empty(), "\n{}", left.join("\n"));
}

#[test]
fn each_type_name_has_one_owner() {
    let files = read_all(Path::new(env!("CARGO_MANIFEST_DIR")), ALL);
    for package in PACKAGES {
        assert!(files.iter().any(|file| file.path.starts_with(package)), "{package} has no files");
        let shared = shared_types(&files, package, EXCEPTIONS);
        assert!(shared.is_empty(), "in {package}\n{}", shared.join("\n"));
    }
}

#[test]
fn names_of_tests_say_what_holds() {
    check(ALL, 100, tests_that_ask);
}

#[test]
fn no_line_is_too_long() {
    check(ALL, 20, lines_are_short);
}

#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    check(ALL, 100, comments_begin_plainly);
}

#[test]
fn only_the_librarys_tests_use_the_interior() {
    check(ON_THE_PUBLIC_API, 100, uses_the_public_api);
    let (root, mut found) = (Path::new(env!("CARGO_MANIFEST_DIR")), Vec::new());
    for folder in ON_THE_PUBLIC_API {
        manifests_with_internals(&root.join(folder), &mut found);
    }
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn only_listed_files_are_unsafe() {
    check(ALL, 20, nothing_is_unsafe);
}

#[test]
fn every_lint_exception_has_a_reason() {
    check(ALL, 20, exceptions_have_reasons);
}

#[test]
fn listed_exceptions_are_still_needed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, reason) in LONG_FILES.iter().chain(UNSAFE_FILES) {
        assert!(root.join(path).exists(), "{path} is gone: take it off its list ({reason})");
    }
    let files = read_all(root, &["src"]);
    for (path, prefix, reason) in SYNC_EXCEPTIONS {
        let mut of_file = files.iter().filter(|file| file.path == *path).flat_map(shared_things);
        let is_needed = of_file.any(|(_, what)| what.starts_with(prefix));
        assert!(is_needed, "{path} has no {prefix}: take it off its list ({reason})");
    }
    for (path, function, reason) in LONG_FUNCTIONS {
        let mut of_file = files.iter().filter(|file| file.path == *path);
        let is_needed = of_file.any(|file| {
            let mut functions = file.functions().into_iter();
            functions.any(|(_, name, lines)| name == *function && lines > MAX_FUNCTION_LINES)
        });
        assert!(is_needed, "{function} of {path} is short: take it off its list ({reason})");
    }
    let files = read_all(root, ALL);
    for (n, (start, name, reason)) in EXCEPTIONS.iter().enumerate() {
        let mut others = EXCEPTIONS.to_vec();
        others.remove(n);
        let is_needed = PACKAGES.iter().any(|root| !shared_types(&files, root, &others).is_empty());
        assert!(is_needed, "{start} may have {name}: take it off its list ({reason})");
    }
    for (n, (from, to, reason)) in CIRCLE_EXCEPTIONS.iter().enumerate() {
        let mut others = CIRCLE_EXCEPTIONS.to_vec();
        others.remove(n);
        let is_needed = !circles_left(&files, &others).is_empty();
        assert!(is_needed, "{from} may import {to}: take it off its list ({reason})");
    }
}

/// Returns the numbers of the lines that `rule` reports if `text` is taken as the contents of the
/// file `path`.
fn lines_named(rule: fn(&Source) -> Vec<String>, path: &str, text: &str) -> Vec<usize> {
    let violations = rule(&Source::new(path, text));
    let line = |violation: &String| violation.split(':').nth(1).and_then(|line| line.parse().ok());
    violations.iter().map(|violation| line(violation).unwrap_or(0)).collect()
}

#[test]
fn an_import_upward_is_found() {
    let text = "
use crate::base::Error;
use crate::engine::open;
use crate::format::{key,
    coding::{self}};
use crate::{base, db::Db};
fn f() { crate::log::reader::new() }
";
    assert_eq!(lines_named(imports_go_down, "src/table/reader.rs", text), [3, 6, 7]);
    assert_eq!(lines_named(imports_go_down, "src/engine/read/view.rs", text), [6]);
    assert_eq!(lines_named(imports_go_down, "src/base/error.rs", text), [3, 4, 4, 6, 7]);
    assert_eq!(lines_named(imports_go_down, "src/lib.rs", text), []);
    assert_eq!(lines_named(imports_go_down, "src/util/misc.rs", text), [0]);
}

#[test]
fn a_use_of_the_interior_is_found() {
    let text = "use minikv::internals::base::hash;\n// internals\nconst A: &str = \"internals\";\n";
    assert_eq!(lines_named(uses_the_public_api, "bin/src/main.rs", text), [1]);
}

#[test]
fn folders_of_one_number_never_meet() {
    let [admin, explain] = ["use crate::explain::Step;\n", "use crate::admin::verify;\n"];
    assert_eq!(lines_named(imports_go_down, "src/admin/verify.rs", admin), [1]);
    assert_eq!(lines_named(imports_go_down, "src/explain/mod.rs", explain), [1]);
}

#[test]
fn detours_upward_are_found() {
    let text = "use crate::Error;\nuse super::super::engine::open;\nuse super::block;\n";
    assert_eq!(lines_named(imports_go_down, "src/table/reader.rs", text), [1, 2]);
    assert_eq!(lines_named(imports_go_down, "src/fs/mod.rs", "use super::table;\n"), [1]);
    assert_eq!(lines_named(imports_go_down, "src/db.rs", "use super::engine;\n"), []);
}

#[test]
fn comments_strings_and_tests_may_import_anything() {
    let text = r##"
//! See [`crate::engine::open`]. /* crate::db */
/* crate::db::x /* nested crate::db::x */ crate::db::x */
const A: &str = "crate::db::x \" crate::db::x";
const B: &[u8] = br#"crate::db::x " crate::db::x"#;
const C: char = '"'; // a quote that opens nothing
fn f<'a>(x: &'a str) -> &'a str { x }
#[cfg(test)]
use crate::db::{Db, Snapshot};
#[cfg(test)]
#[derive(Debug)]
mod tests {
    use crate::db::Db;
    fn g() { let _ = ("}", '{', '\''); crate::db::x() }
}
#[cfg(not(test))]
use crate::db::Db;
use crate::engine::open;
"##;
    assert_eq!(lines_named(imports_go_down, "src/table/reader.rs", text), [17, 18]);
}

#[test]
fn a_second_door_to_the_disk_is_found() {
    let text = "use std::io;\nuse std::{fs::File, io::Read};\nfn f() { std::fs::read(\"x\"); }\n";
    assert_eq!(lines_named(only_fs_touches_the_disk, "src/engine/open/mod.rs", text), [2, 3]);
    assert_eq!(lines_named(only_fs_touches_the_disk, "src/fs/disk.rs", text), []);
    let tests = "#[cfg(test)]\nmod tests {\n use std::fs;\n}\n";
    assert_eq!(lines_named(only_fs_touches_the_disk, "src/engine/open/mod.rs", tests), []);
}

#[test]
fn primitives_that_do_not_come_from_sync_are_found() {
    let text = "use std::sync::{Arc, Mutex, Weak};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use parking_lot::Condvar;
use crate::base::sync::{Instant, Mutex, atomic::AtomicBool};
fn f() { std::thread::yield_now(); let _ = arc_swap::ArcSwap::new(1); }
use std::{sync::mpsc, time::{Duration, Instant}};
use crossbeam_skiplist::SkipMap;
thread_local! { static A: u8 = 1; }
#[cfg(test)]
mod tests { use std::sync::Mutex; }
";
    let found = |path| {
        let mut lines = lines_named(threads_meet_in_sync, path, text);
        lines.sort();
        lines.dedup();
        lines
    };
    assert_eq!(found("src/engine/read/view.rs"), [1, 2, 3, 5, 6, 7, 8]);
    assert_eq!(found("src/engine/stats/metrics.rs"), [1, 3, 5, 6, 7, 8], "but for atomics");
    assert_eq!(found("src/base/sync/mod.rs"), []);
}

#[test]
fn a_long_file_is_found() {
    let lines = |n| "fn f() {}\n// a comment\n\n".repeat(n);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines(600));
    let long = |n| !files_are_short(&Source::new("src/a.rs", &(lines(n) + &tests))).is_empty();
    assert!(!long(MAX_LINES));
    assert!(long(MAX_LINES + 1));
}

#[test]
fn a_long_function_is_found() {
    let function = |n| format!("pub(crate) fn long(x: u8) {{\n{}}}\n", "    f();\n".repeat(n - 2));
    let trait_item = "trait T {\n    fn declared(&self);\n    fn f() {}\n}\n";
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(60));
    let nested = format!("impl T {{\n{}}}\n", function(MAX_FUNCTION_LINES + 1));
    let found = |text: &str| lines_named(functions_are_short, "src/a.rs", text);
    assert_eq!(found(&(trait_item.to_owned() + &function(MAX_FUNCTION_LINES) + &tests)), []);
    assert_eq!(found(&(trait_item.to_owned() + &function(MAX_FUNCTION_LINES + 1))), [5]);
    assert_eq!(found(&nested), [2]);
}

#[test]
fn a_circle_of_imports_is_found() {
    let file = |path, text| Source::new(path, text);
    let files = [
        file("src/a/mod.rs", "pub mod b; pub use b::B; use crate::a::c::C;"),
        file("src/a/b.rs", "use crate::a::{Shared, c::{self, C}};"),
        file("src/a/c.rs", "fn f() { super::d::g() }\n#[cfg(test)]\nuse crate::e::E;"),
        file("src/a/d.rs", "use crate::{a::b::B as Other, e};"),
        file("src/e.rs", "use crate::a::d::D;"),
        file("src/f.rs", "use crate::a::b::B;"),
        file("src/g.rs", "#[cfg(test)]\nuse crate::h::H;"),
        file("src/h.rs", "use crate::g::G;"),
        file("src/lib.rs", "mod a; mod e;"),
        file("bin/src/main.rs", "mod e; mod i;"),
        file("bin/src/e.rs", "use crate::i::I;"),
        file("bin/src/i.rs", "use crate::{a::d::D, f::F};"),
    ];
    let left = |exceptions| circles_left(&files, exceptions);
    let text = left(&[]).join("");
    assert!(text.contains("src/a/c.rs -> src/a/d.rs") && text.contains("src/e.rs"), "{text}");
    assert!(!text.contains("src/f.rs") && !text.contains("src/g.rs"), "{text}");
    assert!(!text.contains("bin/"), "another crate has files of these names: {text}");
    assert_eq!(left(&[("src/a/d.rs", "src/e.rs", "")]).len(), 1, "b, c and d remain");
    let cut = [
        ("src/a/b.rs", "src/a/c.rs", ""),
        ("src/e.rs", "src/a/d.rs", ""),
        ("src/a/mod.rs", "src/a/c.rs", ""),
    ];
    let text = left(&cut[..2]).join("");
    assert!(text.contains("src/a/mod.rs -> src/a/c.rs") && !text.contains("src/e.rs"), "{text}");
    assert!(left(&cut).is_empty());
}

#[test]
fn a_second_owner_of_a_type_name_is_found() {
    let mut files = [
        Source::new("src/a.rs", "pub(crate) struct Kept<'a>(&'a str);\nenum Own { Other }"),
        Source::new("src/b/mod.rs", "fn f() { trait Kept {} }\n#[cfg(test)]\nmod tests;"),
        Source::new("src/b/tests.rs", "struct Own;"),
        Source::new("src/c.rs", "type Alias = u8;\nimpl I for A {\n    type Own = u8;\n}"),
        Source::new("src/d.rs", "pub type Alias = u8; // struct Own\n#[cfg(test)]\nstruct Own;"),
        Source::new("bin/src/e.rs", "struct Own; struct Other;"),
    ];
    mark_tests(&mut files);
    let alias = "Alias: src/c.rs, src/d.rs";
    assert_eq!(shared_types(&files, "src", &[]), [alias, "Kept: src/a.rs, src/b/mod.rs"]);
    assert_eq!(shared_types(&files, "src", &[("src/b/", "Kept", "")]), [alias]);
    assert_eq!(
        shared_types(&files, "src", &[("src/b/", "*", ""), ("src/d", "Other", "")]),
        [alias]
    );
}

#[test]
fn a_name_of_a_test_that_asks_is_found() {
    let text = "#[test]\nfn what_is_synced_stays() {}\n#[test]\nfn synced_writes_stay() {}\n\
                fn what_is_no_test() {}\n#[tokio::test(flavor = \"multi_thread\")]\n\
                async fn who_watches() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    \
                #[should_panic(expected = \"why\")]\n    fn nothing_is_lost() {}\n}\n\
                #[test]\nfn whatever_is_read_is_right() {}\n";
    assert_eq!(lines_named(tests_that_ask, "tests/a.rs", text), [2, 7, 12]);
}

#[test]
fn files_of_test_modules_are_test_code() {
    let parent = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"b_tests.rs\"]\nmod inner;\n";
    let upward = "use crate::db::Db;\n";
    let found = |parent_path, path| {
        let mut files = [Source::new(parent_path, parent), Source::new(path, upward)];
        mark_tests(&mut files);
        !imports_go_down(&files[1]).is_empty()
    };
    assert!(!found("src/log/mod.rs", "src/log/tests.rs"));
    assert!(!found("src/log/mod.rs", "src/log/tests/deep.rs"));
    assert!(!found("src/log/b.rs", "src/log/b/tests.rs"));
    assert!(!found("src/log/b.rs", "src/log/b_tests.rs"));
    assert!(found("src/log/mod.rs", "src/log/b.rs"));
    assert!(found("src/table/mod.rs", "src/log/tests.rs"));
}

#[test]
fn a_question_about_the_system_is_found() {
    let text = "use std::os::unix::ffi::OsStrExt;\nuse std::{fs, os::fd::AsFd};\n\
                #[cfg(not(target_os = \"linux\"))]\nfn f() { rustix::process::nice(1) }\n\
                fn g() { if cfg!(windows) {} }\n#[cfg(test)]\nuse std::os::unix;\n\
                #[cfg(debug_assertions)]\nmod unix;\n";
    assert_eq!(lines_named(systems_differ_in_one_room, "src/fs/disk.rs", text), [1, 2, 4, 3, 5]);
    assert_eq!(lines_named(systems_differ_in_one_room, "src/fs/system/mod.rs", text), []);
}

#[test]
fn a_long_line_is_found() {
    let text = format!("{}\n{}\n{}\n", "x".repeat(100), "x".repeat(101), "ü".repeat(100));
    assert_eq!(lines_named(lines_are_short, "src/a.rs", &text), [2]);
}

#[test]
fn a_comment_that_begins_with_a_riddle_is_found() {
    let text = "//! Whose file this is.\n//! What is in it.\n\n/// Returns the key,\n\
                \x2f// What else?\nfn f() {}\nstruct S {\n    /// Where it is.\n    at: u8,\n}\n";
    let found = comments_begin_plainly(&Source::new("src/a.rs", text));
    let expected = ["src/a.rs:1: begins with \"Whose\"", "src/a.rs:8: begins with \"Where\""];
    assert_eq!(found, expected);
}

#[test]
fn unsafe_is_found() {
    let text = "// unsafe\n#![deny(unsafe_code)]\nfn f() { unsafe { g() } }\n#[cfg(test)]\n\
                mod tests {\n unsafe fn h() {}\n}\n";
    assert_eq!(lines_named(nothing_is_unsafe, "src/a.rs", text), [3, 6]);
    assert_eq!(lines_named(nothing_is_unsafe, UNSAFE_FILES[0].0, text), []);
}

#[test]
fn an_exception_without_a_reason_is_found() {
    let text = "#![allow(missing_docs)]\n#[expect(dead_code, reason = \"drawn by the test\")]\n\
                fn f() { x.expect(\"no attribute\") }\n#[cfg_attr(test, allow(unused))]\n\
                #[allow(\n    dead_code,\n    reason = \"\"\n)]\nfn allow(x: u8) {}\n";
    assert_eq!(lines_named(exceptions_have_reasons, "src/a.rs", text), [1, 4, 5]);
}
