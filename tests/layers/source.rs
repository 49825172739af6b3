//! A source file as the rules see it: comments and literals are blanked, and test code is marked.

use std::ops::Range;
use std::path::Path;

/// A Rust file in three versions. All versions have the same length in bytes, so an offset means
/// the same place in each version.
pub struct Source {
    /// Path from the root of the repository, with `/` as separator.
    pub path: String,
    /// The original text.
    pub text: String,
    /// The text after the contents of comments, strings and character literals were replaced by
    /// blanks.
    pub code: String,
    /// `code` after the items under `#[cfg(test)]` were replaced by blanks, too. If the file is a
    /// test module, everything is blank.
    pub shipped: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let code = blank_literals(text);
        let mut shipped = code.clone().into_bytes();
        for range in test_items(&code) {
            blank(&mut shipped[range]);
        }
        let shipped = String::from_utf8(shipped).expect("blanking keeps UTF-8");
        Source { path: path.to_string(), text: text.to_string(), code, shipped }
    }

    /// Returns the line of a byte offset, counted from 1.
    pub fn line(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    /// Returns the number of lines that hold code outside of `#[cfg(test)]` items.
    pub fn shipped_lines(&self) -> usize {
        self.shipped.lines().filter(|line| !line.trim().is_empty()).count()
    }

    /// Returns each function outside of tests: where it begins, its name and its number of lines,
    /// from the line of the `fn` to the line of the closing brace.
    pub fn functions(&self) -> Vec<(usize, String, usize)> {
        let mut functions = Vec::new();
        let mut words = words(&self.shipped).peekable();
        while let Some((at, word)) = words.next() {
            let Some((named, name)) = words.peek().filter(|_| word == "fn") else { continue };
            let Some(open) = body(&self.shipped, named + name.len()) else { continue };
            let text = &self.shipped[at..closing(&self.shipped, open)];
            functions.push((at, name.to_string(), text.matches('\n').count() + 1));
        }
        functions
    }

    /// Returns the files and folders of modules that this file declares under `#[cfg(test)]`.
    fn test_modules(&self) -> Vec<String> {
        let folder = match self.path.rsplit_once('/') {
            Some((folder, "mod.rs" | "lib.rs" | "main.rs")) => folder.to_string(),
            _ => self.path.trim_end_matches(".rs").to_string(),
        };
        let beside = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut modules = Vec::new();
        for item in test_items(&self.code) {
            let text = &self.text[item.clone()];
            if let Some((_, path)) = text.split_once("#[path = \"") {
                let end = path.find('"').expect("the end of the path");
                modules.push(format!("{beside}/{}", &path[..end]));
            }
            let named = words(&self.code[item]).skip_while(|(_, word)| *word != "mod").nth(1);
            if let (true, Some((_, name))) = (text.ends_with(';'), named) {
                modules.extend([format!("{folder}/{name}.rs"), format!("{folder}/{name}/")]);
            }
        }
        modules
    }

    /// Marks the whole file as test code.
    fn set_test(&mut self) {
        let mut shipped = std::mem::take(&mut self.shipped).into_bytes();
        blank(&mut shipped);
        self.shipped = String::from_utf8(shipped).expect("blanks are UTF-8");
    }
}

/// Blanks the files that other files declare as test modules.
pub fn mark_tests(sources: &mut [Source]) {
    let modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in sources {
        let is_in = |module: &String| match module.ends_with('/') {
            true => source.path.starts_with(module),
            false => source.path == *module,
        };
        if modules.iter().any(is_in) {
            source.set_test();
        }
    }
}

/// Returns every Rust file under `root/folder` for each folder, except build output.
pub fn read_all(root: &Path, folders: &[&str]) -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in folders {
        walk(root, &root.join(folder), &mut sources);
    }
    mark_tests(&mut sources);
    sources
}

fn walk(root: &Path, dir: &Path, sources: &mut Vec<Source>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.map(|entry| entry.expect("a directory entry")) {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            walk(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).expect("below the root");
            let name = name.to_str().expect("a UTF-8 path").replace('\\', "/");
            let text = std::fs::read_to_string(&path).expect("a readable source file");
            sources.push(Source::new(&name, &text));
        }
    }
}

pub fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

/// Returns the text with comments and the contents of strings and character literals blanked.
fn blank_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut i = 0;
    while i < bytes.len() {
        let after = |n: usize| bytes.get(i + n).copied().unwrap_or(0);
        let end = match bytes[i] {
            b'/' if after(1) == b'/' => line_end(bytes, i),
            b'/' if after(1) == b'*' => comment_end(bytes, i),
            b'"' => string_end(bytes, i),
            b'r' if raw_hashes(bytes, i).is_some() => raw_string_end(bytes, i),
            b'\'' => char_end(text, i),
            _ => i + 1,
        };
        if end > i + 1 {
            let quoted = matches!(bytes[i], b'"' | b'r');
            let inside = if quoted { i + 1..end - 1 } else { i..end };
            blank(&mut out[inside]);
        }
        i = end;
    }
    String::from_utf8(out).expect("blanking keeps UTF-8")
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| from + n)
}

fn comment_end(bytes: &[u8], from: usize) -> usize {
    let (mut depth, mut i) = (0, from);
    while i + 1 < bytes.len() {
        match &bytes[i..i + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut i = from + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// Returns the number of hashes if a raw string begins with the `r` at `from`.
fn raw_hashes(bytes: &[u8], from: usize) -> Option<usize> {
    let before = from.checked_sub(1).map(|i| bytes[i]);
    let prefixed = matches!(before, Some(b'b' | b'c')) && (from < 2 || !is_ident(bytes[from - 2]));
    if before.is_some_and(is_ident) && !prefixed {
        return None;
    }
    let hashes = bytes[from + 1..].iter().take_while(|&&b| b == b'#').count();
    (bytes.get(from + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

fn raw_string_end(bytes: &[u8], from: usize) -> usize {
    let hashes = raw_hashes(bytes, from).expect("a raw string");
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = from + 2 + hashes;
    let found = bytes[body..].windows(close.len()).position(|window| window == close);
    found.map_or(bytes.len(), |n| body + n + close.len())
}

/// Returns the end of the character literal at `from`. If the quote at `from` begins a lifetime,
/// returns the end of the quote.
fn char_end(text: &str, from: usize) -> usize {
    let rest = &text[from + 1..];
    let mut chars = rest.char_indices();
    match chars.next() {
        Some((_, '\\')) => {
            let close = rest.char_indices().skip(2).find(|&(_, c)| c == '\'');
            close.map_or(text.len(), |(n, _)| from + 1 + n + 1)
        }
        Some(_) => match chars.next() {
            Some((n, '\'')) => from + 1 + n + 1,
            _ => from + 1,
        },
        None => from + 1,
    }
}

/// Returns the ranges of items under `#[cfg(test)]`, including their attributes.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut from = 0;
    while let Some(n) = code[from..].find("#[cfg(") {
        let start = from + n;
        let end = closing(code, start + 1);
        let condition = &code[start..end];
        from = end;
        if words(condition).any(|(_, word)| word == "test") && !condition.contains("not(test)") {
            from = item_end(code, end);
            ranges.push(start..from);
        }
    }
    ranges
}

/// Returns the end of the item that begins at `from`. The item may begin with attributes.
fn item_end(code: &str, from: usize) -> usize {
    let mut i = from;
    let mut is_use = false;
    while i < code.len() {
        let rest = &code[i..];
        match rest.as_bytes()[0] {
            b'#' | b'(' | b'[' => i = closing(code, i + usize::from(rest.starts_with('#'))),
            b'{' => {
                i = closing(code, i);
                if !is_use {
                    return i;
                }
            }
            b';' => return i + 1,
            _ => {
                is_use |= rest.starts_with("use ");
                i += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
    }
    code.len()
}

/// Returns the start of a function's body, given the position `from` in its signature; `None` if
/// the function is only declared.
fn body(code: &str, from: usize) -> Option<usize> {
    let mut i = from;
    while let Some(byte) = code.as_bytes().get(i) {
        match byte {
            b'(' | b'[' => i = closing(code, i),
            b'{' => return Some(i),
            b';' => return None,
            _ => i += 1,
        }
    }
    None
}

/// Returns the end of the bracketed text that begins at `open`.
pub fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (n, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return n + 1;
        }
    }
    code.len()
}

/// Returns the identifiers of `code`, with their offsets.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = |i: usize| {
        let bytes = code.as_bytes();
        is_ident(bytes[i]) && (i == 0 || !is_ident(bytes[i - 1]))
    };
    (0..code.len()).filter(move |&i| starts(i)).map(|i| {
        let len = code.as_bytes()[i..].iter().take_while(|&&b| is_ident(b)).count();
        (i, &code[i..i + len])
    })
}

/// Returns every path that begins with the word `root`, with the offset of the word. The braces of
/// a `use` are expanded: `crate::{a, b::c}` gives `[a]` and `[b, c]`.
pub fn paths(code: &str, root: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (offset, word) in words(code) {
        let rest = &code[offset + word.len()..];
        if word == root && rest.starts_with("::") && !code[..offset].ends_with("::") {
            let mut leaves = Vec::new();
            tree(&rest[2..], &mut Vec::new(), &mut leaves);
            found.extend(leaves.into_iter().map(|leaf| (offset, leaf)));
        }
    }
    found
}

/// Reads one branch of a `use` tree and returns the rest of `code`.
fn tree<'a>(code: &'a str, stem: &mut Vec<String>, leaves: &mut Vec<Vec<String>>) -> &'a str {
    let code = code.trim_start();
    if let Some(mut rest) = code.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            let before = rest.len();
            rest = tree(rest, stem, leaves);
            rest = rest.trim_start().strip_prefix(',').unwrap_or(rest);
            if rest.len() == before {
                return rest;
            }
        }
    }
    let len = code.bytes().take_while(|&b| is_ident(b) || b == b'*').count();
    stem.push(code[..len].to_string());
    let rest = match code[len..].strip_prefix("::") {
        Some(rest) if !rest.starts_with('<') => tree(rest, stem, leaves),
        _ => {
            leaves.push(stem.clone());
            past_rename(&code[len..])
        }
    };
    stem.pop();
    rest
}

fn past_rename(code: &str) -> &str {
    match code.trim_start().strip_prefix("as ") {
        Some(name) => {
            name.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_')
        }
        None => code,
    }
}
