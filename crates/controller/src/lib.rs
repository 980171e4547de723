//! The daemon: journal, engine thread, API, switches.
