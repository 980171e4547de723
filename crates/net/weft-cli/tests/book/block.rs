//! The form of a block: its language and the words after it.
//!
//! | first line | what is proved |
//! |---|---|
//! | `nlog file=NAME` | the text is written to the file; `weft check` says nothing of it, `weft fmt` would not change it |
//! | `nlog append=NAME` | the same, after what stands in the file |
//! | `nlog fragment` | the text is checked after each `.nlog` file of the page that is no test, and kept nowhere |
//! | `nlog fragment=NAME` | the same, after this file |
//! | … `error=CODE,CODE` | `weft check` reports errors of these codes and no others |
//! | … `warning=CODE,CODE` | it warns of these and of nothing else |
//! | `jsonl file=NAME`, or `json`, `yaml`, `toml`, `ini`, `sh`, `python`, `xml` | the text is written to the file; JSON must be JSON |
//! | `console` | each command after `$ ` prints the lines after it, and succeeds |
//! | `console exit=N` | the same, but the last one exits so |
//! | `console ovs` | the same; the page needs Open vSwitch and network namespaces |
//! | `console setup` | the commands that get a `weft` from a clone; the tests are run by one |
//! | `ebnf` | part of the grammar, see `grammar.rs` |
//! | `text figure` | a drawing: nothing |

use super::page::Fenced;

/// The place of a block of `nlog`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is the file.
    File(String),
    /// The block is appended to the file so far.
    Append(String),
    /// The block is checked after this file, or after all files.
    Fragment(Option<String>),
}

/// The form of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// Rules.
    Nlog { place: Place, errors: Vec<String>, warnings: Vec<String> },
    /// Another file.
    Data { file: String, json: bool },
    /// Commands and what they print.
    Console { exit: i32 },
    /// Commands that the tests cannot run.
    Setup,
    /// Grammar.
    Grammar,
    /// A drawing.
    Figure,
}

/// The commands that build `weft` in a clone.
const SETUP: &[&str] = &[
    "$ cargo build --release -p weft-cli",
    "$ export PATH=$PWD/target/release:$PATH",
    "$ mkdir tutorial",
    "$ cd tutorial",
];

impl Form {
    /// The form of the block, or the reason why it has none.
    pub(crate) fn of(block: &Fenced) -> Result<Form, String> {
        let mut words = Words::new(&block.info);
        let (setup, figure) = (words.flag("setup"), words.flag("figure"));
        let form = match words.language {
            "nlog" => Form::Nlog {
                place: place(&mut words)?,
                errors: words.codes("error"),
                warnings: words.codes("warning"),
            },
            "jsonl" | "json" | "yaml" | "toml" | "ini" | "sh" | "python" | "xml" => Form::Data {
                file: words.take("file").ok_or("which file is it? write file=NAME")?,
                json: words.language.starts_with("json"),
            },
            "console" if setup => {
                if let Some(line) = block.lines.iter().find(|line| !SETUP.contains(&line.as_str())) {
                    return Err(format!("`{line}` is no known command of a setup"));
                }
                Form::Setup
            }
            "console" => {
                // Only decides which tests run the page.
                words.flag("ovs");
                let exit = match words.take("exit") {
                    Some(exit) => exit.parse().map_err(|_| format!("`{exit}` is no exit status"))?,
                    None => 0,
                };
                Form::Console { exit }
            }
            "ebnf" => Form::Grammar,
            "text" if figure => Form::Figure,
            language => return Err(format!("`{language}` without known words after it: what proves it?")),
        };
        match words.rest.first() {
            Some(word) => Err(format!("`{word}` means nothing here")),
            None => Ok(form),
        }
    }
}

fn place(words: &mut Words<'_>) -> Result<Place, String> {
    if let Some(file) = words.take("file") {
        return Ok(Place::File(file));
    }
    if let Some(file) = words.take("append") {
        return Ok(Place::Append(file));
    }
    if let Some(file) = words.take("fragment") {
        return Ok(Place::Fragment(Some(file)));
    }
    if words.flag("fragment") {
        return Ok(Place::Fragment(None));
    }
    Err("where does it stand? write file=NAME, append=NAME or fragment".into())
}

/// The words of a block's first line that are not yet used.
struct Words<'a> {
    language: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn new(info: &'a str) -> Self {
        let mut words = info.split_whitespace();
        Words { language: words.next().unwrap_or(""), rest: words.collect() }
    }

    fn flag(&mut self, name: &str) -> bool {
        let before = self.rest.len();
        self.rest.retain(|word| *word != name);
        self.rest.len() < before
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let value_of =
            |word: &&str| word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')).map(str::to_owned);
        let at = self.rest.iter().position(|word| value_of(word).is_some())?;
        value_of(&self.rest.remove(at))
    }

    fn codes(&mut self, name: &str) -> Vec<String> {
        let codes = self.take(name);
        let mut codes: Vec<String> =
            codes.iter().flat_map(|codes| codes.split(',')).map(str::to_owned).collect();
        codes.sort();
        codes
    }
}

#[test]
fn a_block_of_no_known_form_is_refused() {
    let block =
        |info: &str, line: &str| Fenced { line: 1, info: info.to_owned(), lines: vec![line.to_owned()] };
    for info in ["", "nlog", "rust", "nlog fragment nonsense", "text", "jsonl", "console exit=x"] {
        assert!(Form::of(&block(info, "x")).is_err(), "{info}");
    }
    assert!(Form::of(&block("console setup", "$ rm -rf /")).is_err());
    let Form::Nlog { place, errors, .. } = Form::of(&block("nlog fragment=a.nlog error=b,a", "x")).unwrap()
    else {
        panic!("no nlog");
    };
    assert_eq!((place, errors), (Place::Fragment(Some("a.nlog".into())), vec!["a".into(), "b".into()]));
}
