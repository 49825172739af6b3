//! Asks a database which filters suit the lookups it has served:
//! `cargo run --release -p minikv-instrument --example advice`.

use minikv::{Db, Filters, Options, ReadSample, Result};

const USERS: u64 = 200_000;

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let options = Options::default().create_if_missing(true).filters(Filters::None);
    let options = options.sample_reads(&ReadSample::new());
    let db = Db::open(home.path().join("db"), options)?;
    for i in 0..USERS {
        let user = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        db.put(format!("user/{user:016x}"), format!("joined in {}", 2000 + user % 26))?;
    }
    // Compact first, so that every run has the same tables.
    db.compact_range(..)?;

    // Two out of three lookups are for users that do not exist.
    for i in (0..USERS * 3).step_by(2) {
        let user = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        db.get(format!("user/{user:016x}"))?;
    }
    println!("{}", minikv_instrument::advise(&db)?);
    Ok(())
}
