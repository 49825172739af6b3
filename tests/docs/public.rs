//! The public surface of the library, as a listing that is compared with the committed one.
//!
//! It is read from the source in rustfmt's layout: the public modules, what they define or
//! re-export, and the public methods, fields, variants and associated constants of each type,
//! whether rustdoc shows them or not. What needs the feature `internals` is left out, and a type
//! with a single member is listed as `Type::member`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LISTING: &str = "docs/public-api.txt";

/// Longest line of the listing, in characters.
const WIDTH: usize = 100;

/// The environment variable that, set to `write`, makes the test rewrite the listing.
const REWRITE: &str = "MINIKV_PUBLIC_API";

/// Types with the same methods for reading, which are listed once.
const READERS: [&str; 3] = ["Db", "ReadOnlyDb", "Snapshot"];

struct Sources(BTreeMap<PathBuf, String>);

impl Sources {
    fn read(dir: &Path) -> Sources {
        let mut sources = Sources(BTreeMap::new());
        sources.walk(dir);
        sources
    }

    fn walk(&mut self, dir: &Path) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.walk(&path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                // Unit tests are at the end of a file.
                let shipped = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
                self.0.insert(path, shipped.to_string());
            }
        }
    }

    /// Returns the file of the innermost module of `path` that has a file of its own.
    fn module(&self, src: &Path, path: &[&str]) -> PathBuf {
        (0..=path.len())
            .rev()
            .flat_map(|n| {
                let folder = path[..n].iter().fold(src.to_path_buf(), |dir, name| dir.join(name));
                [folder.with_extension("rs"), folder.join("mod.rs")]
            })
            .find(|file| self.0.contains_key(file))
            .unwrap_or_else(|| panic!("no file for {path:?}"))
    }
}

/// Returns the names of the items that a source file makes public, each with the file that defines
/// it.
fn items(sources: &Sources, src: &Path, file: &Path) -> BTreeMap<String, PathBuf> {
    let text = &sources.0[file];
    let mut found = BTreeMap::new();
    for line in text.lines() {
        if let Some(name) = public_item(line) {
            found.insert(name.to_string(), file.to_path_buf());
        }
    }
    for statement in text.split("\npub use ").skip(1) {
        let statement = statement.split(';').next().unwrap().replace('\n', " ");
        let (path, names) = statement.rsplit_once("::").expect("a path");
        let (path, names) = match statement.split_once("::{") {
            Some((path, names)) => (path, names.trim_end_matches('}')),
            None => (path, names),
        };
        let own = file.parent().unwrap().strip_prefix(src).unwrap();
        let mut steps: Vec<&str> = path.split("::").collect();
        if steps[0] == "crate" {
            steps.remove(0);
        } else {
            let own = own.iter().map(|step| step.to_str().unwrap());
            steps = own.chain(steps).collect();
        }
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let (name, shown) = name.split_once(" as ").unwrap_or((name, name));
            found.insert(shown.to_string(), defined_in(sources, src, &steps, name));
        }
    }
    found
}

/// Returns the file that defines `name`, following re-exports from the module `path`.
fn defined_in(sources: &Sources, src: &Path, path: &[&str], name: &str) -> PathBuf {
    if !src.join(path[0]).exists() && !src.join(path[0]).with_extension("rs").exists() {
        // The item comes from another package.
        return src.join("lib.rs");
    }
    let file = sources.module(src, path);
    let again = sources.0[&file].contains("\npub use ") && file != src.join("lib.rs");
    let defines = sources.0[&file].lines().any(|line| public_item(line) == Some(name));
    match defines || !again {
        true => file,
        false => items(sources, src, &file).remove(name).unwrap_or(file),
    }
}

/// Returns the name of the public item that begins on a line.
fn public_item(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let kinds = ["const fn ", "fn ", "struct ", "enum ", "trait ", "const ", "type "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

/// Returns the public members of the type `name`, which `file` defines.
fn members(sources: &Sources, src: &Path, file: &Path, name: &str) -> BTreeSet<String> {
    let layer = file.strip_prefix(src).unwrap().iter().next().unwrap();
    let near = |path: &Path| path.strip_prefix(src).unwrap().iter().next() == Some(layer);
    // A higher layer can add methods to a type that it imports.
    let path = file.strip_prefix(src).unwrap().with_extension("");
    let path = path.iter().map(|step| step.to_str().unwrap()).filter(|step| *step != "mod");
    let import = format!("\nuse crate::{}::{name};\n", path.collect::<Vec<_>>().join("::"));
    let mut members = BTreeSet::new();
    for (path, text) in &sources.0 {
        for (call, body) in macro_bodies(text) {
            if text.contains(&format!("\n{call}!({name});")) {
                members.extend(public_members(body, false));
            }
        }
        for (header, body) in blocks(text) {
            let is_impl = (near(path) || text.contains(&import)) && is_inherent(header, name);
            let defines = path == file && public_item(header) == Some(name);
            let all = defines && (header.contains("enum ") || header.contains("trait "));
            if is_impl || defines {
                members.extend(public_members(body, all));
            }
        }
    }
    members
}

/// Returns the blocks of a file that begin at the left margin, each with its first line. Leaves out
/// those that need the feature `internals`.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_public = |block: &&str| !block.contains("feature = \"internals\"))]\n");
    text.split("\n}\n").filter(is_public).filter_map(|block| {
        let at = block.match_indices(" {\n").find_map(|(at, _)| {
            let line = block[..at].rfind('\n').map_or(0, |n| n + 1);
            let header = &block[line..at];
            (!header.starts_with([' ', '/', '#'])).then_some((line, at))
        })?;
        Some((&block[at.0..at.1], &block[at.1..]))
    })
}

/// Returns the `impl $type` blocks of macros, with the macros' names.
fn macro_bodies(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\nmacro_rules! ").skip(1).filter_map(|rest| {
        let (name, body) = rest.split_once(" {")?;
        Some((name, body.split("\n}\n").next()?))
    })
}

fn is_inherent(header: &str, name: &str) -> bool {
    let Some(rest) = header.strip_prefix("impl") else { return false };
    let rest = match rest.strip_prefix('<') {
        Some(generics) => generics.split_once("> ").map_or("", |(_, rest)| rest),
        None => rest.trim_start(),
    };
    rest.split('<').next() == Some(name)
}

/// Returns the names of the public members of a block, or with `all` of all its members.
fn public_members(body: &str, all: bool) -> BTreeSet<String> {
    let indent = if body.contains("\n        impl $") { 12 } else { 4 };
    let member = |line: &str| {
        let code = line.trim_start();
        if line.len() - code.len() != indent || code.starts_with(['/', '#', '}', ')']) {
            return None;
        }
        let code = match code.strip_prefix("pub ") {
            Some(code) => code,
            None if all => code,
            None => return None,
        };
        let kinds = ["const fn ", "fn ", "const ", "type "];
        let code = kinds.iter().find_map(|kind| code.strip_prefix(kind)).unwrap_or(code);
        let name = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        (!name.is_empty()).then(|| name.to_string())
    };
    body.lines().filter_map(member).collect()
}

/// Returns the paths of the public modules below `file`.
fn modules(sources: &Sources, src: &Path, path: &[&str]) -> Vec<Vec<String>> {
    let file = if path.is_empty() { src.join("lib.rs") } else { sources.module(src, path) };
    let mut found = vec![path.iter().map(|name| name.to_string()).collect()];
    let mut hidden = false;
    for line in sources.0[&file].lines() {
        if let Some(name) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';'))
            && !hidden
        {
            let inner: Vec<&str> = path.iter().copied().chain([name]).collect();
            found.extend(modules(sources, src, &inner));
        }
        hidden = line.starts_with("#[doc(hidden)]");
    }
    found
}

fn wrapped(head: &str, names: &BTreeSet<String>) -> String {
    let mut text = String::new();
    let mut line = head.to_string();
    for (n, name) in names.iter().enumerate() {
        let piece = if n == 0 { format!(": {name}") } else { format!(", {name}") };
        if line.chars().count() + piece.chars().count() >= WIDTH {
            text += &format!("{},\n", line.trim_end());
            line = format!("    {name}");
        } else {
            line += &piece;
        }
    }
    text + &line + "\n"
}

/// Removes the members that all of the [`READERS`] have from `types`. Returns them.
fn take_shared(types: &mut BTreeMap<String, BTreeSet<String>>) -> Option<BTreeSet<String>> {
    let of = |name: &&str| types.get(*name).cloned();
    let sets = READERS.iter().map(of).collect::<Option<Vec<_>>>()?;
    let shared = sets.into_iter().reduce(|a, b| &a & &b)?;
    for name in READERS {
        types.get_mut(name)?.retain(|member| !shared.contains(member));
    }
    Some(shared)
}

fn listing(src: &Path) -> String {
    let sources = Sources::read(src);
    let mut text = String::new();
    // An item that several modules re-export is listed once.
    let mut listed = BTreeSet::new();
    let mut modules = modules(&sources, src, &[]);
    // Modules that need a feature come last.
    modules.sort_by_key(|module| module.ends_with(&["sim".to_string()]));
    for module in modules {
        let path: Vec<&str> = module.iter().map(String::as_str).collect();
        let file = if path.is_empty() { src.join("lib.rs") } else { sources.module(src, &path) };
        let shown: Vec<&str> = [&["minikv"], &path[..]].concat();
        let mut types = BTreeMap::new();
        for (name, file) in items(&sources, src, &file) {
            if listed.insert((name.clone(), file.clone())) {
                let members = members(&sources, src, &file, &name);
                types.insert(name, members);
            }
        }
        if let Some(shared) = take_shared(&mut types) {
            types.insert(READERS.join(", "), shared);
        }
        if types.is_empty() {
            continue;
        }
        text += &format!("\n{}\n", shown.join("::"));
        for (name, members) in types.iter().filter(|(_, members)| members.len() > 1) {
            text += &wrapped(&format!("  {name}"), members);
        }
        let plain = types.into_iter().filter(|(_, members)| members.len() <= 1);
        let with_member = |(name, members): (String, BTreeSet<String>)| match members.first() {
            Some(member) => format!("{name}::{member}"),
            None => name,
        };
        let plain: BTreeSet<String> = plain.map(with_member).collect();
        if !plain.is_empty() {
            text += &wrapped("  and", &plain);
        }
    }
    text.trim_start().to_string()
}

#[test]
fn the_public_surface_is_the_one_that_is_listed() {
    let root = super::root();
    let now = listing(&root.join("src"));
    if std::env::var(REWRITE).is_ok_and(|value| value == "write") {
        fs::write(root.join(LISTING), &now).unwrap();
    }
    let kept = fs::read_to_string(root.join(LISTING)).unwrap_or_default();
    let gone: Vec<&str> = kept.lines().filter(|line| !now.lines().any(|l| l == *line)).collect();
    let new: Vec<&str> = now.lines().filter(|line| !kept.lines().any(|l| l == *line)).collect();
    assert!(
        gone.is_empty() && new.is_empty() && kept == now,
        "the public surface differs from {LISTING}.\nnot there any more:\n{}\nnew:\n{}\n\
         If that is meant, run this test with {REWRITE}=write.",
        gone.join("\n"),
        new.join("\n"),
    );
}
