//! Golden files: what other programs wrote, and what they would write.

mod databases;
