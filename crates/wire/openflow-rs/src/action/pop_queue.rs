//! `pop_queue`: restores the queue that was set before `set_queue`.

use super::*;

/// Restores the queue that was set before any [`SetQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PopQueue;

impl Body for PopQueue {
    const NAMES: &'static [&'static str] = &["pop_queue"];
    const WIRE: &'static [Wire] = &[Wire::Nx(5)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "pop_queue",
        "Restores the queue that was set before `set_queue`.",
        &[],
        &[("pop_queue", "pop_queue")],
        |_| Ok(PopQueue.into()),
    )];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        body.skip(body.left())?;
        Ok(PopQueue)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Nx(5).put(out, |_| ());
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pop_queue")
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        if call.text != call.name {
            return Err(ParseError::value(call.text, "action without arguments"));
        }
        Ok(PopQueue.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("pop_queue", "ffff 0010 00002320 0005 000000000000")]);
    testing::check_refused(["pop_queue:1"]);
}
