//! The `weft` command, the book, and the lab.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod book;
mod bounded;
mod changes;
mod check;
mod command_line;
mod crates;
mod defects;
mod disturbed;
mod eval;
mod eval_hooks;
mod eval_processes;
mod eval_rules;
mod eval_state;
mod everything;
mod examples;
mod explain;
mod explain_object;
mod explain_running;
mod figure6;
mod fmt;
mod forbid;
mod full_disk;
mod kill;
mod kinds;
mod language;
mod limits;
mod literals;
mod mistakes;
mod objects;
mod open_vswitch;
mod packages;
mod pipeline;
mod plan;
mod profile;
mod python;
mod readme;
mod refusals;
mod routes;
mod support;
mod tables;
mod trace;
mod trace_states;
mod unit_tests;
mod wait;
