//! Which tests a file affects.

use rule_tests::Folder;

#[test]
fn a_file_affects_the_tests_that_import_it_directly_or_not_its_own_first() {
    let folder = Folder::from_texts([
        ("a.nlog", ""),
        ("a.test.nlog", "import \"a.nlog\";"),
        ("0.test.nlog", "import \"in/b.nlog\";"),
        ("in/b.nlog", "import \"../a.nlog\";"),
        ("in/b.test.nlog", "import \"./b.nlog\";"),
        ("c.test.nlog", ""),
    ]);
    assert_eq!(folder.tests_of("a.nlog"), ["a.test.nlog", "0.test.nlog", "in/b.test.nlog"]);
    assert_eq!(folder.tests_of("in/b.nlog"), ["in/b.test.nlog", "0.test.nlog"]);
    assert_eq!(folder.rules().map(|(name, _)| name).collect::<Vec<_>>(), ["a.nlog", "in/b.nlog"]);
    let program = folder.program_of("in/b.test.nlog");
    assert_eq!(
        program.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["in/b.test.nlog", "a.nlog", "in/b.nlog"]
    );
}
