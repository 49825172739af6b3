//! Finds the functions of a source file by the layout that rustfmt produces, without a parser.

use std::ops::Range;

/// A function of a source file.
#[derive(Clone, Debug)]
pub struct Function {
    /// The type of the `impl` or `trait` block that contains the function.
    pub owner: Option<String>,
    pub name: String,
    /// The bytes of the function, from the line of its name to its closing brace.
    pub range: Range<usize>,
    /// The bytes of the lines after its signature.
    pub body: Range<usize>,
}

impl Function {
    /// Returns the name, with the type before it if there is one: `Type::name`.
    pub fn path(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{owner}::{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Returns the functions of a source file, except those of its tests.
pub fn functions_of(source: &str) -> Vec<Function> {
    let shipped = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let mut ends: Vec<usize> = shipped.match_indices('\n').map(|(at, _)| at + 1).collect();
    ends.push(shipped.len());
    let lines: Vec<&str> = shipped.lines().collect();
    let mut owner = None;
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        if indent.is_empty() && (code.starts_with("impl") || code.contains("trait ")) {
            owner = block_owner(code);
        } else if indent.is_empty() && code.starts_with('}') {
            owner = None;
        }
        let Some(name) = function_name(code) else { continue };
        // Finds the last line of the signature, and then the line that closes the body, if there is
        // a body.
        let is_signature_end = |line: &&str| line.ends_with(['{', ';', '}']);
        let Some(begin) = lines[at..].iter().position(is_signature_end) else { continue };
        let (begin, close) = (at + begin, format!("{indent}}}"));
        let closes = |line: &&str| line.starts_with(&close);
        let len = match lines[begin].ends_with('{') {
            true => lines[begin..].iter().position(closes).unwrap_or(0),
            false => 0,
        };
        let owner = owner.clone().filter(|_| !indent.is_empty());
        let (start, end) = (at.checked_sub(1).map_or(0, |before| ends[before]), ends[begin + len]);
        found.push(Function { owner, name, range: start..end, body: ends[begin]..end });
    }
    found
}

/// Returns the type of an `impl` block, or the trait of a `trait` block.
fn block_owner(code: &str) -> Option<String> {
    let code = code.split(" where").next()?.trim_end_matches('{').trim_end();
    let of = match code.rsplit_once("trait ") {
        Some((_, name)) => name.split(':').next()?,
        None => code.rsplit_once(" for ").map_or(code, |(_, of)| of),
    };
    let of = of.trim_start_matches("impl").trim_start_matches('&');
    let of = if of.starts_with('<') { of.rsplit("> ").next()? } else { of };
    let name = of.trim().split('<').next()?.rsplit([' ', ':']).next()?;
    Some(name.to_string())
}

fn function_name(code: &str) -> Option<String> {
    let (before, rest) = code.split_once("fn ")?;
    // `pub(in path)` is the one visibility with a space.
    let before = match before.split_once("pub(in ") {
        Some(("", rest)) => rest.split_once(')')?.1,
        _ => before,
    };
    let words = ["pub", "pub(crate)", "pub(super)", "const", "unsafe"];
    let is_definition = before.split_whitespace().all(|word| words.contains(&word));
    let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    (is_definition && !name.is_empty()).then(|| name.to_string())
}
