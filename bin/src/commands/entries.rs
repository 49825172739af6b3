//! The entries of a database opened for reading: in key order or, with `--comparator ignore`, in
//! the order of its files.

use minikv::ReadOnlyDb;

use crate::args::Global;
use crate::error::Result;
use crate::files::Survey;
use crate::writer::Writer;

pub enum Entries {
    InOrder(ReadOnlyDb),
    AsInFiles(Survey),
}

impl Entries {
    pub fn open(global: &Global) -> Result<Entries> {
        if !global.ignores_comparator() {
            return Ok(Entries::InOrder(super::open_read_only(global)?));
        }
        let dir = global.db()?;
        let survey = Survey::of(&dir, true)?;
        survey.say_damage();
        if let Some(writer) = Writer::of(&dir) {
            writer.say(&dir);
        }
        Ok(Entries::AsInFiles(survey))
    }

    /// Visits every key and value until `visit` returns false.
    pub fn each(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
        let db = match self {
            Entries::AsInFiles(survey) => return survey.each_entry(visit),
            Entries::InOrder(db) => db,
        };
        let mut cursor = db.cursor()?;
        let mut valid = cursor.seek_to_first()?;
        while valid && visit(cursor.key(), cursor.value())? {
            valid = cursor.next()?;
        }
        Ok(())
    }
}
