//! Block compression (skeleton).
/// How the blocks of a table are compressed. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Stored as they are.
    None,
    /// Snappy where it saves at least an eighth, as LevelDB does.
    #[default]
    Snappy,
    /// zstd at a level. LevelDB 1.23 and older cannot read such tables.
    #[cfg(feature = "zstd")]
    Zstd(i32),
}
