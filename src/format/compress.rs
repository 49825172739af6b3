//! Block compression. The ids are on disk: do not change.
//!
//! ```text
//! id 0   uncompressed
//! id 1   snappy, raw format: varint32 length, then literals and copies
//! id 2   zstd, one frame that states its content size
//! ```
//!
//! The compressed form is stored only if it saves more than an eighth. Defined by LevelDB's
//! `include/leveldb/options.h` and `table/table_builder.cc`. Other engines use the ids above 1 for
//! other methods (in RocksDB zstd is 7; in Minecraft zlib is 2 and 4).

use crate::base::{Error, Result};

/// The method by which the blocks of a table are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    None,
    /// Snappy, for blocks where it saves more than an eighth, as in LevelDB.
    #[default]
    Snappy,
    /// zstd at the given level. LevelDB 1.23 and older cannot read such tables.
    #[cfg(feature = "zstd")]
    Zstd(i32),
}

/// Id of an uncompressed block.
pub const ID_NONE: u8 = 0;
/// Id of a block compressed with snappy.
pub const ID_SNAPPY: u8 = 1;
/// Id of a block compressed with zstd.
pub const ID_ZSTD: u8 = 2;

/// Upper bound of snappy's compression ratio: a copy of 64 bytes takes three bytes.
const SNAPPY_MAX_RATIO: usize = 22;

/// Compresses blocks one after another, reusing its tables and buffers.
pub struct Compressor {
    kind: Compression,
    snappy: snap::raw::Encoder,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
    out: Vec<u8>,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Compressor {
    /// Creates a compressor of this kind.
    pub fn new(kind: Compression) -> Compressor {
        Compressor {
            kind,
            snappy: snap::raw::Encoder::new(),
            #[cfg(feature = "zstd")]
            zstd: match kind {
                Compression::Zstd(level) => zstd::bulk::Compressor::new(level).ok(),
                _ => None,
            },
            out: Vec::new(),
        }
    }

    /// Returns the bytes to store for `raw` and their compression id: `raw` itself unless
    /// compression saves more than an eighth.
    pub fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (&'a [u8], u8) {
        let (len, id) = match self.kind {
            Compression::None => (None, ID_NONE),
            Compression::Snappy => (self.compress_snappy(raw), ID_SNAPPY),
            #[cfg(feature = "zstd")]
            Compression::Zstd(_) => (self.compress_zstd(raw), ID_ZSTD),
        };
        match len {
            Some(len) if len < raw.len() - raw.len() / 8 => (&self.out[..len], id),
            _ => (raw, ID_NONE),
        }
    }

    fn compress_snappy(&mut self, raw: &[u8]) -> Option<usize> {
        let max = snap::raw::max_compress_len(raw.len());
        if max == 0 {
            return None; // too long for the format
        }
        self.out.resize(max.max(self.out.len()), 0);
        self.snappy.compress(raw, &mut self.out).ok()
    }

    #[cfg(feature = "zstd")]
    fn compress_zstd(&mut self, raw: &[u8]) -> Option<usize> {
        let max = zstd::zstd_safe::compress_bound(raw.len());
        self.out.resize(max.max(self.out.len()), 0);
        self.zstd.as_mut()?.compress_to_buffer(raw, &mut self.out[..]).ok()
    }
}

/// Decompresses a block stored with the compression `id`, which must not be [`ID_NONE`], into a
/// reusable buffer. Returns the block's length in `raw`, which may be longer; `raw` grows if it is
/// too short, but never beyond what the input can decompress to.
///
/// # Errors
/// Corruption, if the bytes are malformed; [`Error::Unsupported`], if this build does not know the
/// id.
pub fn decompress_into(id: u8, stored: &[u8], raw: &mut Vec<u8>) -> Result<usize> {
    match id {
        ID_SNAPPY => decompress_snappy(stored, raw),
        #[cfg(feature = "zstd")]
        ID_ZSTD => {
            *raw = decompress_zstd(stored)?;
            Ok(raw.len())
        }
        _ => Err(Error::unsupported("compression", id.to_string())),
    }
}

fn decompress_snappy(stored: &[u8], raw: &mut Vec<u8>) -> Result<usize> {
    let damaged = |error: snap::Error| Error::corruption(format!("damaged snappy block: {error}"));
    let len = snap::raw::decompress_len(stored).map_err(damaged)?;
    let limit = stored.len().saturating_mul(SNAPPY_MAX_RATIO);
    if len > limit {
        return Err(Error::mismatch(
            "damaged snappy block: impossible length",
            format_args!("at most {limit} bytes"),
            len,
        ));
    }
    raw.resize(len.max(raw.len()), 0);
    snap::raw::Decoder::new().decompress(stored, &mut raw[..len]).map_err(damaged)
}

/// Returns the contents of a zstd frame. zstd can expand its input tens of thousands of times, so
/// its maximum ratio is not a useful bound. A stated length within `TRUSTED_RATIO`, which ordinary
/// data reaches, is allocated at once; beyond that, memory grows only with the actual output.
#[cfg(feature = "zstd")]
fn decompress_zstd(stored: &[u8]) -> Result<Vec<u8>> {
    use std::io::Read;
    const TRUSTED_RATIO: usize = 256;

    let damaged = |what: &str| Error::corruption(format!("damaged zstd block: {what}"));
    let len = zstd::zstd_safe::get_frame_content_size(stored)
        .map_err(|_| damaged("no frame"))?
        .and_then(|len| usize::try_from(len).ok())
        .ok_or_else(|| damaged("its length is missing"))?;
    let io = |error: std::io::Error| damaged(&error.to_string());
    if len <= stored.len().saturating_mul(TRUSTED_RATIO) {
        let raw = zstd::bulk::decompress(stored, len).map_err(io)?;
        return if raw.len() == len { Ok(raw) } else { Err(damaged("shorter than it says")) };
    }
    let mut raw = Vec::new();
    let decoder = zstd::stream::Decoder::with_buffer(stored).map_err(io)?;
    decoder.single_frame().take(len as u64 + 1).read_to_end(&mut raw).map_err(io)?;
    if raw.len() == len { Ok(raw) } else { Err(damaged("not as long as it says")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Rng;

    fn kinds() -> Vec<Compression> {
        vec![
            Compression::Snappy,
            #[cfg(feature = "zstd")]
            Compression::Zstd(1),
        ]
    }

    /// Returns incompressible bytes.
    fn noise(len: usize) -> Vec<u8> {
        let mut rng = Rng::new(7);
        (0..len).map(|_| rng.next_u64() as u8).collect()
    }

    fn decompress(id: u8, stored: &[u8]) -> Result<Vec<u8>> {
        let mut raw = Vec::new();
        let len = decompress_into(id, stored, &mut raw)?;
        raw.truncate(len);
        Ok(raw)
    }

    #[test]
    fn what_compresses_comes_back() {
        for kind in kinds() {
            let mut compressor = Compressor::new(kind);
            for len in [100, 4096, 70_000, 3_000_000, 64] {
                let raw: Vec<u8> = (0..len).map(|i| (i / 50) as u8).collect();
                let (stored, id) = compressor.compress(&raw);
                assert_ne!(id, ID_NONE, "{kind:?} {len}");
                assert_eq!(decompress(id, stored).unwrap(), raw, "{kind:?} {len}");
            }
        }
    }

    #[test]
    fn less_than_an_eighth_saved_is_not_kept() {
        for kind in kinds() {
            let mut compressor = Compressor::new(kind);
            let mut raw = noise(4096);
            assert_eq!(compressor.compress(&raw), (&raw[..], ID_NONE));
            assert_eq!(compressor.compress(b""), (&b""[..], ID_NONE));
            raw[..300].fill(0);
            assert_eq!(compressor.compress(&raw), (&raw[..], ID_NONE));
            raw[..1024].fill(0);
            assert_ne!(compressor.compress(&raw).1, ID_NONE);
        }
        let mut none = Compressor::new(Compression::None);
        assert_eq!(none.compress(&[0; 4096]), (&[0; 4096][..], ID_NONE));
    }

    #[test]
    fn an_impossible_length_is_refused_before_it_is_allocated() {
        let bomb = [0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, b'a'];
        let error = decompress(ID_SNAPPY, &bomb).unwrap_err();
        assert!(error.to_string().contains("impossible length"), "{error}");
    }

    #[test]
    fn damage_is_an_error() {
        for kind in kinds() {
            let raw: Vec<u8> = (0..4096).map(|i| (i / 50) as u8).collect();
            let mut compressor = Compressor::new(kind);
            let (stored, id) = compressor.compress(&raw);
            for len in 0..stored.len() {
                assert!(decompress(id, &stored[..len]).is_err(), "{kind:?} {len}");
            }
            for i in 0..stored.len() {
                let mut changed = stored.to_vec();
                changed[i] ^= 0xff;
                let _ = decompress(id, &changed); // no panic
            }
        }
    }

    #[test]
    fn unknown_ids_are_named() {
        let error = decompress(77, b"").unwrap_err();
        assert!(matches!(&error, Error::Unsupported { name, .. } if name == "77"), "{error}");
    }
}
