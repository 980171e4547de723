//! Compares the grammar of the reference with the parser, in both directions: sentences that the grammar generates parse
//! without error, and the grammar accepts every program of the repository and of the book.
//!
//! `name ::= …` starts a rule; `"word"` stands for itself, `NAME` in capitals for a token, `( )`, `|`, `*`, `+` and `?`
//! have their usual meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nlog::syntax::{SyntaxKind, parse};
use test_random::Random;

use super::block::Form;
use super::page::Page;
use super::{collect, pages};
use crate::support::root;

/// A part of a rule.
#[derive(Debug, Clone)]
enum Part {
    /// A word or sign.
    Literal(String),
    /// A token by its name.
    Token(Token),
    /// Another rule.
    Rule(String),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Optional(Box<Part>),
    Repeated(Box<Part>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Name,
    Word,
    Number,
    String,
    Prefixed,
}

struct Grammar {
    rules: BTreeMap<String, Part>,
}

impl Grammar {
    /// The grammar of the book.
    fn of_the_book() -> Grammar {
        let mut text = String::new();
        for page in pages() {
            for block in page.blocks().unwrap_or_default() {
                if Form::of(&block) == Ok(Form::Grammar) {
                    text += &block.lines.join("\n");
                    text.push('\n');
                }
            }
        }
        Grammar::read(&text)
    }

    fn read(text: &str) -> Grammar {
        let signs = tokens_of(text);
        let mut rules = BTreeMap::new();
        let mut at = 0;
        while at < signs.len() {
            assert_eq!(
                signs.get(at + 1).map(String::as_str),
                Some("::="),
                "a rule begins at `{}`",
                signs[at]
            );
            let name = signs[at].clone();
            at += 2;
            let part = choice(&signs, &mut at);
            assert!(rules.insert(name.clone(), part).is_none(), "{name} is defined twice");
        }
        let grammar = Grammar { rules };
        for (name, part) in &grammar.rules {
            for used in used_by(part) {
                assert!(grammar.rules.contains_key(&used), "{name} uses {used}, which is not defined");
            }
        }
        grammar
    }

    fn rule(&self, name: &str) -> &Part {
        self.rules.get(name).unwrap_or_else(|| panic!("the grammar has no `{name}`"))
    }

    /// The nesting depth of the shortest sentence of each rule.
    fn depths(&self) -> BTreeMap<String, usize> {
        let mut depths: BTreeMap<String, usize> = BTreeMap::new();
        loop {
            let mut changed = false;
            for (name, part) in &self.rules {
                if let Some(depth) = depth(part, &depths)
                    && depths.get(name).is_none_or(|known| depth + 1 < *known)
                {
                    depths.insert(name.clone(), depth + 1);
                    changed = true;
                }
            }
            if !changed {
                return depths;
            }
        }
    }
}

/// The signs of a grammar's text.
fn tokens_of(text: &str) -> Vec<String> {
    let mut signs = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if first == '"' {
            rest[1..].find('"').expect("a literal ends") + 2
        } else if rest.starts_with("::=") {
            3
        } else if first.is_alphanumeric() {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        signs.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    signs
}

fn choice(signs: &[String], at: &mut usize) -> Part {
    let mut parts = vec![sequence(signs, at)];
    while signs.get(*at).is_some_and(|sign| sign == "|") {
        *at += 1;
        parts.push(sequence(signs, at));
    }
    if parts.len() == 1 { parts.remove(0) } else { Part::Choice(parts) }
}

fn sequence(signs: &[String], at: &mut usize) -> Part {
    let mut parts = Vec::new();
    while let Some(sign) = signs.get(*at) {
        if sign == "|" || sign == ")" || signs.get(*at + 1).is_some_and(|next| next == "::=") {
            break;
        }
        *at += 1;
        let part = match sign.as_str() {
            "(" => {
                let inner = choice(signs, at);
                assert_eq!(signs[*at], ")");
                *at += 1;
                inner
            }
            "NAME" => Part::Token(Token::Name),
            "WORD" => Part::Token(Token::Word),
            "NUMBER" => Part::Token(Token::Number),
            "STRING" => Part::Token(Token::String),
            "PREFIXED" => Part::Token(Token::Prefixed),
            literal if literal.starts_with('"') => Part::Literal(literal.trim_matches('"').to_owned()),
            name => Part::Rule(name.to_owned()),
        };
        let times = signs.get(*at).map_or("", String::as_str);
        *at += usize::from(["*", "+", "?"].contains(&times));
        parts.push(match times {
            "*" => Part::Repeated(Box::new(part)),
            "+" => Part::Sequence(vec![part.clone(), Part::Repeated(Box::new(part))]),
            "?" => Part::Optional(Box::new(part)),
            _ => part,
        });
    }
    Part::Sequence(parts)
}

fn used_by(part: &Part) -> Vec<String> {
    match part {
        Part::Literal(_) | Part::Token(_) => Vec::new(),
        Part::Rule(name) => vec![name.clone()],
        Part::Sequence(parts) | Part::Choice(parts) => parts.iter().flat_map(used_by).collect(),
        Part::Optional(part) | Part::Repeated(part) => used_by(part),
    }
}

fn depth(part: &Part, known: &BTreeMap<String, usize>) -> Option<usize> {
    match part {
        Part::Literal(_) | Part::Token(_) | Part::Optional(_) | Part::Repeated(_) => Some(0),
        Part::Rule(name) => known.get(name).copied(),
        Part::Sequence(parts) => {
            parts.iter().map(|part| depth(part, known)).try_fold(0, |most, one| Some(most.max(one?)))
        }
        Part::Choice(parts) => parts.iter().filter_map(|part| depth(part, known)).min(),
    }
}

/// The length of a long sentence, in bytes.
const LONG_SENTENCE: usize = 2_000;

/// Makes sentences.
struct Maker<'a> {
    grammar: &'a Grammar,
    depths: BTreeMap<String, usize>,
    random: Random,
    text: String,
}

impl Maker<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn push(&mut self, word: &str) {
        // A field's name directly follows its full stop.
        if !self.text.ends_with(['.', '\n']) || self.text.ends_with("..") {
            self.text.push(' ');
        }
        self.text += word;
        if word == ";" {
            self.text.push('\n');
        }
    }

    /// Adds a sentence of the part; `room` is the remaining nesting depth of rules.
    fn make(&mut self, part: &Part, room: usize) {
        // A sentence that is long enough ends in the shortest way.
        let room = if self.text.len() > LONG_SENTENCE { 0 } else { room };
        match part {
            Part::Literal(word) => self.push(word),
            Part::Token(token) => {
                let words: &[&str] = match token {
                    Token::Name => &[
                        "a", "b", "hv", "port_2", "_unused", "type", "default", "test", "given", "insert",
                        "no", "delta", "error", "function", "ip",
                    ],
                    Token::Word => &["a", "table", "key", "output", "if"],
                    Token::Number => &["0", "12", "0x1f"],
                    Token::String => &["\"\"", "\"text\"", "\"a \\\"b\\\"\""],
                    Token::Prefixed => &["ip\"10.0.0.1\"", "mac\"02:00:00:00:00:01\"", "x\"y\""],
                };
                let at = self.below(words.len());
                self.push(words[at]);
            }
            Part::Rule(name) => {
                let grammar = self.grammar;
                self.make(grammar.rule(name), room.saturating_sub(1));
            }
            Part::Sequence(parts) => parts.iter().for_each(|part| self.make(part, room)),
            Part::Choice(parts) => {
                let fits = |part: &&Part| depth(part, &self.depths).is_some_and(|depth| depth <= room);
                let mut open: Vec<&Part> = parts.iter().filter(fits).collect();
                if open.is_empty() {
                    open.extend(parts.iter().min_by_key(|part| depth(part, &self.depths)));
                }
                let at = self.below(open.len());
                self.make(open[at], room);
            }
            Part::Optional(part) => {
                if depth(part, &self.depths).is_some_and(|depth| depth <= room) && self.below(2) == 0 {
                    self.make(part, room);
                }
            }
            Part::Repeated(part) => {
                while depth(part, &self.depths).is_some_and(|depth| depth <= room) && self.below(3) > 0 {
                    self.make(part, room);
                }
            }
        }
    }
}

#[test]
fn sentences_of_the_grammar_parse() {
    let grammar = Grammar::of_the_book();
    let depths = grammar.depths();
    let (mut characters, mut longest) = (0, 0);
    for seed in 1..=1000_u64 {
        let random = Random::new(seed);
        let mut maker = Maker { grammar: &grammar, depths: depths.clone(), random, text: String::new() };
        maker.make(grammar.rule("item"), 6 + (seed % 30) as usize);
        let parsed = parse(&maker.text);
        assert!(parsed.errors.is_empty(), "seed {seed}: {:?}\n{}", parsed.errors.first(), maker.text);
        characters += maker.text.len();
        longest = longest.max(maker.text.len());
    }
    assert!(
        characters > 100_000 && longest > 1_000,
        "{characters} characters, the longest sentence {longest}: too tame"
    );
}

/// Finds the possible ends of a part's sentences that start at a token.
struct Recogniser<'a> {
    grammar: &'a Grammar,
    tokens: &'a [(SyntaxKind, String)],
    known: BTreeMap<(&'a str, usize), BTreeSet<usize>>,
    /// The farthest token examined, for the message.
    farthest: usize,
}

impl<'a> Recogniser<'a> {
    fn ends(&mut self, part: &'a Part, at: usize) -> BTreeSet<usize> {
        self.farthest = self.farthest.max(at);
        let text = |ahead: usize| self.tokens.get(at + ahead).map(|(_, text)| text.as_str());
        match part {
            Part::Literal(word) if word == ">>" => {
                (text(0) == Some(">") && text(1) == Some(">")).then_some(at + 2).into_iter().collect()
            }
            Part::Literal(word) => (text(0) == Some(word.as_str())).then_some(at + 1).into_iter().collect(),
            Part::Token(token) => {
                self.tokens.get(at).filter(|found| is(*token, found)).map(|_| at + 1).into_iter().collect()
            }
            Part::Rule(name) => {
                if let Some(ends) = self.known.get(&(name.as_str(), at)) {
                    return ends.clone();
                }
                let ends = self.ends(self.grammar.rule(name), at);
                self.known.insert((name.as_str(), at), ends.clone());
                ends
            }
            Part::Sequence(parts) => {
                let mut ends = BTreeSet::from([at]);
                for part in parts {
                    ends = ends.into_iter().flat_map(|at| self.ends(part, at)).collect();
                }
                ends
            }
            Part::Choice(parts) => parts.iter().flat_map(|part| self.ends(part, at)).collect(),
            Part::Optional(part) => {
                let mut ends = self.ends(part, at);
                ends.insert(at);
                ends
            }
            Part::Repeated(part) => {
                let (mut ends, mut open) = (BTreeSet::from([at]), vec![at]);
                while let Some(at) = open.pop() {
                    for end in self.ends(part, at) {
                        if ends.insert(end) {
                            open.push(end);
                        }
                    }
                }
                ends
            }
        }
    }
}

fn is(token: Token, (kind, text): &(SyntaxKind, String)) -> bool {
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let reserved = SyntaxKind::RESERVED_WORDS.iter().any(|(reserved, _)| reserved == text);
    match token {
        Token::Name => word && !reserved && text != "_",
        Token::Word => word && text != "_",
        Token::Number => *kind == SyntaxKind::Number,
        Token::String => *kind == SyntaxKind::String,
        Token::Prefixed => *kind == SyntaxKind::PrefixedString,
    }
}

/// The reason why the grammar does not accept the text.
fn refusal(grammar: &Grammar, text: &str) -> Option<String> {
    let root = parse(text).root();
    let tokens: Vec<(SyntaxKind, String)> = root
        .descendants_with_tokens()
        .filter_map(|element| element.as_token().cloned())
        .filter(|token| !token.kind().is_trivia())
        .map(|token| (token.kind(), token.text().to_owned()))
        .collect();
    let mut recogniser = Recogniser { grammar, tokens: &tokens, known: BTreeMap::new(), farthest: 0 };
    // Item by item, because results for one are of no use for the next.
    let mut at = 0;
    while at < tokens.len() {
        recogniser.known.clear();
        let Some(end) = recogniser.ends(grammar.rule("item"), at).last().copied() else {
            let near = &tokens[at..tokens.len().min(recogniser.farthest + 3)];
            let near: Vec<&str> = near.iter().map(|(_, text)| text.as_str()).collect();
            return Some(format!("no sentence of the grammar: {}", near.join(" ")));
        };
        at = end;
    }
    None
}

#[test]
fn the_grammar_accepts_every_program() {
    let grammar = Grammar::of_the_book();
    let mut files = Vec::new();
    for folder in ["rules", "examples"] {
        collect(&root().join(folder), "nlog", &mut files);
    }
    assert!(files.len() > 10, "{files:?}");
    let read =
        |path: &std::path::PathBuf| (path.display().to_string(), std::fs::read_to_string(path).unwrap());
    let mut texts: Vec<(String, String)> = files.iter().map(read).collect();
    for page in pages() {
        for block in page.blocks().unwrap_or_default() {
            // A negation parses, so that it can be refused with a reason, but it is not a sentence.
            if let Ok(Form::Nlog { errors, .. }) = Form::of(&block)
                && !errors.contains(&"negation".to_owned())
            {
                let text = block.lines.join("\n");
                if parse(&text).errors.is_empty() {
                    texts.push((format!("{}:{}", page.name, block.line), text));
                }
            }
        }
    }
    let refused =
        |(place, text): &(String, String)| refusal(&grammar, text).map(|why| format!("{place}: {why}"));
    super::report(&texts.iter().filter_map(refused).collect::<Vec<_>>());
}

#[test]
fn a_grammar_that_lacks_something_is_noticed() {
    let grammar = Grammar::read("item ::= \"table\" NAME (\";\" | \"(\" NAME (\",\" NAME)* \")\" \";\")");
    assert_eq!(refusal(&grammar, "table a; table b(c, d);"), None);
    assert!(refusal(&grammar, "table a(b, c,);").is_some_and(|why| why.contains("table a ( b , c , )")));
    let page =
        Page { name: String::new(), path: Path::new("").into(), text: "```ebnf\na ::= b\n```\n".into() };
    assert_eq!(Form::of(&page.blocks().unwrap()[0]), Ok(Form::Grammar));
}
