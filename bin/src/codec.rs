//! Text formats of keys, values and entries, which can be read back.
//!
//! ```text
//! format    an entry of `dump`                     the bytes 63 61 66 c3 a9, 00
//! escaped   KEY<TAB>VALUE                          caf\xc3\xa9<TAB>\x00
//! hex       KEY<TAB>VALUE                          636166c3a9<TAB>00
//! json      {"key":…,"value":…}                    {"key":"café","value":"\u0000"}
//! csv       KEY,VALUE                              café,base64:AA==
//! ```
//!
//! Every format can represent every byte string, and reading the text gives the same bytes. In
//! `escaped`, printable ASCII stands for itself, a backslash is `\\`, and every other byte is
//! `\xHH`; when read, bytes above ASCII stand for themselves, too, so that UTF-8 can be typed. In
//! `json`, bytes that are not UTF-8 are `{"base64":"…"}`; when read, a value may also be any other
//! JSON, and is then its text. In `csv`, UTF-8 stands for itself, in quotes if it contains a comma,
//! a quote or a line end; bytes that are not UTF-8 text, and text that begins with `base64:`, are
//! `base64:…`. An entry is one line, except that text in `csv` may contain line ends.

use std::collections::HashMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::ValueEnum;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A text format for bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    // The help texts below contain no backslashes or quotes, because zsh completion scripts would
    // lose them.
    /// Printable ASCII as it is, other bytes as backslash, x and two hex digits
    #[default]
    Escaped,
    /// Hexadecimal
    Hex,
    /// JSON Lines, with base64 for bytes that are not UTF-8
    Json,
    /// CSV with a header, and base64 behind base64: for bytes that are not text
    Csv,
}

/// Beginning of a field in CSV whose bytes are not text.
const CSV_BASE64: &str = "base64:";

/// Header of entries in CSV.
pub const CSV_HEADER: &str = "key,value";

impl Format {
    /// Appends the text for `bytes`, without a newline.
    pub fn encode(self, bytes: &[u8], text: &mut Vec<u8>) {
        match self {
            Format::Escaped => escape(bytes, text),
            Format::Hex => bytes.iter().for_each(|&byte| push_hex(byte, text)),
            Format::Json => {
                serde_json::to_writer(text, &JsonBytes(bytes)).expect("a Vec takes every write");
            }
            Format::Csv => push_csv(bytes, text),
        }
    }

    /// Returns the text for `bytes` as a string for messages.
    pub fn show(self, bytes: &[u8]) -> String {
        let mut text = Vec::new();
        self.encode(bytes, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Returns the bytes for which `text` stands, or a description of the error in `text`.
    pub fn decode(self, text: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Format::Escaped => unescape(text),
            Format::Hex => decode_hex(text),
            Format::Json => parse_json::<Datum>(text).map(|datum| datum.0),
            Format::Csv => decode_csv(text),
        }
    }

    /// Returns the bytes for which the text of a value stands. In JSON, unlike a key, a value may
    /// be any JSON: its text is the value, except for a string and an object with the only field
    /// `base64`.
    pub fn decode_value(self, text: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Format::Json => parse_json::<&RawValue>(text).and_then(json_value),
            _ => self.decode(text),
        }
    }

    /// Returns the header line of entries, if the format has one.
    pub fn header(self, keys_only: bool) -> Option<&'static str> {
        let header = if keys_only { "key" } else { CSV_HEADER };
        (self == Format::Csv).then_some(header)
    }

    /// Appends an entry and a newline.
    pub fn encode_entry(self, key: &[u8], value: &[u8], text: &mut Vec<u8>) {
        if self == Format::Json {
            text.extend_from_slice(b"{\"key\":");
            self.encode(key, text);
            text.extend_from_slice(b",\"value\":");
            self.encode(value, text);
            text.extend_from_slice(b"}\n");
        } else {
            self.encode(key, text);
            text.push(if self == Format::Csv { b',' } else { b'\t' });
            self.encode(value, text);
            text.push(b'\n');
        }
    }

    /// Appends a key without its value, and a newline.
    pub fn encode_key_line(self, key: &[u8], text: &mut Vec<u8>) {
        if self == Format::Json {
            text.extend_from_slice(b"{\"key\":");
            self.encode(key, text);
            text.extend_from_slice(b"}\n");
        } else if self == Format::Csv && key.is_empty() {
            // Readers of CSV skip empty lines.
            text.extend_from_slice(b"\"\"\n");
        } else {
            self.encode(key, text);
            text.push(b'\n');
        }
    }

    /// Returns the key and the value in `line`, which must not end with a newline. If the line is
    /// invalid, returns a description of the error. Entries in CSV may span lines: see
    /// `EntryReader`.
    pub fn decode_entry(self, line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        debug_assert!(self != Format::Csv, "a line need not be a record");
        if self == Format::Json {
            return parse_json::<JsonEntry>(line).map(|entry| (entry.key, entry.value));
        }
        let mut fields = line.split(|&byte| byte == b'\t');
        let key = fields.next().unwrap_or_default();
        let value = fields.next().ok_or("no TAB between key and value")?;
        if fields.next().is_some() {
            return Err("more than one TAB".to_string());
        }
        let key = self.decode(key).map_err(|what| format!("key: {what}"))?;
        let value = self.decode_value(value).map_err(|what| format!("value: {what}"))?;
        Ok((key, value))
    }
}

/// Returns the first `chars` characters of `text` and an ellipsis, or `text` if it is not longer.
pub fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

fn escape(bytes: &[u8], text: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'\\' => text.extend_from_slice(b"\\\\"),
            b' '..=b'~' => text.push(byte),
            _ => {
                text.extend_from_slice(b"\\x");
                push_hex(byte, text);
            }
        }
    }
}

/// Appends the text for `bytes` as a person reads it: printable Unicode stands for itself, and
/// every other byte is as in `escaped`, which also reads this text.
pub fn push_readable(bytes: &[u8], text: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).as_bytes();
            match !c.is_ascii() && is_printable(c) {
                true => text.extend_from_slice(utf8),
                false => escape(utf8, text),
            }
        }
        escape(chunk.invalid(), text);
    }
}

/// Returns whether a character that is not ASCII is visible, or combines with the one before it.
fn is_printable(c: char) -> bool {
    // `escape_debug` escapes a mark that combines only at the beginning of a string.
    ['a', c].iter().collect::<String>().escape_debug().nth(1) == Some(c)
}

fn push_csv(bytes: &[u8], text: &mut Vec<u8>) {
    let is_control = |byte: &u8| *byte < b' ' && !b"\t\n\r".contains(byte);
    let is_text = std::str::from_utf8(bytes).is_ok_and(|text| !text.starts_with(CSV_BASE64));
    if !is_text || bytes.iter().any(is_control) {
        text.extend_from_slice(CSV_BASE64.as_bytes());
        text.extend_from_slice(BASE64.encode(bytes).as_bytes());
    } else if bytes.iter().any(|byte| b",\"\r\n".contains(byte)) {
        text.push(b'"');
        for &byte in bytes {
            text.extend(std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 }));
        }
        text.push(b'"');
    } else {
        text.extend_from_slice(bytes);
    }
}

/// Returns the bytes for which a field of CSV stands, without its quotes.
fn decode_csv(field: &[u8]) -> Result<Vec<u8>, String> {
    match field.strip_prefix(CSV_BASE64.as_bytes()) {
        Some(text) => BASE64.decode(text).map_err(|error| format!("base64: {error}")),
        None => Ok(field.to_vec()),
    }
}

fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', b'x', high, low, rest @ ..] => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest
                }
                _ => return Err("\\x needs two hexadecimal digits".to_string()),
            },
            [b'\\', b'x', ..] => return Err("\\x needs two hexadecimal digits".to_string()),
            [b'\\', other, ..] => {
                let escape = Format::Escaped.show(&[*other]);
                return Err(format!("unknown escape \\{escape} (a backslash is written \\\\)"));
            }
            [b'\\'] => return Err("a lone backslash at the end (it is written \\\\)".to_string()),
            [byte @ (0..=0x1f | 0x7f), ..] => {
                return Err(format!("a raw byte 0x{byte:02x} (it is written \\x{byte:02x})"));
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        }
    }
}

fn push_hex(byte: u8, text: &mut Vec<u8>) {
    text.push(HEX_DIGITS[usize::from(byte >> 4)]);
    text.push(HEX_DIGITS[usize::from(byte & 0xf)]);
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

fn decode_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err(format!("{} hexadecimal digits, an odd number", text.len()));
    }
    text.chunks_exact(2)
        .map(|pair| match (hex_digit(pair[0]), hex_digit(pair[1])) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => Err(format!("{:?} is not hexadecimal", String::from_utf8_lossy(pair))),
        })
        .collect()
}

/// Bytes that serialize as a string if they are UTF-8, and as `{"base64":"…"}` otherwise.
pub struct JsonBytes<'a>(pub &'a [u8]);

impl Serialize for JsonBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_map([("base64", BASE64.encode(self.0))]),
        }
    }
}

fn parse_json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string().replace("line 1 ", ""))
}

fn json_value(json: &RawValue) -> Result<Vec<u8>, String> {
    let text = json.get();
    match text.as_bytes().first() {
        Some(b'"') => parse_json::<Datum>(text.as_bytes()).map(|datum| datum.0),
        Some(b'{') if is_base64_object(text) => {
            parse_json::<Datum>(text.as_bytes()).map(|datum| datum.0)
        }
        _ => Ok(text.as_bytes().to_vec()),
    }
}

/// Returns whether a JSON object has the field `base64` and no other.
fn is_base64_object(text: &str) -> bool {
    let fields = serde_json::from_str::<HashMap<String, &RawValue>>(text);
    fields.is_ok_and(|fields| fields.len() == 1 && fields.contains_key("base64"))
}

/// Returns `value` if it is JSON that `json` may contain as it is: [`Format::decode_value`] reads
/// the same bytes from it.
pub fn embeddable_json(value: &[u8]) -> Option<&[u8]> {
    let is_line = !value.contains(&b'\n') && !value.contains(&b'\r');
    let is_json = is_line && !matches!(value.first(), None | Some(b'"' | b' ' | b'\t'));
    let is_same = || Format::Json.decode_value(value).is_ok_and(|read| read == value);
    (is_json && is_same()).then_some(value)
}

/// A key or value in JSON: a string, or `{"base64":"…"}`.
struct Datum(Vec<u8>);

impl<'de> Deserialize<'de> for Datum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Datum, D::Error> {
        deserializer.deserialize_any(DatumVisitor)
    }
}

struct DatumVisitor;

impl<'de> Visitor<'de> for DatumVisitor {
    type Value = Datum;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or {\"base64\":\"…\"}")
    }

    fn visit_str<E: serde::de::Error>(self, string: &str) -> Result<Datum, E> {
        Ok(Datum(string.as_bytes().to_vec()))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Datum, M::Error> {
        let mut bytes = None;
        while let Some(name) = map.next_key::<String>()? {
            if name != "base64" {
                return Err(M::Error::unknown_field(&name, &["base64"]));
            }
            let text: String = map.next_value()?;
            let decoded = BASE64.decode(text).map_err(|e| M::Error::custom(format!("base64: {e}")));
            if bytes.replace(decoded?).is_some() {
                return Err(M::Error::duplicate_field("base64"));
            }
        }
        bytes.map(Datum).ok_or_else(|| M::Error::missing_field("base64"))
    }
}

/// The key and the value in a line of JSON.
struct JsonEntry {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'de> Deserialize<'de> for JsonEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonEntry, D::Error> {
        deserializer.deserialize_map(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = JsonEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{\"key\":…,\"value\":…}")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<JsonEntry, M::Error> {
        let (mut key, mut value) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            let (known, name) = match name.as_str() {
                "key" => (key.replace(map.next_value::<Datum>()?.0), "key"),
                "value" => {
                    let json = map.next_value::<&RawValue>()?;
                    (value.replace(json_value(json).map_err(M::Error::custom)?), "value")
                }
                other => return Err(M::Error::unknown_field(other, &["key", "value"])),
            };
            if known.is_some() {
                return Err(M::Error::duplicate_field(name));
            }
        }
        Ok(JsonEntry {
            key: key.ok_or_else(|| M::Error::missing_field("key"))?,
            value: value.ok_or_else(|| M::Error::missing_field("value"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [Format; 3] = [Format::Escaped, Format::Hex, Format::Json];

    fn nasty() -> Vec<Vec<u8>> {
        let mut strings: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        strings.extend((0..=255).map(|byte| vec![b'a', byte, b'\\', byte]));
        strings.push(Vec::new());
        strings.push((0..=255).collect());
        strings.extend(
            ["\\x41", "{\"base64\":\"AA==\"}", "\u{feff}\u{2028}é\u{1f980}", "\t\n\r"]
                .map(|s| s.as_bytes().to_vec()),
        );
        strings
    }

    #[test]
    fn every_byte_string_comes_back_in_every_format() {
        for format in FORMATS {
            for bytes in nasty() {
                let mut text = Vec::new();
                format.encode(&bytes, &mut text);
                assert!(!text.contains(&b'\n') && !text.contains(&b'\t'), "{format:?} {bytes:?}");
                assert_eq!(format.decode(&text).as_ref(), Ok(&bytes), "{format:?}");
                let mut line = Vec::new();
                format.encode_entry(&bytes, b"v", &mut line);
                assert_eq!(line.pop(), Some(b'\n'));
                assert_eq!(format.decode_entry(&line), Ok((bytes, b"v".to_vec())), "{format:?}");
            }
        }
    }

    #[test]
    fn the_worked_examples() {
        let line = |format: Format| {
            let mut line = Vec::new();
            format.encode_entry("café".as_bytes(), b"\0", &mut line);
            String::from_utf8(line).unwrap()
        };
        assert_eq!(line(Format::Escaped), "caf\\xc3\\xa9\t\\x00\n");
        assert_eq!(line(Format::Hex), "636166c3a9\t00\n");
        assert_eq!(line(Format::Json), "{\"key\":\"café\",\"value\":\"\\u0000\"}\n");
        assert_eq!(Format::Json.show(&[0xff, 0]), "{\"base64\":\"/wA=\"}");
        assert_eq!(Format::Escaped.show(b"C:\\new ~\x7f"), "C:\\\\new ~\\x7f");
    }

    #[test]
    fn empty_fields_are_empty_strings() {
        let empty = Ok((Vec::new(), Vec::new()));
        assert_eq!(Format::Escaped.decode_entry(b"\t"), empty);
        assert_eq!(Format::Hex.decode_entry(b"\t"), empty);
        assert_eq!(Format::Json.decode_entry(b"{\"value\":\"\",\"key\":\"\"}"), empty);
    }

    #[test]
    fn typed_utf8_stands_for_itself() {
        assert_eq!(Format::Escaped.decode("é".as_bytes()).as_deref(), Ok("é".as_bytes()));
    }

    #[test]
    fn a_value_may_be_any_json_and_is_its_text() {
        for json in [
            "5",
            "1e400",
            "12345678901234567890123",
            "null",
            "[1, {\"a\":[]}]",
            "{}",
            "{\"base64\":\"AA==\",\"b\":1}",
        ] {
            let line = format!("{{\"key\":\"a\",\"value\": {json} }}");
            let entry = Format::Json.decode_entry(line.as_bytes());
            assert_eq!(entry, Ok((b"a".to_vec(), json.as_bytes().to_vec())));
            assert_eq!(Format::Json.decode_value(json.as_bytes()).unwrap(), json.as_bytes());
            assert!(Format::Json.decode(json.as_bytes()).is_err(), "a key is not any JSON: {json}");
        }
        assert_eq!(Format::Json.decode_value(b"{\"base64\":\"AA==\"}").unwrap(), b"\0");
        for bad in ["{\"base64\":5}", "{\"base64\":\"?\"}", "nul", "[1", "1 2", ""] {
            assert!(Format::Json.decode_value(bad.as_bytes()).is_err(), "{bad}");
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let line = format!("{{\"key\":\"a\",\"value\":{deep}}}");
        let entry = Format::Json.decode_entry(line.as_bytes());
        assert!(entry.is_err() || entry.is_ok_and(|(_, value)| value == deep.as_bytes()));
    }

    #[test]
    fn lines_that_break_the_format_are_refused_with_the_reason() {
        let refusals: [(Format, &[u8], &str); 20] = [
            (Format::Escaped, b"", "no TAB"),
            (Format::Escaped, b"key", "no TAB"),
            (Format::Escaped, b"a\tb\tc", "more than one TAB"),
            (Format::Escaped, b"a\\nb\t", "key: unknown escape \\n"),
            (Format::Escaped, b"a\\\t", "key: a lone backslash"),
            (Format::Escaped, b"a\t\\x4", "value: \\x needs two"),
            (Format::Escaped, b"a\t\\xg0", "value: \\x needs two"),
            (Format::Escaped, b"a\tb\r", "value: a raw byte 0x0d"),
            (Format::Hex, b"61", "no TAB"),
            (Format::Hex, b"6\t", "odd number"),
            (Format::Hex, b"zz\t", "\"zz\" is not hexadecimal"),
            (Format::Json, b"", "EOF"),
            (Format::Json, b"{\"key\":\"a\"}", "missing field `value`"),
            (Format::Json, b"{\"key\":1,\"value\":\"\"}", "expected a string or {\"base64\""),
            (Format::Json, b"{\"key\":\"a\",\"value\":\"b\"} x", "trailing characters"),
            (
                Format::Json,
                b"{\"key\":\"a\",\"key\":\"a\",\"value\":\"\"}",
                "duplicate field `key`",
            ),
            (Format::Json, b"{\"key\":\"a\",\"value\":\"\",\"ttl\":1}", "unknown field `ttl`"),
            (Format::Json, b"{\"key\":{\"base64\":\"?\"},\"value\":\"\"}", "base64:"),
            (Format::Json, b"{\"key\":{\"hex\":\"00\"},\"value\":\"\"}", "unknown field `hex`"),
            (Format::Json, b"{\"key\":\"\xff\",\"value\":\"\"}", "column"),
        ];
        for (format, line, want) in refusals {
            let what = format.decode_entry(line).unwrap_err();
            assert!(what.contains(want), "{format:?} {line:?}: {what}");
            assert!(!what.contains("line 1"), "{what}");
        }
    }
}
