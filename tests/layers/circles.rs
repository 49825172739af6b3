//! Circular imports between the files of a crate.
//!
//! File A imports file B if a path in A leads to an item of B. `mod.rs`, `lib.rs` and `main.rs` are
//! left out: they contain the shared items of their folder, and re-exports from its files. Test
//! code is left out too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::source::{Source, paths};

/// The files that each file imports.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

fn is_node(path: &str) -> bool {
    !["/mod.rs", "/lib.rs", "/main.rs"].iter().any(|end| path.ends_with(end))
}

/// Returns the folders that contain a crate: those with a `lib.rs` or a `main.rs`.
pub fn crates(files: &[Source]) -> BTreeSet<&str> {
    let folder = |path| Path::new(path).parent().and_then(Path::to_str);
    let roots = files.iter().map(|file| file.path.as_str());
    roots
        .filter(|path| path.ends_with("/lib.rs") || path.ends_with("/main.rs"))
        .filter_map(folder)
        .collect()
}

/// Returns the module path of a file of the crate `root`: `[table, reader]` for
/// `src/table/reader.rs` of `src`.
fn module(path: &str, root: &str) -> Vec<String> {
    let inner = path[root.len() + 1..].trim_end_matches(".rs");
    inner
        .split('/')
        .filter(|part| !matches!(*part, "mod" | "lib" | "main"))
        .map(str::to_owned)
        .collect()
}

/// Returns all paths in a file that begin with `crate`, `self` or `super`, as paths from the
/// crate's root.
fn absolute_paths(file: &Source, root: &str) -> Vec<Vec<String>> {
    let own = module(&file.path, root);
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
fn resolve<'a>(path: &[String], root: &str, files: &BTreeSet<&'a str>) -> Option<&'a str> {
    for len in (1..=path.len()).rev() {
        let stem = format!("{root}/{}", path[..len].join("/"));
        if let Some(file) = files.get(format!("{stem}.rs").as_str()) {
            return Some(file).filter(|file| is_node(file)).copied();
        }
        if files.contains(format!("{stem}/mod.rs").as_str()) {
            return None;
        }
    }
    None
}

/// Returns the files that each file of the crate `root` imports.
pub fn imports(files: &[Source], root: &str) -> Imports {
    let is_in_crate = |path: &str| Path::new(path).starts_with(root);
    let names: BTreeSet<&str> =
        files.iter().map(|file| file.path.as_str()).filter(|path| is_in_crate(path)).collect();
    let mut imports = Imports::new();
    for file in files.iter().filter(|file| is_in_crate(&file.path) && is_node(&file.path)) {
        let targets = absolute_paths(file, root);
        let targets = targets.iter().filter_map(|path| resolve(path, root, &names));
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
