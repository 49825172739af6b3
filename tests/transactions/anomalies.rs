//! Tests for the anomalies that are covered by Martin Kleppmann's test suite Hermitage, under the
//! same names. Each test begins with the entries 1 = 10 and 2 = 20.

use minikv::{Readable, Transaction};

use crate::{Home, assert_conflict, text};

fn two() -> Home {
    Home::with([("1", "10"), ("2", "20")])
}

fn get(tx: &Transaction, key: &str) -> String {
    text(tx.get(key).unwrap())
}

/// Returns the keys whose values satisfy the predicate.
fn select(tx: &Transaction, predicate: impl Fn(u64) -> bool) -> Vec<String> {
    let mut keys = Vec::new();
    for entry in tx.iter() {
        let (key, value) = entry.unwrap();
        if predicate(text(Some(value)).parse().unwrap()) {
            keys.push(text(Some(key)));
        }
    }
    keys
}

fn all(home: &Home) -> Vec<(String, String)> {
    let entries = home.iter().map(|entry| entry.unwrap());
    entries.map(|(key, value)| (text(Some(key)), text(Some(value)))).collect()
}

fn pairs<const N: usize>(entries: [(&str, &str); N]) -> Vec<(String, String)> {
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec()
}

#[test]
fn g0_writes_of_two_transactions_do_not_interleave() {
    let home = two();
    let (mut t1, mut t2) = (home.transaction(), home.transaction());
    t1.put("1", "11");
    t2.put("1", "12");
    t1.put("2", "21");
    t1.commit().unwrap();
    assert_eq!(all(&home), pairs([("1", "11"), ("2", "21")]));
    t2.put("2", "22");
    t2.commit().unwrap();
    assert_eq!(all(&home), pairs([("1", "12"), ("2", "22")]));
}

#[test]
fn g1a_writes_that_are_rolled_back_are_not_read() {
    let home = two();
    let (mut t1, t2) = (home.transaction(), home.transaction());
    t1.put("1", "101");
    assert_eq!(select(&t2, |_| true), ["1", "2"]);
    assert_eq!(get(&t2, "1"), "10");
    drop(t1);
    assert_eq!(get(&t2, "1"), "10");
    t2.commit().unwrap();
    assert_eq!(all(&home), pairs([("1", "10"), ("2", "20")]));
}

#[test]
fn g1b_values_that_are_overwritten_before_the_commit_are_not_read() {
    let home = two();
    let (mut t1, t2) = (home.transaction(), home.transaction());
    t1.put("1", "101");
    assert_eq!(get(&t2, "1"), "10");
    t1.put("1", "11");
    t1.commit().unwrap();
    assert_eq!(get(&t2, "1"), "10");
    assert_eq!(get(&home.transaction(), "1"), "11");
}

#[test]
fn g1c_information_does_not_flow_in_a_circle() {
    let home = two();
    let (mut t1, mut t2) = (home.transaction(), home.transaction());
    t1.put("1", "11");
    t2.put("2", "22");
    assert_eq!((get(&t1, "2"), get(&t2, "1")), ("20".to_owned(), "10".to_owned()));
    t1.commit().unwrap();
    assert_conflict(t2.commit(), "1");
    assert_eq!(all(&home), pairs([("1", "11"), ("2", "20")]));
}

#[test]
fn otv_a_transaction_that_was_observed_does_not_vanish() {
    let home = two();
    let (mut t1, mut t2) = (home.transaction(), home.transaction());
    t1.put("1", "11");
    t1.put("2", "19");
    t2.put("1", "12");
    t1.commit().unwrap();
    let t3 = home.transaction();
    assert_eq!(get(&t3, "1"), "11");
    t2.put("2", "18");
    assert_eq!(get(&t3, "2"), "19");
    t2.commit().unwrap();
    assert_eq!((get(&t3, "2"), get(&t3, "1")), ("19".to_owned(), "11".to_owned()));
    t3.commit().unwrap();
}

#[test]
fn pmp_a_predicate_sees_one_moment() {
    let home = two();
    let (t1, mut t2) = (home.transaction(), home.transaction());
    assert!(select(&t1, |value| value == 30).is_empty());
    t2.put("3", "30");
    t2.commit().unwrap();
    assert!(select(&t1, |value| value % 3 == 0).is_empty());
    t1.commit().unwrap();
}

#[test]
fn pmp_a_write_by_a_predicate_conflicts_with_a_change_of_its_selection() {
    let home = two();
    let (mut t1, mut t2) = (home.transaction(), home.transaction());
    for key in select(&t1, |_| true) {
        let value: u64 = get(&t1, &key).parse().unwrap();
        t1.put(key, (value + 10).to_string());
    }
    for key in select(&t2, |value| value == 20) {
        t2.delete(key);
    }
    t1.commit().unwrap();
    assert!(t2.commit().unwrap_err().is_conflict());
    assert_eq!(all(&home), pairs([("1", "20"), ("2", "30")]));
}

#[test]
fn p4_no_update_is_lost() {
    let home = two();
    let (mut t1, mut t2) = (home.transaction(), home.transaction());
    assert_eq!((get(&t1, "1"), get(&t2, "1")), ("10".to_owned(), "10".to_owned()));
    t1.put("1", "11");
    t2.put("1", "11");
    t1.commit().unwrap();
    assert_conflict(t2.commit(), "1");
}

#[test]
fn g_single_reads_are_not_skewed() {
    let home = two();
    let (t1, mut t2) = (home.transaction(), home.transaction());
    assert_eq!(get(&t1, "1"), "10");
    t2.put("1", "12");
    t2.put("2", "18");
    t2.commit().unwrap();
    assert_eq!(get(&t1, "2"), "20");
    t1.commit().unwrap();
}

#[test]
fn g_single_predicates_are_not_skewed() {
    let home = two();
    let (t1, mut t2) = (home.transaction(), home.transaction());
    assert_eq!(select(&t1, |value| value % 5 == 0), ["1", "2"]);
    t2.put("1", "12");
    t2.commit().unwrap();
    assert!(select(&t1, |value| value % 3 == 0).is_empty());
    t1.commit().unwrap();
}

#[test]
fn g_single_a_write_by_a_predicate_after_a_skewed_read_conflicts() {
    let home = two();
    let (mut t1, mut t2) = (home.transaction(), home.transaction());
    assert_eq!(get(&t1, "1"), "10");
    t2.put("1", "12");
    t2.put("2", "18");
    t2.commit().unwrap();
    for key in select(&t1, |value| value == 20) {
        t1.delete(key);
    }
    assert!(t1.commit().unwrap_err().is_conflict());
    assert_eq!(all(&home), pairs([("1", "12"), ("2", "18")]));
}

#[test]
fn g2_item_writes_are_not_skewed() {
    let home = two();
    let (mut t1, mut t2) = (home.transaction(), home.transaction());
    for tx in [&t1, &t2] {
        assert_eq!((get(tx, "1"), get(tx, "2")), ("10".to_owned(), "20".to_owned()));
    }
    t1.put("1", "11");
    t2.put("2", "21");
    t1.commit().unwrap();
    assert_conflict(t2.commit(), "1");
}

#[test]
fn g2_a_phantom_conflicts() {
    let home = two();
    let (mut t1, mut t2) = (home.transaction(), home.transaction());
    assert!(select(&t1, |value| value % 3 == 0).is_empty());
    assert!(select(&t2, |value| value % 3 == 0).is_empty());
    t1.put("3", "30");
    t2.put("4", "42");
    t1.commit().unwrap();
    assert_conflict(t2.commit(), "3");
}

#[test]
fn g2_two_edges_a_reader_makes_a_difference() {
    let home = two();
    let (mut t1, mut t2) = (home.transaction(), home.transaction());
    assert_eq!(select(&t1, |_| true), ["1", "2"]);
    let value: u64 = get(&t2, "2").parse().unwrap();
    t2.put("2", (value + 5).to_string());
    t2.commit().unwrap();
    let t3 = home.transaction();
    assert_eq!(select(&t3, |value| value % 5 == 0), ["1", "2"]);
    assert_eq!(get(&t3, "2"), "25");
    t3.commit().unwrap();
    t1.put("1", "0");
    assert_conflict(t1.commit(), "2");
}
