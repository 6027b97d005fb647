//! What the demo stands on: a folder that goes away, and an estop of its own in it.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use secrecy::SecretString;

use crate::client::Client;

/// How long estop gets to start, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running estop for the demo. Dropping it ends it and removes everything.
pub(super) struct DemoEnvironment {
    folder: PathBuf,
    estop: Child,
    data: SocketAddr,
    admin: SocketAddr,
    token: String,
}

impl DemoEnvironment {
    /// Starts estop before this model.
    pub(super) fn lay(model: &str, port: u16, admin_port: u16) -> anyhow::Result<DemoEnvironment> {
        let token = random()?;
        let folder = std::env::temp_dir().join(format!("estop-demo-{}", token.get(..12).unwrap_or_default()));
        std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let (data, admin) = (free(port)?, free(admin_port)?);
        let config = format!(
            "listen: {{data: \"{data}\", admin: \"{admin}\"}}\n\
             providers: {{openai: {{base_url: \"{model}\"}}}}\n\
             limits: {{drain_s: 0}}\n\
             policy: {{kill_switch_enabled: true}}\n\
             agents:\n  overspender: {{policy: {{budget: {{usd_per_day: 1.00}}}}}}\n"
        );
        std::fs::write(folder.join("estop.yaml"), config)?;
        let estop = Command::new(std::env::current_exe()?)
            .args(["serve", "--config", "estop.yaml", "--data-dir", "data"])
            .current_dir(&folder)
            .env("ESTOP_ADMIN_TOKEN", &token)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // Ctrl-C is for this process: it ends its estop itself.
            .process_group(0)
            .spawn();
        let mut ground =
            DemoEnvironment { folder, estop: estop.context("cannot start estop")?, data, admin, token };
        ground.wait_for_start()?;
        Ok(ground)
    }

    fn wait_for_start(&mut self) -> anyhow::Result<()> {
        let out = self.estop.stdout.take().context("estop says nothing")?;
        let mut lines = BufReader::new(out).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        anyhow::ensure!(first.contains(" listening on "), "estop did not start");
        // Nobody reads the rest; it is short, and the pipe must stay open.
        std::thread::Builder::new().name("demo-log".into()).spawn(move || lines.for_each(drop))?;
        let begun = Instant::now();
        while std::net::TcpStream::connect(self.admin).is_err() {
            anyhow::ensure!(begun.elapsed() < PATIENCE, "the dashboard does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Where agents ask.
    pub(super) fn address(&self) -> SocketAddr {
        self.data
    }

    /// A page of the dashboard.
    pub(super) fn page(&self, path: &str) -> String {
        format!("http://{}{path}", self.admin)
    }

    /// The dashboard, logged in.
    pub(super) fn door(&self) -> String {
        self.page(&format!("/login#token={}", self.token))
    }

    /// For questions.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        Client::to_url(&format!("http://{}", self.admin), Some(&SecretString::from(self.token.clone())))
    }
}

impl Drop for DemoEnvironment {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.estop.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while matches!(self.estop.try_wait(), Ok(None)) {
            if begun.elapsed() > PATIENCE {
                let _ = self.estop.kill();
                let _ = self.estop.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The port that was asked for, or any other if somebody has it.
fn free(port: u16) -> anyhow::Result<SocketAddr> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|socket| socket.local_addr());
    bind(port).or_else(|_| bind(0)).context("no port is free on 127.0.0.1")
}

fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system gave no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
