//! The order in which tests run.

use rule_tests::{Folder, Suite, Verdict};

#[test]
fn a_test_that_noticed_a_change_runs_before_the_others() {
    let rules = |first: &str, second: &str| {
        format!(
            "input table a(n: int) key(n);\noutput table b(n: int);\noutput table c(n: int);\n\
             b(n) :- a(n){first};\nc(n) :- a(n){second};\n"
        )
    };
    let test = |name: &str, table: &str| {
        format!("test \"{name}\" {{\n    given {{ a(1); }}\n    expect {table}(1);\n}}\n")
    };
    let import = "import \"a.nlog\";\n".to_owned();
    let folder = Folder::from_texts([
        ("a.nlog", rules("", "")),
        ("a.test.nlog", import.clone() + &test("of b", "b") + &test("of c", "c")),
        ("z.test.nlog", import + &test("of both", "b")),
    ]);
    let mut suite = Suite::new(&folder);
    let failed = |file: &str, test: &str| Verdict::Failed { file: file.into(), test: test.into() };
    assert_eq!(suite.verdict("a.nlog", &rules("", "")), Verdict::Passed);
    let (no_b, no_c, neither) = (rules(", n > 1", ""), rules("", ", n > 1"), rules(", n > 1", ", n > 1"));
    assert_eq!(suite.verdict("a.nlog", &neither), failed("a.test.nlog", "of b"));
    assert_eq!(suite.verdict("a.nlog", &no_c), failed("a.test.nlog", "of c"));
    assert_eq!(suite.verdict("a.nlog", &neither), failed("a.test.nlog", "of c"));
    assert_eq!(suite.verdict("a.nlog", &no_b), failed("a.test.nlog", "of b"));
    assert_eq!(suite.verdict("a.nlog", &neither), failed("a.test.nlog", "of b"));
}
