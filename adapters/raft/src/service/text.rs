//! Representation of keys and values, which are bytes, in JSON and in URLs.
//!
//! In JSON, a key or value is a string, or `{"base64": "..."}` if it is not UTF-8. In a path or
//! query, it is percent-encoded.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest percent-encoded form of a key that may have a value, in bytes. With the rest of a
/// request and the address of a node, it fits into a URI, which has at most 65,534 bytes.
pub(crate) const MAX_ENCODED_BYTES: usize = 65_000;

/// Bytes that are serialized as text if they are UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(pub Bytes);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64 {
    base64: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Plain(String),
    Encoded(Base64),
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Base64 { base64: STANDARD.encode(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        match Either::deserialize(deserializer) {
            Ok(Either::Plain(text)) => Ok(Text(text.into())),
            Ok(Either::Encoded(Base64 { base64 })) => {
                let bytes = STANDARD.decode(base64).map_err(D::Error::custom)?;
                Ok(Text(bytes.into()))
            }
            Err(_) => Err(D::Error::custom("expected a string or {\"base64\": \"...\"}")),
        }
    }
}

/// Decodes percent-encoded bytes such as `%41`. Returns `None` if a percent sign is not followed by
/// two hexadecimal digits.
pub fn decode_percent(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.split_at_checked(2)?;
        let digit = |at: usize| (digits.0[at] as char).to_digit(16);
        bytes.push((digit(0)? * 16 + digit(1)?) as u8);
        rest = digits.1;
    }
    Some(bytes)
}

/// Percent-encodes all bytes that are not allowed in a path.
pub fn encode_percent(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(byte as char);
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    // A client would interpret the path segments `.` and `..` as directories.
    if text.split('/').any(|part| part == "." || part == "..") {
        text = text.replace('.', "%2E");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_a_path_and_json() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode_percent(&encode_percent(&all)).as_deref(), Some(&all[..]));
        for bytes in [&all[..], b"", b"plain", b"a/../b"] {
            let text = Text(Bytes::copy_from_slice(bytes));
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text, "{json}");
            assert_eq!(decode_percent(&encode_percent(bytes)).as_deref(), Some(bytes));
        }
        assert!(!encode_percent(b"a/../b").contains(".."));
    }

    #[test]
    fn incomplete_escapes_are_refused() {
        for text in ["%", "%4", "%zz", "a%"] {
            assert_eq!(decode_percent(text), None, "{text}");
        }
    }
}
