//! Seeds that once found a fault.

/// A seed that once found a fault: a line `TEST SEED: what it found` of a crate's `tests/regressions.txt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Regression {
    /// The name of the test function.
    pub test: String,
    /// The seed.
    pub seed: u64,
    /// The fault that it found.
    pub found: String,
}

/// The regressions of a list. Lines that begin with `#` are comments.
///
/// # Errors
/// A line does not read `TEST SEED: what it found`.
pub(crate) fn regressions(list: &str) -> Result<Vec<Regression>, String> {
    let lines = list.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let read = |(line, number): (&str, usize)| {
        let wrong = || format!("line {number}: `{line}` does not read `TEST SEED: what it found`");
        let (case, found) = line.split_once(':').ok_or_else(wrong)?;
        let (test, seed) = case.split_once(' ').ok_or_else(wrong)?;
        let seed = seed.trim().parse().map_err(|_| wrong())?;
        let found = found.trim();
        if test.is_empty() || found.is_empty() {
            return Err(wrong());
        }
        Ok(Regression { test: test.to_owned(), seed, found: found.to_owned() })
    };
    lines.map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn a_line_is_a_test_a_seed_and_the_fault() {
        let list = "# TEST SEED: what it found\n\nhistories 77: a flood came back to its sender\n";
        let regression = Regression {
            test: "histories".to_owned(),
            seed: 77,
            found: "a flood came back to its sender".to_owned(),
        };
        assert_eq!(regressions(list), Ok(vec![regression]));
        for wrong in ["histories 77", "histories 77:", "histories x: a fault", "77: a fault"] {
            assert_eq!(
                regressions(wrong),
                Err(format!("line 1: `{wrong}` does not read `TEST SEED: what it found`"))
            );
        }
    }

    /// A test that was renamed would leave its regressions behind, and nobody would notice.
    #[test]
    fn every_regression_names_a_test_of_its_crate() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let inside = |folder: &Path| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            entries.map(|entry| entry.expect("the folder can be read").path()).collect()
        };
        let mut lists = 0;
        for folder in inside(&crates).iter().flat_map(|room| inside(room)) {
            let tests = folder.join("tests");
            let Ok(list) = std::fs::read_to_string(tests.join("regressions.txt")) else { continue };
            lists += 1;
            let list = regressions(&list).unwrap_or_else(|error| panic!("{}: {error}", tests.display()));
            let mut sources = String::new();
            for part in [&tests, &folder.join("src")] {
                read(part, &mut sources);
            }
            for Regression { test, seed, .. } in list {
                let named = sources.contains(&format!("seeds!(\"{test}\""));
                assert!(named, "{}: no test takes the seeds of `{test}` ({seed})", tests.display());
            }
        }
        assert!(lists >= 5, "only {lists} crates have regressions");
    }

    fn read(folder: &Path, sources: &mut String) {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                read(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                *sources += &std::fs::read_to_string(&path).expect("a source file is text");
            }
        }
    }
}
