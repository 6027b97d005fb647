//! `estop-fake-model`: the fake model as a program.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use estop_fake_model::{FakeModel, Options};

/// A model server that does as it is told. Prints `listening on URL` first, then serves until it is killed.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Where to listen; port 0 is any free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Serve TLS with a certificate of its own making.
    #[arg(long)]
    tls: bool,
    /// Write that certificate here.
    #[arg(long, value_name = "FILE", requires = "tls")]
    certificate_out: Option<PathBuf>,
    /// Rules to begin with, as JSON.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Worker threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// How many requests `/_seen` remembers.
    #[arg(long, default_value_t = 10_000)]
    requests_kept: usize,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let rules = match &args.script {
        None => Vec::new(),
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            serde_json::from_str(&text).with_context(|| format!("{} is no script", file.display()))?
        }
    };
    let (threads, requests_kept) = (args.threads, args.requests_kept);
    let model =
        FakeModel::start(Options { listen: args.listen, tls: args.tls, threads, rules, requests_kept })
            .with_context(|| format!("cannot listen on {}", args.listen))?;
    if let (Some(file), Some(pem)) = (&args.certificate_out, model.certificate_pem()) {
        fs::write(file, pem).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let mut out = std::io::stdout();
    writeln!(out, "listening on {}", model.url())?;
    out.flush()?;
    loop {
        std::thread::park();
    }
}
