//! Plans, their cost and their text.

/// What the tests of the dataflow generate their programs with.
#[path = "../../nlog-dataflow/tests/support"]
#[allow(dead_code, reason = "part of it is for engines")]
mod programs {
    pub(crate) mod generate;
    pub(crate) use test_random::Random;
}
mod support {
    pub(crate) mod interpreter;
}

mod orders;
mod plans;
mod random;
mod statistics;
