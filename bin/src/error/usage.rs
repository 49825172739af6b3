//! Shortens the command-line parser's multi-line errors to one line.

use clap::error::{ContextKind, ContextValue};

use super::one_line;
use crate::codec::cut;

/// Maximum number of characters of what was typed that a message repeats.
const MAX_SHOWN_CHARS: usize = 100;

/// Describes the error on the command line, and refers to a help page: the page of `command`, if
/// the user named a command.
pub fn message(mut error: clap::Error, command: Option<String>) -> String {
    drop_far_fetched_tips(&mut error);
    show_typed(&mut error);
    let page = error.to_string();
    let mut message = String::new();
    for line in page.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        // A tip that is this long repeats a long word that was typed.
        let is_long_tip = line.starts_with("tip:") && line.chars().count() > 2 * MAX_SHOWN_CHARS;
        if !line.is_empty() && !is_long_tip {
            message.push_str(match line.starts_with("tip:") {
                true => "; ",
                false => " ",
            });
            message.push_str(line);
        }
    }
    let message = message.trim();
    let message = one_line(message.strip_prefix("error: ").unwrap_or(message));
    let help = command.map_or(String::new(), |command| format!(" {command}"));
    format!("{message}; try `minikv help{help}`")
}

/// Drops suggestions that are too different from what was typed. The parser suggests the nearest
/// name, however different it is, such as `bench` for `nosuch`.
fn drop_far_fetched_tips(error: &mut clap::Error) {
    let pairs = [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ];
    for (typed, suggested) in pairs {
        let Some(ContextValue::String(typed)) = error.get(typed) else { continue };
        let keep = match error.get(suggested) {
            Some(ContextValue::String(name)) => is_slip(typed, name),
            Some(ContextValue::Strings(names)) => names.iter().any(|name| is_slip(typed, name)),
            _ => continue,
        };
        if !keep {
            error.remove(suggested);
        }
    }
}

/// Escapes control characters in what was typed, and cuts it if it is long.
fn show_typed(error: &mut clap::Error) {
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidSubcommand, ContextKind::InvalidValue]
    {
        if let Some(ContextValue::String(typed)) = error.get(kind) {
            let shown = cut(&one_line(typed), MAX_SHOWN_CHARS);
            error.insert(kind, ContextValue::String(shown));
        }
    }
}

/// Returns whether a user who meant the word `meant` may have typed `typed`, with one or two typing
/// errors.
fn is_slip(typed: &str, meant: &str) -> bool {
    let name = |text: &str| text.trim_start_matches('-').chars().collect::<Vec<_>>();
    let (typed, meant) = (name(typed), name(meant));
    distance(&typed, &meant) <= if meant.len() <= 3 { 1 } else { 2 }
}

/// Returns the Levenshtein distance between `a` and `b`: the number of characters to insert, remove
/// or replace to turn one into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slips_of_the_fingers_are_tips() {
        for (typed, meant) in [("gte", "get"), ("scna", "scan"), ("--fromat", "--format")] {
            assert_eq!(is_slip(typed, meant), typed != "gte", "{typed}");
        }
        assert!(is_slip("gett", "get"));
        assert!(!is_slip("nosuch", "bench") && !is_slip("--limit", "--bloom-bits"));
    }
}
