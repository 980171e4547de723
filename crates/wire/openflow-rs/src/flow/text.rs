//! Flow entries and commands as `ovs-ofctl` writes and reads them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::*;
use crate::ParseError;
use crate::field::text::{int, number_up_to};
use crate::flow_match::items;

const FLAGS: [(FlowFlags, &str); 5] = [
    (FlowFlags::SEND_FLOW_REM, "send_flow_rem"),
    (FlowFlags::CHECK_OVERLAP, "check_overlap"),
    (FlowFlags::RESET_COUNTS, "reset_counts"),
    (FlowFlags::NO_PACKET_COUNTS, "no_packet_counts"),
    (FlowFlags::NO_BYTE_COUNTS, "no_byte_counts"),
];

impl fmt::Display for FlowFlags {
    /// The names of the flags set, a space after each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        FLAGS.iter().filter(|(flag, _)| self.contains(*flag)).try_for_each(|(_, name)| write!(f, "{name} "))
    }
}

/// Writes `priority=5,MATCH ` with a space unless empty.
pub(super) fn write_match(f: &mut fmt::Formatter<'_>, entry: &FlowEntry) -> fmt::Result {
    let any = entry.matches.iter().next().is_none();
    if entry.priority != DEFAULT_PRIORITY {
        write!(f, "priority={}{}", entry.priority, if any { " " } else { "," })?;
    }
    if any { Ok(()) } else { write!(f, "{} ", entry.matches) }
}

/// Writes the properties between table and match.
fn write_middle(f: &mut fmt::Formatter<'_>, entry: &FlowEntry) -> fmt::Result {
    if entry.idle_timeout != 0 {
        write!(f, "idle_timeout={}, ", entry.idle_timeout)?;
    }
    if entry.hard_timeout != 0 {
        write!(f, "hard_timeout={}, ", entry.hard_timeout)?;
    }
    write!(f, "{}", entry.flags)?;
    if entry.importance != 0 {
        write!(f, "importance={}, ", entry.importance)?;
    }
    Ok(())
}

impl fmt::Display for FlowEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cookie != 0 {
            write!(f, "cookie={:#x}, ", self.cookie)?;
        }
        if self.table != 0 {
            write!(f, "table={}, ", self.table)?;
        }
        write_middle(f, self)?;
        write_match(f, self)?;
        write!(f, "actions={}", self.actions)
    }
}

/// `1s`, `1.020s` or, if milliseconds are too coarse, as many digits as needed.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_secs())?;
        match self.0.subsec_nanos() {
            0 => {}
            nanos if nanos % 1_000_000 == 0 => write!(f, ".{:03}", nanos / 1_000_000)?,
            nanos => write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))?,
        }
        f.write_str("s")
    }
}

impl fmt::Display for FlowStats {
    /// A line of `ovs-ofctl --no-names dump-flows`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: Option<u64>| n.map_or("?".to_owned(), |n| n.to_string());
        let entry = &self.entry;
        write!(
            f,
            "cookie={:#x}, duration={}, table={}, ",
            entry.cookie,
            Seconds(self.duration),
            entry.table
        )?;
        write!(f, "n_packets={}, n_bytes={}, ", count(self.packets), count(self.bytes))?;
        write_middle(f, entry)?;
        if let Some(idle_s) = self.idle_s {
            write!(f, "idle_age={idle_s}, ")?;
        }
        write_match(f, entry)?;
        write!(f, "actions={}", entry.actions)
    }
}

impl FlowMod {
    /// Writes what `ovs-ofctl ofp-print` prints after the message's header.
    pub(crate) fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = &self.entry;
        write!(f, " {}", self.command.print_name())?;
        if entry.table != 0 {
            write!(f, " table:{}", entry.table)?;
        }
        f.write_str(" ")?;
        write_match(f, entry)?;
        if self.command == FlowCommand::Add && entry.cookie != 0 && entry.cookie != u64::MAX {
            write!(f, "cookie:{:#x} ", entry.cookie)?;
        }
        if self.command != FlowCommand::Add && self.cookie_mask != 0 {
            write!(f, "cookie:{:#x}/{:#x} ", entry.cookie, self.cookie_mask)?;
        }
        if entry.idle_timeout != 0 {
            write!(f, "idle:{} ", entry.idle_timeout)?;
        }
        if entry.hard_timeout != 0 {
            write!(f, "hard:{} ", entry.hard_timeout)?;
        }
        if self.command == FlowCommand::Add && entry.importance != 0 {
            write!(f, "importance:{} ", entry.importance)?;
        }
        if self.buffer_id != NO_BUFFER {
            write!(f, "buf:{:#x} ", self.buffer_id)?;
        }
        if self.out_port != PortNo::ANY {
            write!(f, "out_port:{} ", self.out_port)?;
        }
        write!(f, "{}actions={}", entry.flags, entry.actions)
    }
}

impl fmt::Display for FlowMod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = &self.entry;
        write!(f, "{} ", self.command.name())?;
        if self.cookie_mask != 0 {
            write!(f, "cookie={:#x}/{:#x}, ", entry.cookie, self.cookie_mask)?;
        } else if entry.cookie != 0 {
            write!(f, "cookie={:#x}, ", entry.cookie)?;
        }
        if entry.table != if self.command.is_delete() { ALL_TABLES } else { 0 } {
            write!(f, "table={}, ", entry.table)?;
        }
        if self.out_port != PortNo::ANY {
            write!(f, "out_port={}, ", self.out_port)?;
        }
        if self.out_group != ANY_GROUP {
            write!(f, "out_group={}, ", self.out_group)?;
        }
        write_middle(f, entry)?;
        write_match(f, entry)?;
        if self.command.is_delete() && entry.actions.0.is_empty() {
            return Ok(());
        }
        write!(f, "actions={}", entry.actions)
    }
}

/// Splits a flow at its action list: returns the text before it, and the list, if there is one.
fn split_actions(text: &str) -> (&str, Option<&str>) {
    for name in ["actions=", "action="] {
        let starts = text.match_indices(name).map(|(at, _)| at);
        let boundary = |at: &usize| text[..*at].ends_with([',', ' ', '\t']) || *at == 0;
        if let Some(at) = starts.into_iter().find(boundary) {
            return (&text[..at], Some(&text[at + name.len()..]));
        }
    }
    (text, None)
}

/// Everything a flow's text can say.
fn read(text: &str, command: FlowCommand) -> Result<FlowMod, ParseError> {
    let (before, actions) = split_actions(text);
    if actions.is_none() && !command.is_delete() {
        return Err(ParseError::MissingValue { name: "actions".to_owned() });
    }
    let mut entry = FlowEntry::new(0, DEFAULT_PRIORITY, Match::any(), Actions::drop());
    if command.is_delete() {
        entry.table = ALL_TABLES;
    }
    let mut flow = FlowMod::new(command, entry);
    let mut demands = Vec::new();
    for item in items(before) {
        match item.value {
            Some(value) if flow.read_property(item.key, value)? => {}
            None if flow.entry.read_flag(item.key) => {}
            _ => demands.push(item),
        }
    }
    flow.entry.matches = Match::from_items(&demands)?;
    flow.entry.actions = actions.unwrap_or("").parse()?;
    Ok(flow)
}

impl FlowEntry {
    fn read_flag(&mut self, name: &str) -> bool {
        let flag = FLAGS.iter().find(|(_, known)| *known == name);
        flag.inspect(|(flag, _)| self.flags = self.flags | *flag).is_some()
    }
}

impl FlowMod {
    /// Reads a `key=value` that is not part of the match. Returns whether it was one.
    fn read_property(&mut self, key: &str, value: &str) -> Result<bool, ParseError> {
        let entry = &mut self.entry;
        match key {
            "table" => entry.table = int(value, "table number, at most 255")?,
            "priority" => entry.priority = int(value, "priority, at most 65535")?,
            "idle_timeout" => entry.idle_timeout = int(value, "number of seconds, at most 65535")?,
            "hard_timeout" => entry.hard_timeout = int(value, "number of seconds, at most 65535")?,
            "importance" => entry.importance = int(value, "importance, at most 65535")?,
            "out_port" => self.out_port = value.parse()?,
            "out_group" => self.out_group = int(value, "group id")?,
            "cookie" => {
                let expected = "64-bit cookie";
                let (cookie, mask) = value.split_once('/').map_or((value, None), |(c, m)| (c, Some(m)));
                entry.cookie = number_up_to(cookie, u64::MAX.into(), expected)? as u64;
                if let Some(mask) = mask {
                    self.cookie_mask = number_up_to(mask, u64::MAX.into(), "64-bit cookie mask")? as u64;
                }
            }
            // A dump's additions to the entry itself.
            "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl FromStr for FlowEntry {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<FlowEntry, ParseError> {
        let flow = read(text, FlowCommand::Add)?;
        if flow.cookie_mask != 0 || flow.out_port != PortNo::ANY || flow.out_group != ANY_GROUP {
            return Err(ParseError::value(
                text,
                "flow entry: cookie masks, out_port and out_group select entries to change",
            ));
        }
        Ok(flow.entry)
    }
}

impl FromStr for FlowMod {
    type Err = ParseError;

    /// A command (`add` if there is none), then a flow.
    fn from_str(text: &str) -> Result<FlowMod, ParseError> {
        let text = text.trim();
        let word = text.split_ascii_whitespace().next().unwrap_or("");
        match FlowCommand::ALL.into_iter().find(|command| command.name() == word) {
            Some(command) => read(&text[word.len()..], command),
            None => read(text, FlowCommand::Add),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_what_they_print() {
        for (given, printed) in [
            ("actions=drop", "actions=drop"),
            ("priority=32768 actions=", "actions=drop"),
            ("priority=0,actions=NORMAL", "priority=0 actions=NORMAL"),
            (
                "table=3,cookie=0x5,ip,nw_dst=10.0.0.0/24,priority=7,actions=resubmit(,4),output:1",
                "cookie=0x5, table=3, priority=7,ip,nw_dst=10.0.0.0/24 actions=resubmit(,4),output:1",
            ),
            (
                "send_flow_rem,idle_timeout=5,hard_timeout=6,importance=7,reset_counts,arp,actions=1",
                "idle_timeout=5, hard_timeout=6, send_flow_rem reset_counts importance=7, arp actions=output:1",
            ),
            (
                " cookie=0x0, duration=12.3s, table=1, n_packets=3, n_bytes=4, idle_age=9, priority=1,in_port=LOCAL actions=drop",
                "table=1, priority=1,in_port=LOCAL actions=drop",
            ),
        ] {
            let entry: FlowEntry = given.parse().unwrap_or_else(|e| panic!("{given}: {e}"));
            assert_eq!(entry.to_string(), printed);
            assert_eq!(printed.parse(), Ok(entry));
        }
    }

    #[test]
    fn commands_read_what_they_print() {
        for (given, printed) in [
            ("table=1,actions=drop", "add table=1, actions=drop"),
            ("delete", "delete "),
            ("delete cookie=5/-1,in_port=1", "delete cookie=0x5/0xffffffffffffffff, in_port=1 "),
            ("delete_strict table=0,priority=5,arp", "delete_strict table=0, priority=5,arp "),
            ("modify_strict arp actions=output:1", "modify_strict arp actions=output:1"),
        ] {
            let flow: FlowMod = given.parse().unwrap_or_else(|e| panic!("{given}: {e}"));
            assert_eq!(flow.to_string(), printed);
            assert_eq!(printed.parse(), Ok(flow));
        }
    }

    #[test]
    fn text_that_is_no_flow_is_refused() {
        for text in [
            "",
            "table=256,actions=drop",
            "priority=65536,actions=",
            "cookie=x,actions=",
            "in_port=1",
            "nosuch,actions=",
        ] {
            assert!(text.parse::<FlowEntry>().is_err(), "{text}");
        }
        assert!("cookie=1/1,actions=drop".parse::<FlowEntry>().is_err());
    }

    #[test]
    fn durations_have_the_digits_they_need() {
        for (nanos, text) in [(0, "5s"), (20_000_000, "5.020s"), (1_500_000, "5.0015s"), (1, "5.000000001s")]
        {
            assert_eq!(Seconds(Duration::new(5, nanos)).to_string(), text);
        }
    }
}
