//! One test for each thing that can happen to the files.
