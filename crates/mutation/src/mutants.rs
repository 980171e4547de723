//! The mistakes: one change of one place, found in the syntax tree.

use std::fmt;
use std::ops::Range;

use nlog::syntax::{SyntaxKind as K, SyntaxNode, SyntaxToken, parse};

/// A file with one mistake in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is written in place of what.
    change: Change,
}

/// Bytes, and what stands there instead.
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

/// All mistakes that are made in a file, in the order of their places.
///
/// Left out is each rule, each item of a body, each field of a match, each action, and each side of `&` and `++`; every number
/// is another, every truth the contrary, every address and named constant its neighbour, comparisons and aggregates are
/// turned round, and of `if` one branch is always taken. Declarations stay as they are.
pub(crate) fn mutants(text: &str) -> Vec<Mutant> {
    let root = parse(text).root();
    let mut found = Found { text, mutants: Vec::new() };
    for item in root.children().filter(|item| matches!(item.kind(), K::Rule | K::Function | K::Const)) {
        if item.kind() == K::Rule {
            found.replace(&item, range(&item), "");
        }
        for node in item.descendants() {
            found.node(&node);
        }
    }
    let mut mutants = found.mutants;
    mutants.sort_by_key(|mutant| (mutant.change.range.start, mutant.change.range.end));
    mutants.dedup_by(|one, other| one.change == other.change);
    mutants
}

struct Found<'a> {
    text: &'a str,
    mutants: Vec<Mutant>,
}

impl Found<'_> {
    /// What can go wrong at a node.
    fn node(&mut self, node: &SyntaxNode) {
        match node.kind() {
            K::Body | K::Match | K::Actions => self.leave_out(node),
            K::Literal => self.literal(node),
            K::Name => self.name(node),
            K::Binary => self.binary(node),
            K::If => self.one_branch(node),
            K::Call => self.aggregate(node),
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
            self.replace(list, with_comma, "");
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
        if let Some(other) = other {
            self.replace(node, range(node), &other);
        }
    }

    /// Constants are named in capitals.
    fn name(&mut self, node: &SyntaxNode) {
        let text = self.text;
        let name = &text[range(node)];
        if name.len() > 1 && name.chars().all(|letter| !letter.is_lowercase()) && name != "_" {
            self.replace(node, range(node), &format!("({name} + 1)"));
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
                self.replace(node, range(left).start..range(right).start, "");
                self.replace(node, range(left).end..range(right).end, "");
                return;
            }
            _ => return,
        };
        let at = operator.text_range();
        self.replace(node, at.start().into()..at.end().into(), turned);
    }

    fn one_branch(&mut self, node: &SyntaxNode) {
        let text = self.text;
        for branch in node.children().skip(1) {
            self.replace(node, range(node), &format!("({})", &text[range(&branch)]));
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
        self.replace(call, at.start().into()..at.end().into(), other);
    }

    fn replace(&mut self, node: &SyntaxNode, range: Range<usize>, new: &str) {
        debug_assert!(self::range(node).start <= range.start);
        let line = self.text[..range.start].matches('\n').count() + 1;
        let old = self.text[range.clone()].to_owned();
        self.mutants.push(Mutant { line, change: Change { range, old, new: new.to_owned() } });
    }
}

/// A node's tokens that mean something.
pub(crate) fn tokens(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    let end = node.text_range().end();
    let tokens = std::iter::successors(node.first_token(), SyntaxToken::next_token);
    tokens.take_while(move |token| token.text_range().end() <= end).filter(|token| !token.kind().is_trivia())
}

/// Where the first and the last of them stand.
fn range(node: &SyntaxNode) -> Range<usize> {
    let mut ranges = tokens(node).map(|token| token.text_range());
    let first = ranges.next().unwrap_or(node.text_range());
    let last = ranges.last().unwrap_or(first);
    first.start().into()..last.end().into()
}

/// Whether a number stands in a rule's head itself, where it is the priority of a flow.
fn is_priority(literal: &SyntaxNode) -> bool {
    let kinds: Vec<K> = literal.ancestors().skip(1).take(4).map(|node| node.kind()).collect();
    kinds.ends_with(&[K::Call, K::Rule]) && kinds.contains(&K::Arguments)
}

/// A number beside this one; a priority below or above all.
fn other_number(written: &str, is_priority: bool) -> Option<String> {
    let number = match written.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => written.parse().ok()?,
    };
    Some(match (is_priority, number) {
        (true, 0) => "1000".to_owned(),
        (true, _) => "1".to_owned(),
        (false, _) => (number + 1).to_string(),
    })
}

/// An address beside this one; another member of an enumeration; a text that is another.
fn other_string(written: &str) -> Option<String> {
    let (prefix, text) = written.strip_suffix('"')?.split_once('"')?;
    let other = match text {
        "all" => "unknown",
        "unknown" => "all",
        "flow" => "port",
        "port" => "flow",
        "geneve" => "vxlan",
        "vxlan" => "gre",
        "gre" => "geneve",
        "::" => "::1",
        _ => return other_text(prefix, text),
    };
    Some(format!("{prefix}\"{other}\""))
}

fn other_text(prefix: &str, text: &str) -> Option<String> {
    let (base, length) =
        text.split_once('/').map_or((text, String::new()), |(base, length)| (base, format!("/{length}")));
    let is_address = base.contains(':') || base.split('.').count() == 4;
    let last = base.chars().last()?;
    let other = match last {
        '0'..='8' | 'a'..='e' if is_address => char::from(last as u8 + 1),
        '9' | 'f' if is_address => '0',
        _ if is_address => return Some(format!("{prefix}\"{base}1{length}\"")),
        _ => return Some(format!("{prefix}\"{text}?\"")),
    };
    Some(format!("{prefix}\"{}{other}{length}\"", &base[..base.len() - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a rule.
    fn all(text: &str) -> Vec<String> {
        mutants(text).iter().map(|mutant| mutant.text(text)).collect()
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
