//! Circles of imports between the files of `src`.
//!
//! A file imports another file if a path in the first leads to an item of the second. `mod.rs` and
//! `lib.rs` are left out: they contain the shared items of their folder, and re-exports from its
//! files. Test code is left out too.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, paths};

/// The files that each file imports.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

fn is_node(path: &str) -> bool {
    !path.ends_with("/mod.rs") && !path.ends_with("/lib.rs")
}

/// Returns the module path of a file: `[table, reader]` for `src/table/reader.rs`.
fn module(path: &str) -> Vec<String> {
    let inner = path.strip_prefix("src/").unwrap_or(path).trim_end_matches(".rs");
    inner.split('/').filter(|part| !matches!(*part, "mod" | "lib")).map(str::to_owned).collect()
}

/// Returns all paths in a file that begin with `crate`, `self` or `super`, as paths from the
/// crate's root.
fn absolute_paths(file: &Source) -> Vec<Vec<String>> {
    let own = module(&file.path);
    let absolute = paths(&file.shipped, "crate").into_iter().map(|(_, path)| path);
    let below = paths(&file.shipped, "self").into_iter().map(|(_, path)| (0, path));
    let above = paths(&file.shipped, "super").into_iter().map(|(_, path)| {
        let more = path.iter().take_while(|part| *part == "super").count();
        (1 + more, path[more..].to_vec())
    });
    let relative = below.chain(above).filter_map(|(ups, rest)| {
        let base = &own[..own.len().checked_sub(ups)?];
        Some([base, &rest[..]].concat())
    });
    absolute.chain(relative).collect()
}

/// Returns the file that a path leads to, if that is one of `files`.
fn resolve<'a>(path: &[String], files: &BTreeSet<&'a str>) -> Option<&'a str> {
    for len in (1..=path.len()).rev() {
        let stem = format!("src/{}", path[..len].join("/"));
        if let Some(file) = files.get(format!("{stem}.rs").as_str()) {
            return Some(file).filter(|file| is_node(file)).copied();
        }
        if files.contains(format!("{stem}/mod.rs").as_str()) {
            return None;
        }
    }
    None
}

/// Returns the files that each file imports.
pub fn imports(files: &[Source]) -> Imports {
    let names: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut imports = Imports::new();
    for file in files.iter().filter(|file| is_node(&file.path)) {
        let targets = absolute_paths(file);
        let targets = targets.iter().filter_map(|path| resolve(path, &names));
        let others = targets.filter(|target| *target != file.path).map(str::to_owned);
        imports.insert(file.path.clone(), others.collect());
    }
    imports
}

/// Returns the files that can be reached from `start`.
fn reachable(imports: &Imports, start: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![start];
    while let Some(file) = pending.pop() {
        for next in imports.get(file).into_iter().flatten() {
            if reached.insert(next.clone()) {
                pending.push(next);
            }
        }
    }
    reached
}

/// Returns the groups of files in which each file can be reached from all others.
pub fn circles(imports: &Imports) -> BTreeSet<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<String>> =
        imports.keys().map(|file| (file.as_str(), reachable(imports, file))).collect();
    let circle_of = |file: &str| -> Vec<String> {
        let all = reached[file].iter();
        all.filter(|other| reached.get(other.as_str()).is_some_and(|set| set.contains(file)))
            .cloned()
            .collect()
    };
    imports.keys().map(|file| circle_of(file)).filter(|circle| !circle.is_empty()).collect()
}
