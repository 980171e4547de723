//! The unit tests beside rules: runs one test, and tells which test notices that a file of rules has changed.
//!
//! ```
//! use rule_tests::{Folder, Suite, Verdict};
//!
//! let rules = "input table on(port: string, host: string); output table host(host: string); host(h) :- on(_, h);";
//! let tests = r#"import "hosts.nlog"; test "a host" { given { on("p", "h"); } expect host("h"); }"#;
//! let folder = Folder::from_texts([("hosts.nlog", rules), ("hosts.test.nlog", tests)]);
//! let mut suite = Suite::new(&folder);
//! assert_eq!(suite.verdict("hosts.nlog", rules), Verdict::Passed);
//! let broken = rules.replace("host(h) :- on(_, h);", "");
//! let failed = Verdict::Failed { file: "hosts.test.nlog".to_owned(), test: "a host".to_owned() };
//! assert_eq!(suite.verdict("hosts.nlog", &broken), failed);
//! ```
//!
//! In reading order: [`run()`] (one test), [`comparison`] (expected rows beside the rows found), `switches` (the simulated
//! switches of a test that sends packets), `packet` (where it arrives, and why), [`Folder`]
//! (rules and tests in memory), [`Suite`] (the tests that a file can affect, with another text for the file).
#![forbid(unsafe_code)]

pub mod comparison;
mod folder;
mod packet;
mod run;
mod suite;
mod switches;

pub use folder::Folder;
pub use run::{Failure, Outcome, passes, run};
pub use suite::{Suite, Verdict};
