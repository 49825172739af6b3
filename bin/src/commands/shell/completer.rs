//! Completion of commands, options and keys.

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use minikv::{Db, Readable};

use crate::args::Global;
use crate::codec::{Format, push_readable};
use crate::definition;
use crate::error::Result;

/// Maximum number of keys to choose from.
const MAX_KEYS: usize = 100;

/// Commands whose arguments are keys.
const WITH_KEYS: [&str; 4] = ["get", "put", "delete", "explain"];

/// Options whose values are keys or begin like keys.
const KEY_OPTIONS: [&str; 3] = ["--prefix", "--from", "--to"];

/// Completes the word before the cursor.
pub struct KeyCompleter {
    global: Global,
}

impl KeyCompleter {
    pub fn new(global: &Global) -> KeyCompleter {
        KeyCompleter { global: global.clone() }
    }

    /// Returns the words that may stand in place of `partial` after `words`.
    fn candidates(&self, words: &[String], partial: &str) -> Vec<String> {
        let begins = |name: &String| name.starts_with(partial);
        let commands = definition::shown();
        let Some(command) = words.first() else {
            let names = commands.get_subcommands().map(|command| command.get_name().to_string());
            let mut names: Vec<_> = names.chain(["help".into(), "exit".into()]).collect();
            names.retain(begins);
            return names;
        };
        if partial.starts_with("--") {
            let command = commands.find_subcommand(command);
            let options = command.into_iter().flat_map(|command| command.get_arguments());
            let names = options.filter_map(|option| option.get_long());
            return names.map(|name| format!("--{name}")).filter(begins).collect();
        }
        let last = words.last().map_or("", String::as_str);
        let is_key = match command.as_str() {
            "put" => words.len() == 1,
            command => WITH_KEYS.contains(&command) && !last.starts_with("--"),
        };
        match is_key || KEY_OPTIONS.contains(&last) {
            true => self.keys(partial).unwrap_or_default(),
            false => Vec::new(),
        }
    }

    /// Returns the first keys that begin with `partial`, as words.
    fn keys(&self, partial: &str) -> Result<Vec<String>> {
        let Some(shared) = &self.global.shared else { return Ok(Vec::new()) };
        let Ok(prefix) = Format::Escaped.decode(partial.as_bytes()) else { return Ok(Vec::new()) };
        if self.global.key_format() != Format::Escaped || !self.global.has_byte_order()? {
            return Ok(Vec::new());
        }
        let dir = self.global.db()?;
        let open = || Ok(Db::open_read_only(&dir, self.global.options(&dir)?)?);
        let mut words = Vec::new();
        for entry in shared.snapshot(open)?.range(prefix.clone()..) {
            let (key, _) = entry?;
            if !key.starts_with(&prefix) || words.len() == MAX_KEYS {
                break;
            }
            let mut text = Vec::new();
            push_readable(&key, &mut text);
            words.extend(String::from_utf8(text).ok().and_then(quoted));
        }
        Ok(words)
    }
}

impl Completer for KeyCompleter {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let start = word_start(&line[..pos]);
        let words = shlex::split(&line[..start]).unwrap_or_default();
        let partial = line[start..pos].trim_start_matches(['\'', '"']);
        let candidates = self.candidates(&words, partial).into_iter();
        let pair = |word: String| Pair { display: word.clone(), replacement: word };
        Ok((start, candidates.map(pair).collect()))
    }
}

impl Hinter for KeyCompleter {
    type Hint = String;
}

impl Highlighter for KeyCompleter {}
impl Validator for KeyCompleter {}
impl Helper for KeyCompleter {}

/// Returns a word that stands for `text`, with quotes if they are needed.
fn quoted(text: String) -> Option<String> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@+,%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Some(text);
    }
    Some(shlex::try_quote(&text).ok()?.into_owned())
}

/// Returns the position of the last word of `line`, which may have an open quote.
fn word_start(line: &str) -> usize {
    let (mut start, mut quote) = (0, None);
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c.is_ascii_whitespace() => start = at + 1,
            _ => {}
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_db::SharedDb;

    #[test]
    fn commands_options_and_keys_are_completed() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("db");
        let db = Db::create(&dir).unwrap();
        for key in ["user:1", "user:2", "user name", "caf\u{e9}", "x\\y"] {
            db.put(key, "").unwrap();
        }
        db.close().unwrap();
        let shared = Some(SharedDb::default());
        let completer = KeyCompleter::new(&Global { db: Some(dir), shared, ..Global::default() });
        let complete = |line: &str| {
            let start = word_start(line);
            let words = shlex::split(&line[..start]).unwrap();
            completer.candidates(&words, line[start..].trim_start_matches('\''))
        };
        assert_eq!(complete("ex"), ["explain", "exit"]);
        assert_eq!(complete("scan --rev"), ["--reverse"]);
        assert_eq!(complete("get user:"), ["user:1", "user:2"]);
        assert_eq!(complete("get user:1 'user n"), ["'user name'"]);
        assert_eq!(complete("put caf"), ["caf\u{e9}"]);
        assert_eq!(complete("put key user:"), [""; 0], "a value");
        assert_eq!(complete("scan --prefix user:2"), ["user:2"]);
        let quoted = complete("get x");
        assert_eq!(shlex::split(&quoted[0]).unwrap(), ["x\\\\y"], "{quoted:?}");
    }
}
