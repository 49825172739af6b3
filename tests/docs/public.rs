//! Lists the public API of the library and compares the listing with the committed one.
//!
//! The listing is made from the source in rustfmt's layout, and has one line per item: the items
//! that the public modules define or re-export, and the public methods, fields, variants and
//! associated constants of each type, in full, whether rustdoc shows them or not. Items that need
//! the feature `internals` are left out, and so are implementations of traits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LISTING: &str = "docs/public-api.txt";

/// Environment variable: if it is set to `write`, the test rewrites the committed listing.
const REWRITE: &str = "MINIKV_PUBLIC_API";

/// Maximum number of lines of a declaration, without comments.
const MAX_DECLARATION_LINES: usize = 50;

/// The public members of a type: their names, each with its declaration.
type Members = BTreeMap<String, String>;

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
                // Leaves out the unit tests, which are at the end of a file.
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
    for (at, _) in text.match_indices("\npub use ") {
        if is_internal(&text[..=at]) {
            continue;
        }
        let statement = text[at + "\npub use ".len()..].split(';').next().unwrap();
        let statement = statement.replace('\n', " ");
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
fn members(sources: &Sources, src: &Path, file: &Path, name: &str) -> Members {
    let layer = file.strip_prefix(src).unwrap().iter().next().unwrap();
    let near = |path: &Path| path.strip_prefix(src).unwrap().iter().next() == Some(layer);
    // A file of a higher layer can add methods to a type that it imports, so files that import the
    // type are searched, too.
    let path = file.strip_prefix(src).unwrap().with_extension("");
    let path = path.iter().map(|step| step.to_str().unwrap()).filter(|step| *step != "mod");
    let import = format!("use crate::{}::{name};\n", path.collect::<Vec<_>>().join("::"));
    let imports =
        |text: &str| ["\n", "\npub "].iter().any(|at| text.contains(&(at.to_string() + &import)));
    let mut members = Members::new();
    for (path, text) in &sources.0 {
        for (call, body) in macro_bodies(text) {
            if text.contains(&format!("\n{call}!({name});")) {
                let found = public_members(body, false).into_iter();
                members.extend(found.map(|(own, text)| (own, text.replace("$handle", name))));
            }
        }
        if path == file {
            members.extend(declared_by_macro(text, name));
        }
        for (header, body) in blocks(text) {
            let is_impl = (near(path) || imports(text)) && is_inherent(header, name);
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
/// the blocks that need the feature `internals`.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n}\n").filter_map(|block| {
        let (line, at) = block.match_indices(" {\n").find_map(|(at, _)| {
            let line = block[..at].rfind('\n').map_or(0, |n| n + 1);
            let header = &block[line..at];
            (!header.starts_with([' ', '/', '#'])).then_some((line, at))
        })?;
        (!is_internal(&block[..line])).then(|| (&block[line..at], &block[at..]))
    })
}

/// Returns whether the attributes at the end of `before` belong to an item that needs the feature
/// `internals`.
fn is_internal(before: &str) -> bool {
    let attributes = before.rsplit("\n\n").next().unwrap_or_default();
    let last = attributes.rsplit(";\n").next().unwrap_or_default();
    last.lines().any(is_gate)
}

fn is_gate(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("#[cfg(") && line.contains("feature = \"internals\"")
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

/// Returns the public members of a block, or all its members if `all` is set.
fn public_members(body: &str, all: bool) -> Members {
    let indent = if body.contains("\n        impl $") { 12 } else { 4 };
    let mut gated = false;
    let mut members = Members::new();
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        let code = line.trim();
        let begins = at + line.len() - line.trim_start().len();
        at += line.len();
        if line.len() - line.trim_start().len() != indent || code.starts_with(['/', '}', ')']) {
            continue;
        }
        if code.starts_with('#') {
            gated |= is_gate(code);
            continue;
        }
        if let Some(name) = member(code, all).filter(|_| !gated) {
            members.insert(name.to_string(), declaration(&body[begins..]));
        }
        gated = false;
    }
    members
}

/// Returns the declaration at the start of `code`, on one line and without its body, value or
/// documentation. A variant keeps its fields.
fn declaration(code: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with(['/', '#']);
    let first = code.lines().next().unwrap_or_default();
    let keeps_fields = first.ends_with(" {") && !first.starts_with("pub ") && !first.contains('(');
    let keeps_fields = keeps_fields && first.starts_with(|c: char| c.is_ascii_uppercase());
    let has_value = first.contains("const ") && !first.contains("fn ");
    let is_fn = first.contains("fn ");
    let code = code.lines().filter(is_code).take(MAX_DECLARATION_LINES);
    let code = code.collect::<Vec<_>>().join("\n");
    let (mut depth, mut last, mut end) = (0i32, ' ', code.len());
    for (at, c) in code.char_indices() {
        let is_end = match c {
            '{' => !keeps_fields,
            ',' => !is_fn,
            '=' => has_value,
            ';' => true,
            '}' => depth == 0,
            _ => false,
        };
        if is_end && depth == 0 {
            end = at;
            break;
        }
        match c {
            '(' | '[' | '<' | '{' => depth += 1,
            '>' if last == '-' || last == '=' => {}
            ')' | ']' | '>' | '}' => depth -= 1,
            _ => {}
        }
        last = c;
    }
    let text = code[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.replace("( ", "(").replace(", )", ")").replace(", }", " }");
    // Whether a parameter is changed is the function's own business.
    let text = text.replace("(mut ", "(").replace(", mut ", ", ");
    text.trim_end_matches(',').to_string()
}

/// Returns the name of the member whose definition begins with the line `code`, if the member is
/// public or `all` is set.
fn member(code: &str, all: bool) -> Option<&str> {
    let code = match code.strip_prefix("pub ") {
        Some(code) => code,
        None if all => code,
        None => return None,
    };
    let kinds = ["const fn ", "fn ", "const ", "type "];
    let code = kinds.iter().find_map(|kind| code.strip_prefix(kind)).unwrap_or(code);
    let name = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then_some(name)
}

/// Returns the public members of the type `name`, if a macro of this file declares the type from a
/// list of names, one per line.
fn declared_by_macro(text: &str, name: &str) -> Members {
    let mut members = Members::new();
    for (call, body) in macro_bodies(text) {
        for block in body.split("\n        }\n") {
            let heads =
                [format!("        pub struct {name} {{\n"), format!("        impl {name} {{\n")];
            let Some(own) = heads.iter().find_map(|head| block.split_once(head)) else { continue };
            members.extend(public_members(&own.1.replace("\n            ", "\n    "), false));
            if own.1.contains("pub $")
                && let Some((_, list)) = text.split_once(&format!("\n{call}! {{\n"))
            {
                let names = list.split("\n}\n").next().unwrap().lines();
                let names = names.filter_map(|line| line.trim().strip_suffix(','));
                members.extend(names.map(|name| (name.to_string(), format!("pub {name}: u64"))));
            }
        }
    }
    members
}

/// Returns the paths of the public module `path` and of the public modules below it, except modules
/// marked `#[doc(hidden)]`.
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

/// Returns the declaration of the item `name`, which `file` defines or re-exports from another
/// package.
fn item(sources: &Sources, file: &Path, name: &str) -> String {
    let text = &sources.0[file];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if public_item(line) == Some(name) {
            let declared = declaration(&text[at..]);
            let is_fn = line.contains("fn ");
            let end =
                if is_fn { declared.len() } else { declared.find('(').unwrap_or(declared.len()) };
            return declared[..end].to_string();
        }
        at += line.len();
    }
    format!("pub {name}")
}

/// Returns the line for an item: its declaration, with its whole path in place of its name.
fn line(path: &str, name: &str, declared: &str) -> String {
    let declared = declared.strip_prefix("pub ").unwrap_or(declared);
    let is_name = |at: &usize| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !declared[..*at].ends_with(is_part) && !declared[at + name.len()..].starts_with(is_part)
    };
    let at = declared.match_indices(name).map(|(at, _)| at).find(is_name).unwrap_or(0);
    format!("pub {}{path}::{}\n", &declared[..at], &declared[at..])
}

/// Returns the listing of the library with these source files.
fn listing(src: &Path) -> String {
    let sources = Sources::read(src);
    // An item that several modules re-export is listed once.
    let mut listed = BTreeSet::new();
    let mut modules = modules(&sources, src, &[]);
    // Modules that need a feature come last.
    modules.sort_by_key(|module| module.ends_with(&["sim".to_string()]));
    let mut text = String::new();
    for module in modules {
        let path: Vec<&str> = module.iter().map(String::as_str).collect();
        let file = if path.is_empty() { src.join("lib.rs") } else { sources.module(src, &path) };
        let path = [&["minikv"], &path[..]].concat().join("::");
        for (name, file) in items(&sources, src, &file) {
            if listed.insert((name.clone(), file.clone())) {
                text += &line(&path, &name, &item(&sources, &file, &name));
                let path = format!("{path}::{name}");
                for (name, declared) in members(&sources, src, &file, &name) {
                    text += &line(&path, &name, &declared);
                }
            }
        }
    }
    text
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

#[test]
fn declarations_are_listed_in_full() {
    let text = "
pub enum Shape {
    /// Nothing.
    Empty,
    Pair(u64, Vec<(u8, u8)>),
    Io {
        /// The operation.
        op: &'static str,
        #[serde(skip)]
        path: PathBuf,
    },
}

impl<H> Shape {
    pub const MAX: u32 = 7;

    pub fn range<K: AsRef<[u8]>>(
        &self,
        range: impl Fn(&K) -> bool,
    ) -> Result<Iter>
    where
        K: Copy,
    {
        panic!();
    }

    fn hidden(&self) {}
}
";
    let lines: Vec<String> = blocks(text)
        .flat_map(|(header, body)| public_members(body, header.contains("enum")))
        .map(|(name, declared)| line("minikv::Shape", &name, &declared))
        .collect();
    let expected = [
        "pub minikv::Shape::Empty\n",
        "pub minikv::Shape::Io { op: &'static str, path: PathBuf }\n",
        "pub minikv::Shape::Pair(u64, Vec<(u8, u8)>)\n",
        "pub const minikv::Shape::MAX: u32\n",
        "pub fn minikv::Shape::range<K: AsRef<[u8]>>(&self, range: impl Fn(&K) -> bool) -> \
         Result<Iter> where K: Copy\n",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn items_that_need_the_feature_internals_are_left_out() {
    let text = "
pub struct Disk {
    /// Its name.
    pub name: String,
    size: u64,
}

/// For tests.
#[cfg(any(test, feature = \"internals\"))]
#[doc(hidden)]
impl Disk {
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Disk {
    #[cfg(any(test, feature = \"internals\"))]
    #[doc(hidden)]
    pub fn break_down(&self) {}

    pub fn sync(&self) {}
}
";
    let members: Members = blocks(text).flat_map(|(_, body)| public_members(body, false)).collect();
    assert!(members.keys().eq(["name", "sync"]), "{members:?}");
}
