//! Reads nlog literals as values: the inverse of a value's `Display`.
//!
//! `12`, `-3`, `0x1f`, `"text"`, `true`, `ip"10.0.0.1"`, `net"10.0.0.0/24"`,
//! `interface_address"10.0.0.254/24"`, `mac"02:00:00:00:00:01"`,
//! `match"reg1=0x1a"`, `actions"output:3"`, `packet_filter"ip_proto=tcp,tp_dst=22"`, sets as `{1, 2}`, lists as `[1, 2]`, records as `(1, 2)`,
//! an absent value as `none`. Quoted text has the escapes `\"`, `\\`, `\n`, `\r`, `\t` and `\u{1f}`.

use crate::{Type, Value};

/// Text that is not a literal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {message}")]
pub struct LiteralError {
    /// The position, in bytes from the start of the text.
    pub at: usize,
    /// The message.
    pub message: String,
}

/// The maximum nesting of sets and lists.
const DEEPEST: usize = 32;

/// Reads one literal.
pub fn parse(text: &str) -> Result<Value, LiteralError> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.value()?;
    reader.end()?;
    Ok(value)
}

/// Reads literals separated by commas; returns none if there is only white space.
pub fn parse_list(text: &str) -> Result<Vec<Value>, LiteralError> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let values = reader.values(None)?;
    reader.end()?;
    Ok(values)
}

/// Reads the inside of a quoted string: resolves its escapes.
pub fn unescape(inside: &str) -> Result<String, LiteralError> {
    let mut text = String::with_capacity(inside.len());
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        let unknown = || LiteralError {
            at,
            message: "unknown escape sequence; use \\\" \\\\ \\n \\r \\t or \\u{1f}".to_string(),
        };
        text.push(match chars.next().ok_or_else(unknown)?.1 {
            c @ ('"' | '\\') => c,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let rest = chars.as_str();
                let (digits, _) =
                    rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).ok_or_else(unknown)?;
                chars.nth(digits.chars().count() + 1);
                let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| plain);
                code.and_then(char::from_u32).ok_or_else(unknown)?
            }
            _ => return Err(unknown()),
        });
    }
    Ok(text)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, LiteralError> {
        Err(LiteralError { at: self.at, message: message.into() })
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Skips `c`, and white space before it, if it comes next.
    fn take(&mut self, c: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn end(&mut self) -> Result<(), LiteralError> {
        self.skip_space();
        if self.rest().is_empty() { Ok(()) } else { self.error("unexpected text after the literal") }
    }

    /// Reads values up to `close`, or to the end of the text.
    fn values(&mut self, close: Option<char>) -> Result<Vec<Value>, LiteralError> {
        let mut values = Vec::new();
        loop {
            self.skip_space();
            let at_end = match close {
                Some(close) => self.take(close),
                None => self.rest().is_empty(),
            };
            if at_end {
                return Ok(values);
            }
            if !values.is_empty() && !self.take(',') {
                return self.error("missing comma");
            }
            self.skip_space();
            // The last value may have a comma after it.
            if values.is_empty()
                || !close.map_or(self.rest().is_empty(), |close| self.rest().starts_with(close))
            {
                values.push(self.value()?);
            }
        }
    }

    fn nested(&mut self, close: char) -> Result<Vec<Value>, LiteralError> {
        if self.depth == DEEPEST {
            return self.error("sets and lists are nested too deeply");
        }
        self.depth += 1;
        let values = self.values(Some(close))?;
        self.depth -= 1;
        Ok(values)
    }

    fn value(&mut self) -> Result<Value, LiteralError> {
        self.skip_space();
        let start = self.at;
        match self.rest().chars().next() {
            Some('{') => {
                self.take('{');
                self.nested('}').map(Value::set)
            }
            Some('[') => {
                self.take('[');
                self.nested(']').map(Value::list)
            }
            Some('(') => {
                self.take('(');
                self.nested(')').map(Value::record)
            }
            Some('"') => self.quoted().map(Value::from),
            Some('-' | '0'..='9') => self.integer(),
            _ => {
                let ty = match self.word() {
                    "none" => return Ok(Value::None),
                    "true" => return Ok(Value::Bool(true)),
                    "false" => return Ok(Value::Bool(false)),
                    "mac" => Type::Mac,
                    "ip" => Type::Ip,
                    "net" => Type::Net,
                    "interface_address" => Type::InterfaceAddress,
                    "match" => Type::Match,
                    "actions" => Type::Actions,
                    "packet_filter" => Type::PacketFilter,
                    _ => {
                        self.at = start;
                        return self.error("invalid literal");
                    }
                };
                let text = self.quoted()?;
                ty.parse_text(&text)
                    .map_err(|mismatch| LiteralError { at: start, message: mismatch.to_string() })
            }
        }
    }

    fn integer(&mut self) -> Result<Value, LiteralError> {
        let start = self.at;
        let negative = self.take('-');
        let word = self.word();
        let digits = word.strip_prefix("0x");
        let (digits, radix) = digits.map_or((word, 10), |digits| (digits, 16));
        // from_str_radix would accept a sign, but a word has none.
        let magnitude = i128::from_str_radix(digits, radix).ok();
        let number = magnitude.map(|n| if negative { -n } else { n }).and_then(|n| i64::try_from(n).ok());
        if let Some(number) = number {
            return Ok(Value::Int(number));
        }
        self.at = start;
        self.error("not a 64-bit integer")
    }

    /// Text between quotes.
    fn quoted(&mut self) -> Result<String, LiteralError> {
        let start = self.at;
        let Some(inside) = self.rest().strip_prefix('"') else {
            return self.error("expected a quoted string");
        };
        let mut escaped = false;
        let close = inside.find(|c| {
            let closes = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            closes
        });
        let Some(close) = close else {
            return self.error("missing closing quote");
        };
        self.at += close + 2;
        unescape(&inside[..close]).map_err(|error| LiteralError { at: start + 1 + error.at, ..error })
    }
}
