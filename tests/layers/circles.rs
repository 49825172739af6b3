//! Circular imports between the files of a crate.
//!
//! File A imports file B if a path in A that begins with `crate`, `self` or `super` leads to an
//! item of B. A `mod.rs` may thus re-export items of its own modules (`pub use child::Item`). Items
//! of `lib.rs` and `main.rs`, and test code, are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::source::{Source, paths};

/// The files that each file imports.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// The crate in which every file counts. In the other crates, each `mod.rs` is left out.
const LIBRARY: &str = "src";

fn counts(path: &str, root: &str) -> bool {
    root == LIBRARY || !path.ends_with("/mod.rs")
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
        let file = [".rs", "/mod.rs"].iter().find_map(|end| files.get(&*format!("{stem}{end}")));
        if let Some(&file) = file {
            return Some(file).filter(|file| counts(file, root));
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
    for file in files.iter().filter(|file| is_in_crate(&file.path) && counts(&file.path, root)) {
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
