//! What the tests share.
#![allow(unreachable_pub, dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod driven;
pub mod flows;
pub mod packets;
pub mod setting;
