//! The appearance of entries: as their format prescribes, or easier to read, on a terminal.

use crate::args::Global;
use crate::codec::{Format, cut, embeddable_json, push_readable};
use crate::output;

/// Colours of a terminal, as parameters of its escape sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
}

impl Colour {
    /// The escape sequence that ends a colour.
    const END: &str = "\x1b[0m";

    /// Returns the escape sequence that begins the colour.
    fn begin(self) -> String {
        format!("\x1b[{}m", self as u8)
    }
}

/// The way in which entries are printed.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub format: Format,
    /// Whether values that are JSON are printed as such, and not as strings.
    json_values: bool,
    /// Whether printable Unicode stands for itself in `escaped`.
    is_readable: bool,
    is_coloured: bool,
}

impl Style {
    /// Returns the style of a file or a pipe.
    pub fn plain(format: Format) -> Style {
        Style { format, json_values: false, is_readable: false, is_coloured: false }
    }

    /// Returns the style of stdout. On a terminal, printable Unicode is shown as text unless
    /// `--format` is given.
    pub fn of_stdout(global: &Global) -> Style {
        let is_readable = global.format.is_none() && output::stdout_is_terminal();
        let is_coloured = output::stdout_has_colours();
        Style { is_readable, is_coloured, ..Style::plain(global.format()) }
    }

    /// Returns the style in which, if `json_values` is true, values that are JSON are printed as
    /// such. The format must be JSON then.
    pub fn with_json_values(self, json_values: bool) -> Style {
        Style { json_values, ..self }
    }

    /// Appends a key.
    pub fn key(self, key: &[u8], text: &mut Vec<u8>) {
        self.coloured(Colour::Cyan, text, |text| self.bytes(key, text));
    }

    /// Appends a value.
    pub fn value(self, value: &[u8], text: &mut Vec<u8>) {
        match embeddable_json(value) {
            Some(json) if self.json_values => text.extend_from_slice(json),
            _ => self.bytes(value, text),
        }
    }

    /// Appends an entry and a newline.
    pub fn entry(self, key: &[u8], value: &[u8], text: &mut Vec<u8>) {
        if self.json_values {
            text.extend_from_slice(b"{\"key\":");
            self.bytes(key, text);
            text.extend_from_slice(b",\"value\":");
            self.value(value, text);
            text.extend_from_slice(b"}\n");
        } else if self.format == Format::Escaped {
            self.key(key, text);
            text.push(b'\t');
            self.bytes(value, text);
            text.push(b'\n');
        } else {
            self.format.encode_entry(key, value, text);
        }
    }

    /// Appends a key without its value, and a newline.
    pub fn key_line(self, key: &[u8], text: &mut Vec<u8>) {
        if self.format == Format::Escaped {
            self.key(key, text);
            text.push(b'\n');
        } else {
            self.format.encode_key_line(key, text);
        }
    }

    /// Appends what `push` appends, in a colour if stdout has colours.
    pub fn coloured(self, colour: Colour, text: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>)) {
        if self.is_coloured {
            text.extend_from_slice(colour.begin().as_bytes());
        }
        push(text);
        if self.is_coloured {
            text.extend_from_slice(Colour::END.as_bytes());
        }
    }

    fn bytes(self, bytes: &[u8], text: &mut Vec<u8>) {
        match self.is_readable {
            true => push_readable(bytes, text),
            false => self.format.encode(bytes, text),
        }
    }
}

/// Returns `text` in a colour if stdout has colours.
pub fn coloured(colour: Colour, text: &str) -> String {
    match output::stdout_has_colours() {
        true => format!("{}{text}{}", colour.begin(), Colour::END),
        false => text.to_string(),
    }
}

/// Returns the text for a key in a report on stdout: `escaped`, but with printable Unicode as text
/// on a terminal.
pub fn shown(key: &[u8]) -> String {
    let mut text = Vec::new();
    match output::stdout_is_terminal() {
        true => push_readable(key, &mut text),
        false => Format::Escaped.encode(key, &mut text),
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns [`shown`], or its first `chars` characters and an ellipsis if it is longer.
pub fn shortened(key: &[u8], chars: usize) -> String {
    // A character has at most four bytes, so the rest of a long key need not be converted.
    cut(&shown(&key[..key.len().min((chars + 1) * 4)]), chars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_text_is_read_back() {
        let style = Style { is_readable: true, ..Style::plain(Format::Escaped) };
        let shown = |bytes: &[u8]| {
            let mut text = Vec::new();
            style.value(bytes, &mut text);
            assert_eq!(Format::Escaped.decode(&text).unwrap(), bytes);
            String::from_utf8(text).unwrap()
        };
        // A combining accent, and a vowel sign.
        for text in ["café", "cafe\u{301}", "日本語", "हिन्दी", "🦀", "it's \"so\""]
        {
            assert_eq!(shown(text.as_bytes()), text);
        }
        assert_eq!(shown(b"caf\xc3\xa9\xc3\\\t\xff"), "café\\xc3\\\\\\x09\\xff");
        // An override of the direction, a zero-width space, a control character, and private use.
        for (c, bytes) in [
            ('\u{202e}', "\\xe2\\x80\\xae"),
            ('\u{200b}', "\\xe2\\x80\\x8b"),
            ('\u{85}', "\\xc2\\x85"),
            ('\u{e000}', "\\xee\\x80\\x80"),
        ] {
            assert_eq!(shown(c.to_string().as_bytes()), bytes);
        }
    }

    #[test]
    fn json_values_are_embedded_only_if_the_same_bytes_are_read_back() {
        let style = Style { json_values: true, ..Style::plain(Format::Json) };
        let value = |value: &str| {
            let mut line = Vec::new();
            style.entry(b"k", value.as_bytes(), &mut line);
            let read = Format::Json.decode_entry(line.trim_ascii_end()).unwrap();
            assert_eq!(read, (b"k".to_vec(), value.as_bytes().to_vec()));
            let line = String::from_utf8(line).unwrap();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            line.trim_end().strip_prefix("{\"key\":\"k\",\"value\":").unwrap().to_string()
        };
        for json in ["5", "-1e400", "[1, 2]", "{\"a\":null}", "true", "null", "{}"] {
            assert_eq!(value(json), format!("{json}}}"));
        }
        for text in ["", " 5", "5 ", "\"a\"", "{\"base64\":\"AA==\"}", "[1,\n2]", "a", "05", "{"] {
            assert!(value(text).starts_with('"'), "{text}");
        }
    }
}
