//! nlog: source text to typed program, with diagnostics. No I/O but reading source files, no dataflow.
