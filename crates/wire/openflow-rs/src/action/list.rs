//! Lists of actions: order, text, and their split into instructions on the wire.

use std::fmt;
use std::str::FromStr;

use super::*;

/// The actions of a flow entry; an empty list is `drop`.
///
/// The list holds instructions too, as Open vSwitch prints them: `clear_actions`, `write_actions`,
/// `write_metadata` and `goto_table` follow all actions. [`Actions::canonical`] puts a list made by
/// joining parts into that order.
///
/// ```
/// use openflow_rs::{Action, Actions, Field};
/// let actions = Actions(vec![Action::set_field(Field::Reg1, 5)?, Action::resubmit_table(4)]);
/// assert_eq!(actions.to_string(), "set_field:0x5->reg1,resubmit(,4)");
/// assert_eq!("load:5->NXM_NX_REG1[],resubmit(,4)".parse(), Ok(actions));
/// # Ok::<(), openflow_rs::MatchError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actions(pub Vec<Action>);

impl Actions {
    /// The empty list: the packet is dropped.
    pub fn drop() -> Actions {
        Actions::default()
    }

    /// The list in the order a switch keeps it: actions as they are, instructions after them.
    pub fn canonical(mut self) -> Actions {
        // The sort is stable, so actions keep their order.
        self.0.sort_by_key(Action::stage);
        self
    }

    /// This list followed by `more`, in canonical order.
    pub fn then(mut self, more: &Actions) -> Actions {
        self.0.extend_from_slice(&more.0);
        self.canonical()
    }

    /// Appends the list as OpenFlow actions; for lists without instructions.
    pub(crate) fn encode_list(&self, out: &mut Vec<u8>) {
        for action in self.0.iter().filter(|action| action.stage() == 0) {
            action.encode(out);
        }
    }

    /// Reads OpenFlow actions until the reader is empty.
    pub(crate) fn decode_list(reader: &mut Reader<'_>, depth: u8) -> Result<Actions, DecodeError> {
        if depth > DEPTH_MAX {
            return Err(reader.fault(Fault::Depth));
        }
        let mut actions = Vec::new();
        while !reader.is_empty() {
            actions.push(Action::decode(reader, depth)?);
        }
        Ok(Actions(actions))
    }

    /// The list as the instructions of a flow-mod, in canonical order. A message has room for 65,535 bytes.
    pub fn to_wire(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_instructions(&mut out);
        out
    }

    /// The list as OpenFlow actions, one after the other, as messages other than flow-mods have it. Instructions are left out.
    pub fn list_to_wire(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_list(&mut out);
        out
    }

    /// Reads what [`list_to_wire`](Self::list_to_wire) writes.
    ///
    /// # Errors
    /// An action is malformed. One that is not known is kept as bytes.
    pub fn list_from_wire(bytes: &[u8]) -> Result<Actions, DecodeError> {
        Actions::decode_list(&mut Reader::new("actions", bytes), 1)
    }

    /// Appends the list as OpenFlow instructions.
    pub(crate) fn encode_instructions(&self, out: &mut Vec<u8>) {
        if self.0.iter().any(|action| action.stage() == 0) {
            APPLY_ACTIONS.put(out, |out| {
                out.extend_from_slice(&[0; 4]);
                self.encode_list(out);
            });
        }
        let mut instructions: Vec<&Action> = self.0.iter().filter(|action| action.stage() > 0).collect();
        instructions.sort_by_key(|action| action.stage());
        for instruction in instructions {
            instruction.encode(out);
        }
    }

    /// Reads OpenFlow instructions until the reader is empty; each may occur once, in any order.
    pub(crate) fn decode_instructions(reader: &mut Reader<'_>) -> Result<Actions, DecodeError> {
        let mut applied = None;
        let mut instructions: Vec<Action> = Vec::new();
        while !reader.is_empty() {
            let at = reader.clone().named("instruction");
            let mut header = at.clone();
            let (kind, len) = (header.u16()?, usize::from(header.u16()?));
            if len < 8 || len % 8 != 0 {
                return Err(at.fault(Fault::Length(len)));
            }
            let mut body = reader.sub("instruction", len)?;
            body.skip(4)?;
            let wire = Wire::Instruction(kind);
            if wire == APPLY_ACTIONS {
                body.skip(4)?;
                if applied.replace(Actions::decode_list(&mut body, 1)?).is_some() {
                    return Err(at.fault(Fault::Duplicate));
                }
                continue;
            }
            let Some(instruction) = Action::decode_known(wire, &mut body, 1)? else {
                return Err(at.fault(Fault::Unknown(kind.into())));
            };
            if instructions.iter().any(|other| other.stage() == instruction.stage()) {
                return Err(at.fault(Fault::Duplicate));
            }
            instructions.push(instruction);
        }
        let mut actions = applied.unwrap_or_default();
        actions.0.append(&mut instructions);
        Ok(actions.canonical())
    }
}

/// `OFPIT_APPLY_ACTIONS`.
const APPLY_ACTIONS: Wire = Wire::Instruction(4);

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Actions {
        Actions(actions.into_iter().collect())
    }
}

impl From<Action> for Actions {
    fn from(action: Action) -> Actions {
        Actions(vec![action])
    }
}

impl fmt::Display for Actions {
    /// Writes the list as Open vSwitch prints it after `actions=`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("drop");
        }
        for (place, action) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            action.fmt(f)?;
        }
        Ok(())
    }
}

impl FromStr for Actions {
    type Err = ParseError;

    /// Reads a list as `ovs-ofctl` takes it after `actions=`; empty text and `drop` are the empty
    /// list. Instructions before actions are refused, as `ovs-ofctl` does.
    fn from_str(text: &str) -> Result<Actions, ParseError> {
        if nesting(text) > DEPTH_MAX.into() {
            return Err(ParseError::value(text, "list of actions: they are nested too deeply"));
        }
        let mut actions: Vec<Action> = Vec::new();
        let mut dropped = false;
        let mut rest = text;
        while let Some(call) = next_call(&mut rest)? {
            let alone =
                |other: &str| ParseError::Order { first: "drop".to_owned(), second: other.to_owned() };
            if dropped {
                return Err(alone(call.text));
            }
            if call.name == "drop" && call.arg.is_empty() {
                dropped = true;
                if let Some(first) = actions.first() {
                    return Err(alone(&first.to_string()));
                }
                continue;
            }
            let action = Action::parse_call(call)?;
            if let Some(last) = actions.last()
                && (last.stage() > action.stage() || (last.stage() > 0 && last.stage() == action.stage()))
            {
                return Err(ParseError::Order { first: last.to_string(), second: action.to_string() });
            }
            actions.push(action);
        }
        Ok(Actions(actions))
    }
}

/// Takes the next `name:arg`, `name=arg`, `name(arg)[->target]` or `name` off the text.
pub(crate) fn next_call<'a>(rest: &mut &'a str) -> Result<Option<Call<'a>>, ParseError> {
    let separator = |c: char| c == ',' || c.is_ascii_whitespace();
    let start = rest.trim_start_matches(separator);
    if start.is_empty() {
        *rest = start;
        return Ok(None);
    }
    let name_len = start.find(|c: char| separator(c) || matches!(c, ':' | '=' | '(')).unwrap_or(start.len());
    let (name, after) = start.split_at(name_len);
    let whole = |end: usize| &start[..end];
    let call = match after.as_bytes().first() {
        Some(b'(') => {
            let close = closing(after).ok_or_else(|| ParseError::Parentheses { text: start.to_owned() })?;
            let arg = &after[1..close];
            let tail = &after[close + 1..];
            let tail_len = tail.find(separator).unwrap_or(tail.len());
            let text = whole(name_len + close + 1 + tail_len);
            let target = match &tail[..tail_len] {
                "" => None,
                tail => Some(tail.strip_prefix("->").ok_or_else(|| ParseError::value(text, "action"))?),
            };
            *rest = &tail[tail_len..];
            Call { name, arg, target, text }
        }
        Some(b':' | b'=') => {
            let mut depth = 0_u32;
            let end = after[1..].find(|c: char| {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0 && separator(c)
            });
            let end = end.map_or(after.len(), |end| end + 1);
            *rest = &after[end..];
            Call { name, arg: &after[1..end], target: None, text: whole(name_len + end) }
        }
        _ => {
            *rest = after;
            Call { name, arg: "", target: None, text: name }
        }
    };
    Ok(Some(call))
}

/// The nesting depth of parentheses.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for c in text.bytes() {
        match c {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The position of the parenthesis that closes the one at the start of `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    text.char_indices().find_map(|(place, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_follow_actions() {
        let parts: [Actions; 3] = [
            "write_metadata:0x5,goto_table:3".parse().unwrap(),
            "output:1".parse().unwrap(),
            "output:2".parse().unwrap(),
        ];
        let joined = parts[0].clone().then(&parts[1]).then(&parts[2]);
        assert_eq!(joined.to_string(), "output:1,output:2,write_metadata:0x5,goto_table:3");
        assert!("goto_table:3,output:1".parse::<Actions>().is_err());
        assert!("goto_table:3,goto_table:4".parse::<Actions>().is_err());
    }

    #[test]
    fn drop_is_the_empty_list_and_stands_alone() {
        assert_eq!("drop".parse(), Ok(Actions::drop()));
        assert_eq!("".parse(), Ok(Actions::drop()));
        assert_eq!(Actions::drop().to_string(), "drop");
        assert!("drop,output:1".parse::<Actions>().is_err());
        assert!("output:1,drop".parse::<Actions>().is_err());
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_and_does_not_exhaust_the_stack() {
        let nested = |depth: usize| format!("{}output:1{}", "clone(".repeat(depth), ")".repeat(depth));
        let deepest: Actions = nested(usize::from(DEPTH_MAX) - 1).parse().unwrap();
        let mut bytes = Vec::new();
        deepest.encode_instructions(&mut bytes);
        assert_eq!(Actions::decode_instructions(&mut Reader::new("test", &bytes)), Ok(deepest));
        assert!(nested(usize::from(DEPTH_MAX) + 1).parse::<Actions>().is_err());
        assert!(nested(100_000).parse::<Actions>().is_err());
    }

    #[test]
    fn unbalanced_text_is_refused() {
        for text in ["resubmit(,1", "resubmit)", "resubmit(,1)x", "(", "nosuch:1", "output:1)"] {
            assert!(text.parse::<Actions>().is_err(), "{text}");
        }
    }
}
