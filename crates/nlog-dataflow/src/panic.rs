//! Messages about panics.

/// The message of every call after the failure that broke an engine.
pub(crate) fn refusal_of_all(why: &str) -> String {
    format!("{why} (in an earlier transaction, since which the engine refuses all; start another one)")
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked")
}
