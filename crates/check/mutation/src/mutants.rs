//! The mistakes: one change in one place, found in the syntax tree and among the names.

mod typed;
mod values;

use std::fmt;
use std::ops::Range;

use nlog::syntax::{SyntaxKind as K, SyntaxNode, SyntaxToken, parse};

pub(crate) use typed::Names;
use values::{other_number, other_string, wider_mask, wider_prefix};

/// A file with one mistake in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// The line, from 1.
    pub(crate) line: usize,
    /// Whether the mistake is in a function that the rules declare.
    pub(crate) in_function: bool,
    /// The replaced text and its replacement.
    change: Change,
}

/// A range of bytes, its text, and the text that replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    range: Range<usize>,
    old: String,
    new: String,
}

impl Mutant {
    /// The file with the mistake.
    pub(crate) fn text(&self, original: &str) -> String {
        let Change { range, new, .. } = &self.change;
        [&original[..range.start], new, &original[range.end..]].concat()
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (old, new) = (one_line(&self.change.old), one_line(&self.change.new));
        match &*new {
            "" => write!(f, "without `{old}`"),
            _ => write!(f, "`{new}` in place of `{old}`"),
        }
    }
}

/// All mistakes made in a file, in the order of their places.
///
/// Each rule is left out, and so is each item of a body, each field of a match, each action, and each side of `&` and `++`.
/// Each number, truth value, address, named constant and priority is replaced by another; comparisons and aggregates are reversed; an
/// `if` always takes one branch. Further mutants are mistakes that people make: another variable of the same type, another
/// table with the same column types, swapped fields (source and destination), and a wider mask or prefix. Declarations of
/// tables, types, fields, stages and priorities stay unchanged.
pub(crate) fn mutants(names: &Names, file: &str, text: &str) -> Vec<Mutant> {
    let root = parse(text).root();
    let mut found = Found { text, names, in_function: false, mutants: Vec::new() };
    for item in root.children().filter(|item| matches!(item.kind(), K::Rule | K::Function | K::Const)) {
        found.in_function = item.kind() == K::Function;
        if item.kind() == K::Rule {
            found.replace(range(&item), "");
        }
        for node in item.descendants() {
            found.node(&node);
        }
        for (range, other) in names.mistaken(file, range(&item)) {
            found.replace(range, &other);
        }
    }
    let mut mutants = found.mutants;
    mutants.sort_by(|one, other| {
        let key = |mutant: &Mutant| (mutant.change.range.start, mutant.change.range.end);
        key(one).cmp(&key(other)).then_with(|| one.change.new.cmp(&other.change.new))
    });
    mutants.dedup_by(|one, other| one.change == other.change);
    mutants
}

struct Found<'a> {
    text: &'a str,
    names: &'a Names,
    in_function: bool,
    mutants: Vec<Mutant>,
}

impl Found<'_> {
    /// The mistakes at a node.
    fn node(&mut self, node: &SyntaxNode) {
        match node.kind() {
            K::Body | K::Match | K::Actions => self.leave_out(node),
            K::Literal => self.literal(node),
            K::Name => self.name(node),
            K::Binary => self.binary(node),
            K::If => self.one_branch(node),
            K::Call => self.aggregate(node),
            K::MatchTerm => self.mask(node),
            _ => {}
        }
    }

    /// Each element of a list is left out, with the comma that follows it or, for the last one, the comma before it.
    fn leave_out(&mut self, list: &SyntaxNode) {
        let elements: Vec<Range<usize>> = list.children().map(|element| range(&element)).collect();
        for (at, element) in elements.iter().enumerate() {
            let with_comma = match (elements.get(at + 1), at.checked_sub(1)) {
                (Some(next), _) => element.start..next.start,
                (None, Some(before)) => elements[before].end..element.end,
                (None, None) => element.clone(),
            };
            self.replace(with_comma, "");
        }
    }

    fn literal(&mut self, node: &SyntaxNode) {
        let text = self.text;
        let written = &text[range(node)];
        let other = match node.first_token().map(|token| token.kind()) {
            Some(K::TrueKw) => Some("false".to_owned()),
            Some(K::FalseKw) => Some("true".to_owned()),
            Some(K::Number) => other_number(written, is_priority(node)),
            Some(K::String | K::PrefixedString) => other_string(written),
            _ => None,
        };
        let wider = wider_prefix(written);
        for other in other.into_iter().chain(wider) {
            self.replace(range(node), &other);
        }
    }

    /// The mask after the slash of `field: value/mask` loses a bit, and so does the value.
    fn mask(&mut self, term: &SyntaxNode) {
        let text = self.text;
        let parts: Vec<SyntaxNode> = term.children().filter(|part| part.kind() != K::BitRange).collect();
        let slash =
            tokens(term).any(|token| token.kind() == K::Slash && token.parent().as_ref() == Some(term));
        let [.., value, mask] = &parts[..] else { return };
        if let Some((value_text, mask_text)) =
            wider_mask(&text[range(value)], &text[range(mask)]).filter(|_| slash)
        {
            self.replace(range(value).start..range(mask).end, &format!("{value_text}/{mask_text}"));
        }
    }

    /// Constants are named in capitals. The next number is another stage, but seldom another order of priorities.
    fn name(&mut self, node: &SyntaxNode) {
        let text = self.text;
        let name = &text[range(node)];
        if let Some(value) = self.names.priority(name) {
            let other = other_number(&value.to_string(), true);
            return other.iter().for_each(|other| self.replace(range(node), other));
        }
        if name.len() > 1 && name.chars().all(|letter| !letter.is_lowercase()) && name != "_" {
            self.replace(range(node), &format!("({name} + 1)"));
        }
    }

    fn binary(&mut self, node: &SyntaxNode) {
        let operator = tokens(node).find(|token| token.parent().as_ref() == Some(node));
        let sides: Vec<SyntaxNode> = node.children().collect();
        let (Some(operator), [left, right]) = (operator, &sides[..]) else { return };
        let turned = match operator.kind() {
            K::EqEq => "!=",
            K::NotEq => "==",
            K::Lt => ">=",
            K::LtEq => ">",
            K::Gt => "<=",
            K::GtEq => "<",
            K::Plus => "-",
            K::Minus => "+",
            K::Pipe => "&",
            K::Amp | K::PlusPlus => {
                self.replace(range(left).start..range(right).start, "");
                self.replace(range(left).end..range(right).end, "");
                return;
            }
            _ => return,
        };
        let at = operator.text_range();
        self.replace(at.start().into()..at.end().into(), turned);
    }

    fn one_branch(&mut self, node: &SyntaxNode) {
        let text = self.text;
        for branch in node.children().skip(1) {
            self.replace(range(node), &format!("({})", &text[range(&branch)]));
        }
    }

    fn aggregate(&mut self, call: &SyntaxNode) {
        let Some(name) = call.first_token() else { return };
        let other = match name.text() {
            "arg_min" => "arg_max",
            "arg_max" => "arg_min",
            "min" => "max",
            "max" => "min",
            "is_ipv4" => "is_ipv6",
            "is_ipv6" => "is_ipv4",
            _ => return,
        };
        let at = name.text_range();
        self.replace(at.start().into()..at.end().into(), other);
    }

    fn replace(&mut self, range: Range<usize>, new: &str) {
        let line = self.text[..range.start].matches('\n').count() + 1;
        let old = self.text[range.clone()].to_owned();
        let change = Change { range, old, new: new.to_owned() };
        self.mutants.push(Mutant { line, in_function: self.in_function, change });
    }
}

/// A node's tokens without spaces and comments.
fn tokens(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    let end = node.text_range().end();
    let tokens = std::iter::successors(node.first_token(), SyntaxToken::next_token);
    tokens.take_while(move |token| token.text_range().end() <= end).filter(|token| !token.kind().is_trivia())
}

/// The bytes from a node's first token to its last.
fn range(node: &SyntaxNode) -> Range<usize> {
    let mut ranges = tokens(node).map(|token| token.text_range());
    let first = ranges.next().unwrap_or(node.text_range());
    let last = ranges.last().unwrap_or(first);
    first.start().into()..last.end().into()
}

/// Whether a number is directly in a rule's head, like the priorities of flows.
fn is_priority(literal: &SyntaxNode) -> bool {
    let kinds: Vec<K> = literal.ancestors().skip(1).take(4).map(|node| node.kind()).collect();
    kinds.ends_with(&[K::Call, K::Rule]) && kinds.contains(&K::Arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mutants that follow from the syntax alone.
    fn all(text: &str) -> Vec<String> {
        mutants(&Names::default(), "", text).iter().map(|mutant| mutant.text(text)).collect()
    }

    const PROGRAM: &str = r#"
input table port(name: string, vlan: int);
input table spare(name: string, vlan: int);
input table host(name: string, address: ip);
output table flow(name: string, host: string, match: match);
const TAG = 4;
field inport = reg0;
field outport = reg1;
field mark = reg2[5];
stage L2 = 20;
priority UNICAST of L2 = 50;
output table placed(name: string, stage: int, priority: int);
flow(p, h, match{eth_src: "02:00:00:00:00:00"/"fe:00:00:00:00:00", ip_dst: net"10.0.0.0/8", ip, inport: v, mark: 1}) :-
    port(p, v), host(h, _), v > TAG;
placed(p, L2, UNICAST) :- port(p, _);
"#;

    /// Every mutant of a small program. `UPDATE_EXPECT=1` writes the list; review the difference like code.
    #[test]
    fn the_mutants_of_a_small_program_are_these() {
        let names = Names::of([("rules.nlog", PROGRAM)]).expect("the program compiles");
        let lines = mutants(&names, "rules.nlog", PROGRAM);
        let lines: Vec<String> = lines.iter().map(|mutant| format!("{}: {mutant}", mutant.line)).collect();
        let lines = lines.join("\n") + "\n";
        expect_test::expect_file!["mutants/small.txt"].assert_eq(&lines);
    }

    #[test]
    fn items_of_a_body_are_left_out_one_at_a_time() {
        assert_eq!(
            all("a(x) :- b(x), c(x, _),\n  x != y;"),
            [
                "",
                "a(x) :- c(x, _),\n  x != y;",
                "a(x) :- b(x), x != y;",
                "a(x) :- b(x), c(x, _);",
                "a(x) :- b(x), c(x, _),\n  x == y;"
            ]
        );
    }

    #[test]
    fn fields_and_actions_are_left_out_and_their_values_changed() {
        let made = all("f(hv, L2, 50, match{arp, arp_op: 1}, actions[set(reg0, 0x1f), resubmit(OUT)]);");
        for expected in [
            "f(hv, (L2 + 1), 50, match{arp, arp_op: 1}, actions[set(reg0, 0x1f), resubmit(OUT)]);",
            "f(hv, L2, 1, match{arp, arp_op: 1}, actions[set(reg0, 0x1f), resubmit(OUT)]);",
            "f(hv, L2, 50, match{arp_op: 1}, actions[set(reg0, 0x1f), resubmit(OUT)]);",
            "f(hv, L2, 50, match{arp}, actions[set(reg0, 0x1f), resubmit(OUT)]);",
            "f(hv, L2, 50, match{arp, arp_op: 2}, actions[set(reg0, 0x1f), resubmit(OUT)]);",
            "f(hv, L2, 50, match{arp, arp_op: 1}, actions[resubmit(OUT)]);",
            "f(hv, L2, 50, match{arp, arp_op: 1}, actions[set(reg0, 32), resubmit(OUT)]);",
            "f(hv, L2, 50, match{arp, arp_op: 1}, actions[set(reg0, 0x1f)]);",
            "f(hv, L2, 50, match{arp, arp_op: 1}, actions[set(reg0, 0x1f), resubmit((OUT + 1))]);",
        ] {
            assert!(made.iter().any(|one| one == expected), "{expected} is not among {made:#?}");
        }
        assert_eq!(made.len(), 10, "those, and no rule at all");
    }

    #[test]
    fn addresses_enumerations_and_truths_are_others() {
        let made = all(r#"f("all", "02:00:00:00:00:ff", ip"::", net"ff00::/8", true) :- g("10.0.0.9");"#);
        for expected in
            ["\"unknown\"", "02:00:00:00:00:f0", "ip\"::1\"", "net\"ff00::1/8\"", "false", "10.0.0.0"]
        {
            assert!(made.iter().any(|one| one.contains(expected)), "{expected} is not in {made:#?}");
        }
    }

    #[test]
    fn sides_branches_and_aggregates_are_changed() {
        let made = all("f(if a then b ++ c else d, arg_min(x, y)) :- g(m & n);");
        for expected in ["f((b ++ c), ", "f((d), ", "then b else", "then c else", "arg_max", "g(m)", "g(n)"] {
            assert!(made.iter().any(|one| one.contains(expected)), "{expected} is not in {made:#?}");
        }
    }
}
