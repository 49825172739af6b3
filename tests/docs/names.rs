//! Names defined in source files, grouped by type and by module. The names are found without a
//! parser: the code relies on the layout that rustfmt produces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// The indentation that rustfmt gives to the inside of a block.
const INDENT: usize = 4;

/// The names defined in some source files.
#[derive(Default)]
pub struct Names {
    /// Methods, constants, variants and fields of each type.
    members: BTreeMap<String, BTreeSet<String>>,
    /// Items that each module defines or re-exports. A module is named after its file or, if the
    /// file is `mod.rs`, after its folder.
    items: BTreeMap<String, BTreeSet<String>>,
    functions: BTreeSet<String>,
    /// Top-level items, except modules and re-exports.
    defined: BTreeSet<String>,
}

/// Returns the names in `span` if it is a path or a call: `Type::method`, `function()`.
pub fn path_of(span: &str) -> Option<Vec<&str>> {
    let (path, call) = match span.split_once('(') {
        Some((path, rest)) => (path, rest.ends_with(')')),
        None => (span, false),
    };
    let names: Vec<&str> = path.split("::").collect();
    let is_name = |name: &&str| {
        let mut chars = name.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        first && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    // `Some(..)` and `Ok(..)` are not calls of functions.
    let call = call && path.starts_with(|c: char| c.is_ascii_lowercase());
    (names.iter().all(is_name) && (call || names.len() > 1)).then_some(names)
}

impl Names {
    pub fn of(files: &[PathBuf]) -> Names {
        let mut names = Names::default();
        for path in files {
            let source = fs::read_to_string(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            let file = path.file_stem().unwrap().to_str().unwrap();
            let folder = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
            let module = match file {
                "lib" => "minikv",
                "mod" => folder,
                file => file,
            };
            names.read(module, &source);
        }
        names
    }

    /// Returns whether the last name of `path` is defined by the type or module named just before
    /// it. A path of one name must be a function.
    pub fn contain(&self, path: &[&str]) -> bool {
        match path {
            [.., owner, name] => {
                let of = |map: &BTreeMap<String, BTreeSet<String>>| {
                    map.get(*owner).is_some_and(|names| names.contains(*name))
                };
                of(&self.members) || of(&self.items)
            }
            [function] => self.functions.contains(*function),
            [] => false,
        }
    }

    /// Returns whether `path` is an item that these source files define, or an associated item of a
    /// type.
    pub fn define(&self, path: &[&str]) -> bool {
        match path {
            [name] => self.defined.contains(*name),
            [owner, name] => self.members.get(*owner).is_some_and(|names| names.contains(*name)),
            _ => false,
        }
    }

    fn read(&mut self, module: &str, source: &str) {
        let mut macro_name = String::new();
        // Blocks that enclose the current line. For each block: its indentation, the type that it
        // belongs to, and whether it contains fields or variants.
        let mut around: Vec<(usize, String, bool)> = Vec::new();
        for line in source.lines() {
            let code = line.trim_start();
            let indent = line.len() - code.len();
            if code.is_empty() || code.starts_with("//") {
                continue;
            }
            while around.last().is_some_and(|(of, ..)| *of >= indent) {
                around.pop();
            }
            let owner = around.last().cloned();
            if let Some((of, owner, fields)) = &owner
                && indent == of + INDENT
            {
                self.members.entry(owner.clone()).or_default().extend(member(code, *fields));
            }
            if let Some(name) = code.strip_prefix("macro_rules! ") {
                macro_name = words(name).next().unwrap_or_default();
            } else if let Some((name, of)) = call_with_a_type(code) {
                let members = self.members.get(&format!("{name}!")).cloned().unwrap_or_default();
                self.members.entry(of).or_default().extend(members);
            } else if let Some((kind, name)) = definition(code) {
                if owner.is_none() {
                    self.items.entry(module.to_string()).or_default().insert(name.clone());
                }
                if kind == "fn" {
                    self.functions.insert(name.clone());
                }
                if indent == 0 && kind != "mod" {
                    self.defined.insert(name.clone());
                }
                if ["struct", "enum", "trait"].contains(&kind) && line.ends_with('{') {
                    around.push((indent, name, kind != "trait"));
                }
            } else if code.starts_with("impl $") {
                // The members of this block belong to every type for which the macro is called
                // later in the file.
                around.push((indent, format!("{macro_name}!"), false));
            } else if let Some(owner) = implemented(code) {
                around.push((indent, owner, false));
            } else if let Some(list) = code.strip_prefix("pub use ") {
                let again = self.items.entry(module.to_string()).or_default();
                again.extend(words(list));
            }
        }
    }
}

/// Parses a call of a macro with the name of a type, such as `reads!(Db);`. Returns the names of
/// the macro and of the type.
fn call_with_a_type(code: &str) -> Option<(&str, String)> {
    let (name, rest) = code.split_once("!(")?;
    let of = rest.strip_suffix(");")?;
    let is_type = of.starts_with(|c: char| c.is_ascii_uppercase()) && words(of).count() == 1;
    is_type.then(|| (name, of.to_string()))
}

/// Returns `code` without visibility and qualifiers.
fn unqualified(code: &str) -> &str {
    let mut rest = code;
    loop {
        let before = rest;
        for word in ["pub ", "pub(crate) ", "pub(super) ", "unsafe ", "const ", "async "] {
            let is_item = word == "const " && !rest.starts_with("const fn");
            if !is_item {
                rest = rest.strip_prefix(word).unwrap_or(rest);
            }
        }
        if rest == before {
            return rest;
        }
    }
}

/// Returns the kind and name of an item.
fn definition(code: &str) -> Option<(&'static str, String)> {
    let code = unqualified(code);
    for kind in ["fn", "struct", "enum", "trait", "mod", "const", "static", "type"] {
        if let Some(rest) = code.strip_prefix(kind).and_then(|rest| rest.strip_prefix(' ')) {
            return Some((kind, words(rest).next()?));
        }
    }
    None
}

/// Returns the name that a line inside a type's block adds to the type: an item, a field or a
/// variant.
fn member(code: &str, fields: bool) -> Option<String> {
    match definition(code) {
        Some((_, name)) => Some(name),
        None if fields => words(unqualified(code)).next(),
        None => None,
    }
}

/// Returns the type of an `impl` block.
fn implemented(code: &str) -> Option<String> {
    let rest = code.strip_prefix("impl").filter(|_| code.ends_with('{'))?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => after_generics(generics),
        None => rest,
    };
    let of = rest.rsplit_once(" for ").map_or(rest, |(_, of)| of);
    let of = of.split(['<', '{']).next()?.trim().trim_start_matches('&');
    words(of).last()
}

/// Returns the text after the `>` that closes the generic parameters at the start of `text`.
fn after_generics(text: &str) -> &str {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += match c {
            '<' => 1,
            '>' => -1,
            _ => 0,
        };
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    ""
}

/// Returns the words of `text`.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).map(str::to_string)
}
