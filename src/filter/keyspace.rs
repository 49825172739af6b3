//! A single prefix extractor for a database in which each keyspace can have its own extractor.

use std::sync::Arc;

use crate::filter::prefix::PrefixExtractor;
use crate::format::keyspace::{EXPIRING_TAG, TAG, split};

/// The prefix extractors of keyspaces, and of the keys outside keyspaces.
///
/// The prefix of a key in a keyspace is the keyspace's own prefix, followed by the prefix that the
/// keyspace's extractor returns. In a keyspace without an extractor, keys have no prefix.
#[derive(Debug)]
pub(crate) struct KeyspacePrefixes {
    /// Name of the combined extractor. It contains the names of all extractors, so that filters
    /// written with other extractors are not used.
    name: String,
    outside: Option<Arc<dyn PrefixExtractor>>,
    /// The names of keyspaces and their extractors, sorted by name.
    inside: Vec<(Vec<u8>, Arc<dyn PrefixExtractor>)>,
}

impl KeyspacePrefixes {
    /// Returns an extractor that uses `outside` for keys outside keyspaces, and each extractor in
    /// `inside` for the keys of the keyspace whose name is next to it.
    pub(crate) fn new(
        outside: Option<Arc<dyn PrefixExtractor>>,
        mut inside: Vec<(Vec<u8>, Arc<dyn PrefixExtractor>)>,
    ) -> KeyspacePrefixes {
        inside.sort_by(|(a, _), (b, _)| a.cmp(b));
        let part = |name: &[u8], extractor: &Arc<dyn PrefixExtractor>| {
            format!("{}={}", escaped(name), escaped(extractor.name().as_bytes()))
        };
        // The name of a keyspace is never empty, so an empty name can mean the keys outside
        // keyspaces.
        let parts = outside.iter().map(|extractor| part(b"", extractor));
        let parts = parts.chain(inside.iter().map(|(name, extractor)| part(name, extractor)));
        let name = format!("minikv.keyspaces.v1[{}]", parts.collect::<Vec<_>>().join(","));
        KeyspacePrefixes { name, outside, inside }
    }

    fn of_keyspace(&self, name: &[u8]) -> Option<&dyn PrefixExtractor> {
        let at = self.inside.binary_search_by(|(other, _)| other[..].cmp(name)).ok()?;
        Some(&*self.inside[at].1)
    }
}

impl PrefixExtractor for KeyspacePrefixes {
    fn name(&self) -> &str {
        &self.name
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if !key.starts_with(TAG) && !key.starts_with(EXPIRING_TAG) {
            // A longer key that starts with `key` may belong to a keyspace and then have another
            // prefix.
            let may_grow = TAG.starts_with(key) || EXPIRING_TAG.starts_with(key);
            return self.outside.as_ref().filter(|_| !may_grow)?.prefix(key);
        }
        let (keyspace, rest) = split(key)?;
        let prefix = self.of_keyspace(keyspace)?.prefix(rest)?;
        // An extractor may return any part of the key. If the part is not the start of the key
        // within the keyspace, it is used without the keyspace's prefix.
        match rest.starts_with(prefix) {
            true => key.get(..key.len() - rest.len() + prefix.len()),
            false => Some(prefix),
        }
    }
}

/// Returns a name in which the characters that separate names are escaped: bytes other than
/// letters, digits, `.`, `_` and `-` are written as `%` and two hexadecimal digits.
fn escaped(name: &[u8]) -> String {
    let byte = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02x}"),
    };
    name.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::prefix::{DelimitedPrefix, FixedPrefix};
    use crate::format::keyspace::Space;

    fn example() -> KeyspacePrefixes {
        KeyspacePrefixes::new(
            Some(Arc::new(FixedPrefix::new(2))),
            vec![
                (b"users".to_vec(), Arc::new(FixedPrefix::new(3)) as Arc<dyn PrefixExtractor>),
                (b"a,=".to_vec(), Arc::new(DelimitedPrefix::new(b'/'))),
            ],
        )
    }

    #[test]
    fn the_name_lists_the_composed_policies() {
        assert_eq!(
            example().name(),
            "minikv.keyspaces.v1[=minikv.fixed.2,a%2c%3d=minikv.delimited.2f,users=minikv.fixed.3]"
        );
        assert_eq!(KeyspacePrefixes::new(None, Vec::new()).name(), "minikv.keyspaces.v1[]");
    }

    #[test]
    fn each_keyspace_has_its_prefixes() {
        let all = example();
        let users = Space::named(b"users").unwrap();
        assert_eq!(all.prefix(&users.key(b"anna")), Some(&users.key(b"ann")[..]));
        assert_eq!(all.prefix(&users.key(b"an")), None);
        let expiring = Space::expiring(b"users").unwrap();
        assert_eq!(all.prefix(&expiring.key(b"anna")), Some(&expiring.key(b"ann")[..]));
        let slashed = Space::named(b"a,=").unwrap();
        assert_eq!(all.prefix(&slashed.key(b"x/y")), Some(&slashed.key(b"x/")[..]));
        assert_eq!(all.prefix(&Space::named(b"other").unwrap().key(b"anna")), None);
        assert_eq!(all.prefix(b"anna"), Some(&b"an"[..]));
        assert_eq!(all.prefix(b"\xff\xffks"), Some(&b"\xff\xff"[..]));
        assert_eq!(all.prefix(b"\xff\xfeks\x05user"), None);
    }

    /// Checks the law of prefix extractors: if the start of a key has a prefix, the whole key has
    /// the same prefix.
    #[test]
    fn a_longer_key_has_the_same_prefix() {
        let all = example();
        let names = [&b"users"[..], b"a,=", b"other"];
        let mut keys: Vec<Vec<u8>> = names
            .iter()
            .map(|name| Space::named(name).unwrap().key(b"ab/cd").into_owned())
            .collect();
        keys.push(Space::expiring(b"users").unwrap().key(b"ab/cd").into_owned());
        keys.extend([b"\xff\xfeky".to_vec(), b"\xff\xfe".to_vec(), b"plain".to_vec()]);
        let mut prefixes = 0;
        for key in &keys {
            for len in 0..key.len() {
                let Some(prefix) = all.prefix(&key[..len]) else { continue };
                prefixes += 1;
                assert_eq!(all.prefix(key), Some(prefix), "{:?}", &key[..len]);
            }
        }
        assert!(prefixes > 5, "{prefixes}");
    }
}
