//! The naive evaluator of nlog programs: the oracle of every test.
