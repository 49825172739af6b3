//! WriteBatch (skeleton).
/// A batch of operations applied all or nothing.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {}
#[allow(unused_variables, missing_docs)]
impl WriteBatch {
    pub fn new() -> WriteBatch { todo!() }
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) { todo!() }
    pub fn delete(&mut self, key: impl AsRef<[u8]>) { todo!() }
    pub fn clear(&mut self) { todo!() }
    /// Operations in it.
    pub fn len(&self) -> usize { todo!() }
    pub fn is_empty(&self) -> bool { todo!() }
    /// Bytes it takes in the log.
    pub fn approximate_bytes(&self) -> usize { todo!() }
}
