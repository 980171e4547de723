//! The seeds of every fuzz target, without libFuzzer: a fault that fuzzing once found, or that a change brings back, fails here.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod page;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// The folder of the fuzz targets.
fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz")
}

/// Gives a target each of its seeds.
fn pass(name: &str, target: fn(&[u8])) {
    let folder = fuzz().join("seeds").join(name);
    let seeds = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for seed in seeds {
        let path = seed.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        // The panic's own message is on the standard error by then.
        let passed = panic::catch_unwind(AssertUnwindSafe(|| target(&bytes)));
        assert!(passed.is_ok(), "the target {name} fails on {}", path.display());
        count += 1;
    }
    assert!(count > 0, "{} has no seed", folder.display());
    target(b"");
}

macro_rules! seeds {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                pass(stringify!($target), fuzz_targets::$target);
            }
        )*

        /// The targets whose seeds pass through here.
        const TESTED: &[&str] = &[$(stringify!($target)),*];
    };
}

seeds! {
    answer capture certificate check configuration edit endpoint format frame http journal literal merge message objects openflow ovsdb parse restore
    saved_state snapshot switch_state tokens transaction
}

/// The programs that `fuzz/Cargo.toml` declares, by the lines after each `[[bin]]`.
fn programs() -> BTreeSet<String> {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let name = |part: &str| {
        let line = part.lines().find_map(|line| line.strip_prefix("name = \"")).unwrap();
        line.trim_end_matches('"').to_owned()
    };
    manifest.split("[[bin]]").skip(1).map(name).collect()
}

#[test]
fn every_target_has_a_program_and_seeds() {
    let tested: BTreeSet<String> = TESTED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(tested, programs());
    let folders = fs::read_dir(fuzz().join("seeds")).unwrap();
    let folders: BTreeSet<String> =
        folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(tested, folders);
}
