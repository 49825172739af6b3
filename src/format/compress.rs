//! Block compression. The ids are stored on disk: do not change them.
//!
//! ```text
//! id 0   uncompressed
//! id 1   snappy, raw format: varint32 length, then literals and copies
//! id 2   zstd, one frame that states its content size; or zlib (RFC 1950), in Minecraft
//! id 4   raw deflate (RFC 1951), in Minecraft
//! ```
//!
//! The compressed form is stored only if it is smaller than the original by more than an eighth.
//! Defined by LevelDB's `include/leveldb/options.h` and `table/table_builder.cc`, and for Minecraft
//! by `zlib_compressor.h` of Mojang's LevelDB. The first bytes of a block show which of the two
//! methods of id 2 was used ([`is_zlib`]). Other engines use the ids above 1 for other methods (in
//! RocksDB, zstd has the id 7).

use std::fmt;
use std::str::FromStr;

use crate::base::{Error, Feature, Result};

/// Level of zstd that is used if none is given, zstd's own default.
#[cfg(feature = "zstd")]
const DEFAULT_ZSTD_LEVEL: i32 = 3;
/// Level of zlib and deflate that is used if none is given, zlib's own default.
#[cfg(feature = "zlib")]
const DEFAULT_DEFLATE_LEVEL: u32 = 6;

/// The method for compressing the blocks of a table.
///
/// A compression can be parsed from its name, `none`, `snappy`, `zstd`, `zlib` or `deflate`, and
/// displayed. The last three may be followed by a colon and a level.
///
/// ```
/// use minikv::Compression;
///
/// assert_eq!("snappy".parse::<Compression>()?, Compression::Snappy);
/// assert_eq!(Compression::None.to_string(), "none");
/// # #[cfg(feature = "zlib")]
/// assert_eq!("deflate:9".parse::<Compression>()?, Compression::Deflate(9));
/// # Ok::<(), minikv::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    None,
    /// Snappy, for blocks that become smaller by more than an eighth, as in LevelDB.
    #[default]
    Snappy,
    /// zstd at the given level. LevelDB 1.23 and older cannot read such tables.
    #[cfg(feature = "zstd")]
    Zstd(i32),
    /// zlib at the given level, 0 to 9, as in old worlds of Minecraft. LevelDB cannot read such
    /// tables.
    #[cfg(feature = "zlib")]
    Zlib(u32),
    /// Raw deflate at the given level, 0 to 9, as in worlds of Minecraft. LevelDB cannot read such
    /// tables.
    #[cfg(feature = "zlib")]
    Deflate(u32),
}

impl Compression {
    /// Returns the method, which does not state a level.
    pub(crate) fn method(self) -> Method {
        match self {
            Compression::None => Method::None,
            Compression::Snappy => Method::Snappy,
            #[cfg(feature = "zstd")]
            Compression::Zstd(_) => Method::Zstd,
            #[cfg(feature = "zlib")]
            Compression::Zlib(_) => Method::Zlib,
            #[cfg(feature = "zlib")]
            Compression::Deflate(_) => Method::Deflate,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method().name())?;
        match self {
            Compression::None | Compression::Snappy => Ok(()),
            #[cfg(feature = "zstd")]
            Compression::Zstd(level) => write!(f, ":{level}"),
            #[cfg(feature = "zlib")]
            Compression::Zlib(level) | Compression::Deflate(level) => write!(f, ":{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = Error;

    /// Parses a name, with or without a level.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if this build does not include the method;
    /// [`Error::InvalidArgument`] for any other text.
    fn from_str(text: &str) -> Result<Compression> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let invalid = || {
            Error::invalid(format!(
                "{text:?} is no compression: none, snappy, zstd, zlib or deflate, the last three \
                 with or without a level, as in zlib:9"
            ))
        };
        let compression = Method::named(name).ok_or_else(invalid)?.compression()?;
        match (compression, level) {
            (compression, None) => Ok(compression),
            (Compression::None | Compression::Snappy, Some(_)) => Err(invalid()),
            #[cfg(feature = "zstd")]
            (Compression::Zstd(_), Some(level)) => zstd_level(level).map(Compression::Zstd),
            #[cfg(feature = "zlib")]
            (Compression::Zlib(_), Some(level)) => deflate_level(level).map(Compression::Zlib),
            #[cfg(feature = "zlib")]
            (Compression::Deflate(_), Some(level)) => {
                deflate_level(level).map(Compression::Deflate)
            }
        }
    }
}

/// Parses a level of zstd.
#[cfg(feature = "zstd")]
fn zstd_level(text: &str) -> Result<i32> {
    let range = zstd::compression_level_range();
    let level = text.parse().ok().filter(|level| range.contains(level));
    level.ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        Error::invalid(format!("{text:?} is no level of zstd: {least} to {most}"))
    })
}

/// Parses a level of zlib or deflate.
#[cfg(feature = "zlib")]
fn deflate_level(text: &str) -> Result<u32> {
    let level = text.parse().ok().filter(|level| *level <= 9);
    level.ok_or_else(|| Error::invalid(format!("{text:?} is no level of zlib: 0 to 9")))
}

/// Id of an uncompressed block.
pub const ID_NONE: u8 = 0;
/// Id of a block compressed with snappy.
pub const ID_SNAPPY: u8 = 1;
/// Id of a block compressed with zstd or zlib.
pub const ID_ZSTD_OR_ZLIB: u8 = 2;
/// Id of a block compressed with raw deflate.
pub const ID_DEFLATE: u8 = 4;

/// The compression method of a stored block, which this build may or may not be able to decompress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// No compression.
    None,
    /// Snappy.
    Snappy,
    /// zstd.
    Zstd,
    /// zlib.
    Zlib,
    /// Raw deflate.
    Deflate,
}

impl Method {
    /// All methods.
    const ALL: [Method; 5] =
        [Method::None, Method::Snappy, Method::Zstd, Method::Zlib, Method::Deflate];

    /// Returns the method with this name.
    pub(crate) fn named(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Returns the method of a block that was stored with the compression `id`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an unknown id.
    #[inline]
    pub fn of(id: u8, stored: &[u8]) -> Result<Method> {
        match id {
            ID_NONE => Ok(Method::None),
            ID_SNAPPY => Ok(Method::Snappy),
            ID_ZSTD_OR_ZLIB if is_zlib(stored) => Ok(Method::Zlib),
            ID_ZSTD_OR_ZLIB => Ok(Method::Zstd),
            ID_DEFLATE => Ok(Method::Deflate),
            _ => Err(Error::unsupported(Feature::Compression, id.to_string())),
        }
    }

    /// Returns the name: "none", "snappy", "zstd", "zlib" or "deflate".
    pub fn name(self) -> &'static str {
        match self {
            Method::None => "none",
            Method::Snappy => "snappy",
            Method::Zstd => "zstd",
            Method::Zlib => "zlib",
            Method::Deflate => "deflate",
        }
    }

    /// Returns the compression that writes blocks of this method, at the default level.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if this build does not include the method.
    pub(crate) fn compression(self) -> Result<Compression> {
        match self {
            Method::None => Ok(Compression::None),
            Method::Snappy => Ok(Compression::Snappy),
            #[cfg(feature = "zstd")]
            Method::Zstd => Ok(Compression::Zstd(DEFAULT_ZSTD_LEVEL)),
            #[cfg(feature = "zlib")]
            Method::Zlib => Ok(Compression::Zlib(DEFAULT_DEFLATE_LEVEL)),
            #[cfg(feature = "zlib")]
            Method::Deflate => Ok(Compression::Deflate(DEFAULT_DEFLATE_LEVEL)),
            #[cfg(not(all(feature = "zlib", feature = "zstd")))]
            _ => Err(Error::unsupported(Feature::Compression, self.name())),
        }
    }
}

/// Upper bound of snappy's compression ratio: a copy of up to 64 bytes is encoded in three bytes.
const SNAPPY_MAX_RATIO: usize = 22;

/// Compresses blocks one after another. Reuses the state of its encoder and its output buffer.
pub struct Compressor {
    kind: Compression,
    snappy: snap::raw::Encoder,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
    #[cfg(feature = "zlib")]
    deflate: Option<flate2::Compress>,
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
            #[cfg(feature = "zlib")]
            deflate: match kind {
                Compression::Zlib(level) => Some(deflate(level, true)),
                Compression::Deflate(level) => Some(deflate(level, false)),
                _ => None,
            },
            out: Vec::new(),
        }
    }

    /// Returns the bytes to store for `raw`, and their compression id. Returns `raw` itself if
    /// compression saves no more than an eighth of its length.
    pub fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (&'a [u8], u8) {
        let (len, id) = match self.kind {
            Compression::None => (None, ID_NONE),
            Compression::Snappy => (self.compress_snappy(raw), ID_SNAPPY),
            #[cfg(feature = "zstd")]
            Compression::Zstd(_) => (self.compress_zstd(raw), ID_ZSTD_OR_ZLIB),
            #[cfg(feature = "zlib")]
            Compression::Zlib(_) => (self.compress_deflate(raw), ID_ZSTD_OR_ZLIB),
            #[cfg(feature = "zlib")]
            Compression::Deflate(_) => (self.compress_deflate(raw), ID_DEFLATE),
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

    /// Compresses `raw`. Returns the compressed length, or `None` if the output does not fit in the
    /// buffer, which is at least as long as `raw`.
    #[cfg(feature = "zlib")]
    fn compress_deflate(&mut self, raw: &[u8]) -> Option<usize> {
        self.out.resize(raw.len().max(self.out.len()), 0);
        let deflate = self.deflate.as_mut()?;
        deflate.reset();
        match deflate.compress(raw, &mut self.out, flate2::FlushCompress::Finish) {
            Ok(flate2::Status::StreamEnd) => usize::try_from(deflate.total_out()).ok(),
            _ => None,
        }
    }
}

/// Returns a compressor for zlib data, which has a header and a checksum, if `has_header` is true.
/// Otherwise returns a compressor for raw deflate data, which has neither.
#[cfg(feature = "zlib")]
fn deflate(level: u32, has_header: bool) -> flate2::Compress {
    flate2::Compress::new(flate2::Compression::new(level.min(9)), has_header)
}

/// Returns whether a block that was stored with id 2 is compressed with zlib rather than zstd. The
/// first two bytes of zlib data specify the compression method 8 and, read as a big-endian number,
/// are a multiple of 31. The first two bytes of a zstd frame are not a multiple of 31.
pub fn is_zlib(stored: &[u8]) -> bool {
    match stored {
        [first, second, ..] => {
            first & 0xf == 8 && u16::from_be_bytes([*first, *second]).is_multiple_of(31)
        }
        _ => false,
    }
}

/// Decompresses a block stored with `method`, which must not be [`Method::None`], into the reusable
/// buffer `raw`. Returns the length of the block, which is at the start of `raw`; `raw` may be
/// longer. `raw` grows if it is too short, but never beyond the size to which the input can
/// decompress.
///
/// # Errors
/// Corruption, if the bytes are malformed; [`Error::Unsupported`], if this build does not include
/// the method.
pub fn decompress_into(method: Method, stored: &[u8], raw: &mut Vec<u8>) -> Result<usize> {
    match method {
        Method::Snappy => decompress_snappy(stored, raw),
        #[cfg(feature = "zlib")]
        Method::Zlib => inflate(stored, true, raw),
        #[cfg(feature = "zlib")]
        Method::Deflate => inflate(stored, false, raw),
        #[cfg(feature = "zstd")]
        Method::Zstd => {
            *raw = decompress_zstd(stored)?;
            Ok(raw.len())
        }
        _ => Err(Error::unsupported(Feature::Compression, method.name())),
    }
}

/// Decompresses zlib or raw deflate, which do not state the length of their contents. Memory grows
/// only with the actual output, which is at most about a thousand times as long as the input.
#[cfg(feature = "zlib")]
fn inflate(stored: &[u8], has_header: bool, raw: &mut Vec<u8>) -> Result<usize> {
    /// Assumed ratio of output to input, for the first allocation. A higher ratio means fewer
    /// further allocations, and more unused memory.
    const FIRST_RATIO: usize = 4;
    /// Minimum size of the first allocation, in bytes.
    const MIN_BYTES: usize = 4096;

    let damaged = |what: &str| Error::corruption(format!("damaged deflate block: {what}"));
    let mut stream = flate2::Decompress::new(has_header);
    let first = stored.len().saturating_mul(FIRST_RATIO).max(MIN_BYTES);
    raw.resize(first.max(raw.len()), 0);
    let mut done = (0, 0);
    loop {
        let (read, written) = done;
        let status = stream
            .decompress(&stored[read..], &mut raw[written..], flate2::FlushDecompress::None)
            .map_err(|error| damaged(&error.to_string()))?;
        let before = done;
        done = (stream.total_in() as usize, stream.total_out() as usize);
        match status {
            flate2::Status::StreamEnd if done.0 == stored.len() => return Ok(done.1),
            flate2::Status::StreamEnd => return Err(damaged("bytes after its end")),
            _ if done.1 == raw.len() => raw.resize(2 * done.1, 0),
            _ if done == before => return Err(damaged("it has no end")),
            _ => {}
        }
    }
}

/// Compares `raw` with what the bytes and the compression id of a block decompress to.
///
/// # Errors
/// Corruption, if they do not.
pub fn check((stored, id): (&[u8], u8), raw: &[u8]) -> Result<()> {
    let mut buffer = Vec::new();
    let method = Method::of(id, stored)?;
    let is_same = match method {
        Method::None => stored == raw,
        _ => decompress_into(method, stored, &mut buffer).is_ok_and(|len| buffer[..len] == *raw),
    };
    match is_same {
        true => Ok(()),
        false => Err(Error::corruption(
            "a compressed block is not what it was: the processor or memory may be damaged",
        )),
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
/// the maximum ratio is not a useful limit on memory. If the frame states a length of at most
/// `TRUSTED_RATIO` times the length of the input, which is enough for ordinary data, that much
/// memory is allocated at once. Otherwise, memory grows only with the actual output.
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
            #[cfg(feature = "zlib")]
            Compression::Zlib(6),
            #[cfg(feature = "zlib")]
            Compression::Deflate(6),
        ]
    }

    #[test]
    fn a_compressed_block_is_checked_against_what_it_was() {
        let mut raw = noise(50).repeat(20);
        for kind in kinds() {
            let mut compressor = Compressor::new(kind);
            let (stored, id) = compressor.compress(&raw);
            let stored = stored.to_vec();
            check((&stored, id), &raw).unwrap();
            assert!(check((&stored[..stored.len() - 1], id), &raw).unwrap_err().is_corruption());
            for at in 0..raw.len() {
                raw[at] ^= 1;
                assert!(check((&stored, id), &raw).unwrap_err().is_corruption(), "{at}");
                raw[at] ^= 1;
            }
        }
        check((&raw, ID_NONE), &raw).unwrap();
        assert!(check((&raw[1..], ID_NONE), &raw).is_err());
    }

    /// Returns incompressible bytes.
    fn noise(len: usize) -> Vec<u8> {
        let mut rng = Rng::new(7);
        (0..len).map(|_| rng.next_u64() as u8).collect()
    }

    #[cfg(feature = "zlib")]
    fn bytes(hex: &str) -> Vec<u8> {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    fn decompress(id: u8, stored: &[u8]) -> Result<Vec<u8>> {
        let mut raw = Vec::new();
        let len = decompress_into(Method::of(id, stored)?, stored, &mut raw)?;
        raw.truncate(len);
        Ok(raw)
    }

    #[test]
    fn names_and_levels_are_read_as_they_are_shown() {
        for kind in kinds().into_iter().chain([Compression::None]) {
            assert_eq!(kind.to_string().parse::<Compression>().unwrap(), kind);
            let method = kind.method();
            let default = method.name().parse::<Compression>().unwrap();
            assert_eq!(default, method.compression().unwrap());
            assert_eq!(default.method(), method);
        }
        for wrong in ["", "Snappy", "lz4", "snappy:1", "none:", "snappy "] {
            let error = wrong.parse::<Compression>().unwrap_err().to_string();
            assert!(error.contains("is no compression"), "{wrong}: {error}");
        }
        #[cfg(feature = "zlib")]
        for wrong in ["zlib:10", "deflate:", "deflate:-1"] {
            let error = wrong.parse::<Compression>().unwrap_err().to_string();
            assert!(error.contains("is no level of zlib: 0 to 9"), "{wrong}: {error}");
        }
        #[cfg(not(feature = "zstd"))]
        assert_eq!(
            "zstd:3".parse::<Compression>().unwrap_err().to_string(),
            "unsupported compression zstd (it needs minikv's Cargo feature `zstd`)"
        );
    }

    #[test]
    fn compressed_data_comes_back() {
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

    /// Checks data compressed by Python: by `zlib.compress(b"minecraft" * 9)` and by
    /// `zlib.compressobj(wbits=-15)`.
    #[cfg(feature = "zlib")]
    #[test]
    fn data_deflated_by_python_is_read() {
        let raw = b"minecraft".repeat(9);
        let deflated = bytes("cbcdcc4b4d2e4a4c2bc9a5120300");
        assert_eq!(decompress(ID_DEFLATE, &deflated).unwrap(), raw);
        let mut zlib = bytes("789ccbcdcc4b4d2e4a4c2bc9a51203005e0f2182");
        assert_eq!(decompress(ID_ZSTD_OR_ZLIB, &zlib).unwrap(), raw);
        *zlib.last_mut().unwrap() ^= 1;
        assert!(decompress(ID_ZSTD_OR_ZLIB, &zlib).unwrap_err().is_corruption());
        let longer = [&deflated[..], b"x"].concat();
        let error = decompress(ID_DEFLATE, &longer).unwrap_err();
        assert!(error.to_string().contains("bytes after its end"), "{error}");
    }

    /// Checks data compressed by Go: by `compress/zlib` (Write, Flush, Close) and by
    /// `compress/flate` (Write, Close). A fork of goleveldb for Minecraft's worlds compresses every
    /// block, even if that saves nothing, and flushes each zlib stream before it ends the stream.
    #[cfg(feature = "zlib")]
    #[test]
    fn data_deflated_by_forks_of_goleveldb_is_read() {
        let streams = [
            (
                b"minecraft".repeat(9),
                "789ccacdcc4b4d2e4a4c2ba11603000000ffff010000ffff5e0f2182",
                "cacdcc4b4d2e4a4c2ba11603100000ffff",
            ),
            (
                b"\x01\xfe?".to_vec(),
                "789c62fc670f000000ffff010000ffff0241013f",
                "62fc670f080000ffff",
            ),
        ];
        for (raw, zlib, deflated) in streams {
            assert_eq!(decompress(ID_ZSTD_OR_ZLIB, &bytes(zlib)).unwrap(), raw);
            assert_eq!(decompress(ID_DEFLATE, &bytes(deflated)).unwrap(), raw);
        }
    }

    #[test]
    fn zlib_and_zstd_are_told_apart() {
        // Try the headers that zlib writes for each window size, from 256 bytes to 32 KiB, and each
        // of the four compression levels that a header can state.
        for window in 0..8u8 {
            for level in 0..4u8 {
                let first = window << 4 | 8;
                let second = level << 6;
                let check = (31 - u16::from_be_bytes([first, second]) % 31) as u8;
                assert!(is_zlib(&[first, second + check, 0]), "{window} {level}");
            }
        }
        assert!(!is_zlib(&[0x28, 0xb5, 0x2f, 0xfd]) && !is_zlib(&[0x78]) && !is_zlib(&[]));
        let name = |id, stored| Method::of(id, stored).unwrap().name();
        assert_eq!([0, 1, 4].map(|id| name(id, b"")), ["none", "snappy", "deflate"]);
        assert_eq!([&[0x78, 0x9c][..], b"("].map(|stored| name(2, stored)), ["zlib", "zstd"]);
    }

    #[test]
    fn unknown_ids_are_named() {
        let error = decompress(77, b"").unwrap_err();
        assert!(matches!(&error, Error::Unsupported { name, .. } if name == "77"), "{error}");
    }
}
