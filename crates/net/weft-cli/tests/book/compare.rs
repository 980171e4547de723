//! Compares output with a page. A line `…` stands for any lines, `…` within a line for any text.

/// Whether the printed lines are as shown.
pub(crate) fn matches(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line.trim() == "…" => {
            (0..=printed.len()).any(|skip| matches(rest, &printed[skip..]))
        }
        Some((line, rest)) => match printed.split_first() {
            Some((first, others)) => line_matches(line, first) && matches(rest, others),
            None => false,
        },
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|start| printed.strip_prefix(start)) else { return false };
    let Some(mut last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    last = last.trim_end();
    rest.trim_end().ends_with(last)
}

/// Both, with what they share at start and end once.
pub(crate) fn difference(shown: &[String], printed: &[String]) -> String {
    let same = |(one, other): &(&String, &String)| line_matches(one, other);
    let start = shown.iter().zip(printed).take_while(same).count();
    let (shown_rest, printed_rest) = (&shown[start..], &printed[start..]);
    let end = shown_rest.iter().rev().zip(printed_rest.iter().rev()).take_while(same).count();
    let mut text = String::new();
    let mut push = |sign: &str, lines: &[String]| {
        for line in lines {
            text += &format!("    {sign} {line}\n");
        }
    };
    push(" ", &shown[..start]);
    push("-", &shown_rest[..shown_rest.len() - end]);
    push("+", &printed_rest[..printed_rest.len() - end]);
    push(" ", &shown_rest[shown_rest.len() - end..]);
    text
}

#[test]
fn dots_stand_for_what_is_left_out() {
    let lines =
        |text: &str| text.split('|').filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let holds = |shown: &str, printed: &str| matches(&lines(shown), &lines(printed));
    assert!(holds("a|…|d", "a|b|c|d") && holds("a|…|d", "a|d") && holds("…", ""));
    assert!(!holds("a|…|d", "a|b|c") && !holds("a", "a|b") && !holds("a|b", "a"));
    assert!(holds("x … z", "x y z") && holds("3 sent, … ms", "3 sent, 0.1 ms"));
    assert!(!holds("x … z", "x y") && !holds("a…b…c", "acb"));
    assert_eq!(difference(&lines("a|b|c"), &lines("a|x|c")), "      a\n    - b\n    + x\n      c\n");
}
