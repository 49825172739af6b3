//! Serialization of an [`Explanation`], for the parts whose serialized form differs from their
//! type.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::base::serialize::Bytes;
use crate::engine::report::event::TableInfo;
use crate::explain::{Entry, Explanation, FilterState, Verdict};

/// Serializes an explanation without the value, which may be large, but with the value's length.
impl Serialize for Explanation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let unfiltered = self.unfiltered.as_ref();
        let mut fields = to.serialize_struct("Explanation", 9)?;
        fields.serialize_field("key", &Bytes(&self.key))?;
        fields.serialize_field("sequence", &self.seq)?;
        fields.serialize_field("found", &self.value.is_some())?;
        fields.serialize_field("value_bytes", &self.value.as_ref().map(|value| value.len()))?;
        fields.serialize_field("steps", &self.steps)?;
        fields.serialize_field("filters", &self.filters)?;
        fields.serialize_field("this_get", &self.trace)?;
        fields.serialize_field("without_filters", &unfiltered.ok())?;
        let error = unfiltered.err().map(ToString::to_string);
        fields.serialize_field("without_filters_error", &error)?;
        fields.end()
    }
}

/// Serializes a verdict as the answer and `truth`: whether the answer was right, or null if that is
/// unknown.
impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let truth = match self {
            Verdict::TruePositive | Verdict::TrueNegative => Some(true),
            Verdict::FalsePositive | Verdict::FalseNegative => Some(false),
            Verdict::UnknownNegative => None,
        };
        let mut fields = to.serialize_struct("Verdict", 2)?;
        fields.serialize_field("may_match", &self.may_match())?;
        fields.serialize_field("truth", &truth)?;
        fields.end()
    }
}

/// Serializes a table that was searched, without what is not known of every table.
pub(super) fn table<S: Serializer>(
    table: &TableInfo,
    filter: &FilterState,
    to: S,
) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_struct("Table", 6)?;
    fields.serialize_field("level", &table.level)?;
    fields.serialize_field("number", &table.number)?;
    fields.serialize_field("file_bytes", &table.file_bytes)?;
    fields.serialize_field("first_key", &Bytes(&table.first_key))?;
    fields.serialize_field("last_key", &Bytes(&table.last_key))?;
    fields.serialize_field("filter", filter)?;
    fields.end()
}

/// Serializes the entry found in a data block, as the field `entry`.
pub(super) fn entry<S: Serializer>(entry: &Entry, to: S) -> Result<S::Ok, S::Error> {
    EntryField { entry: Some(entry) }.serialize(to)
}

/// Serializes the absence of an entry, as a null field `entry`.
pub(super) fn no_entry<S: Serializer>(to: S) -> Result<S::Ok, S::Error> {
    EntryField { entry: None }.serialize(to)
}

#[derive(Serialize)]
struct EntryField<'a> {
    entry: Option<&'a Entry>,
}
