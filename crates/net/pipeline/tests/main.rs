//! The pipeline of small programs.

mod entries;
