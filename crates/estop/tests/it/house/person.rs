//! Commands as a person runs them in a house.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;

use super::ran::Ran;
use super::{Estop, House, PATIENCE};

impl House {
    /// A command that knows of no estop but this house's.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
        command.args(args).current_dir(self.folder.path()).env("USER", "ann");
        for variable in ["ESTOP_URL", "ESTOP_TOKEN", "ESTOP_ADMIN_TOKEN"] {
            command.env_remove(variable);
        }
        command
    }

    /// Through the owner's socket. Whoever unlocks the button has the admin's token in the environment.
    pub fn estop(&self, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        command.args(["--data-dir", "data"]);
        if let (["emergency", "restart" | "clear", ..], Some(token)) = (args, self.admin_token()) {
            command.env("ESTOP_TOKEN", token);
        }
        finish(&mut command)
    }

    /// Over the admin port, with no token but one that is in the arguments.
    pub fn estop_at(&self, estop: &Estop, args: &[&str]) -> Ran {
        finish(self.command(args).args(["--url", estop.admin()]))
    }

    /// Over the admin port, with a token.
    pub fn estop_as(&self, estop: &Estop, token: &str, args: &[&str]) -> Ran {
        finish(self.command(args).env("ESTOP_URL", estop.admin()).env("ESTOP_TOKEN", token))
    }

    /// The same without a data directory.
    pub fn estop_reading_plain(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::of(&child.wait_with_output().unwrap())
    }

    /// Through the owner's socket, with something to read.
    pub fn estop_reading(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        command.args(["--data-dir", "data"]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::of(&child.wait_with_output().unwrap())
    }
}

/// Runs it. Its input never ends and never says anything: who asks it waits for ever.
#[track_caller]
pub fn finish(command: &mut Command) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let (tell, told) = channel::<std::io::Result<Output>>();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let output = told.recv_timeout(PATIENCE).expect("it does not end");
    drop(input);
    Ran::of(&output.unwrap())
}
