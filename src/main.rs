//! The `hvmmio` command: see [`hvmmio::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    hvmmio::cli::main()
}
