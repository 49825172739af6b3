//! Books seats in transactions from several threads: `cargo run --example transactions`.
//!
//! A seat is free if there is no key for it, and a guest may book up to three seats. Both rules
//! depend on what other threads write at the same time: if commits did not detect conflicts, two
//! guests could get one seat, or one guest could get a fourth seat.

use minikv::{Db, Readable, Result, Transaction};

const GUESTS: [&str; 4] = ["ann", "bob", "cid", "dan"];
const SEATS: u32 = 10;
const SEATS_PER_GUEST: usize = 3;

fn seat(number: u32) -> String {
    format!("seat/{number:02}")
}

/// Books the first free seat. Returns the number of the seat, or `None` if the guest gets no seat.
fn book(tx: &mut Transaction, guest: &str) -> Result<Option<u32>> {
    // The range counts as read: a booking that appears in it later is a conflict.
    let booked = tx.prefix(format!("guest/{guest}/"))?.count();
    if booked == SEATS_PER_GUEST {
        return Ok(None);
    }
    for number in 0..SEATS {
        if !tx.contains_key(seat(number))? {
            tx.put(seat(number), guest);
            tx.put(format!("guest/{guest}/{number:02}"), "");
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Books seats for a guest until the guest gets no more, and counts the bookings.
fn book_all(db: &Db, guest: &str) -> Result<()> {
    // `transact` runs the closure again whenever a write of another thread conflicts with it.
    while let Some(number) = db.transact(|tx| book(tx, guest))? {
        db.update("bookings", |old| Some(vec![old.map_or(0, |count| count[0]) + 1]))?;
        println!("{guest} has seat {number}");
    }
    Ok(())
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::create(home.path().join("db"))?;

    std::thread::scope(|scope| {
        // Each guest books on two threads, as from two open windows.
        let guests = GUESTS.iter().flat_map(|guest| [guest, guest]);
        let windows: Vec<_> = guests.map(|guest| scope.spawn(|| book_all(&db, guest))).collect();
        windows.into_iter().try_for_each(|window| window.join().expect("no panic"))
    })?;

    let bookings = db.get("bookings")?.map_or(0, |count| u32::from(count[0]));
    assert_eq!(bookings, SEATS, "no booking is lost, and none is counted twice");
    for guest in GUESTS {
        assert!(db.prefix(format!("guest/{guest}/"))?.count() <= SEATS_PER_GUEST);
    }

    // Without `transact`, the second of two transactions that read the same key fails to commit.
    // The error states the reason.
    let (mut first, mut second) = (db.transaction(), db.transaction());
    for (tx, value) in [(&mut first, "rain"), (&mut second, "sun")] {
        assert!(!tx.contains_key("weather")?);
        tx.put("weather", value);
    }
    first.commit()?;
    let error = second.commit().expect_err("the first was faster");
    println!("{error}");
    Ok(())
}
