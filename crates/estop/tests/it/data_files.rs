//! The files of a data directory while estop runs, and before it starts: what is removed, cut or replaced is noticed, and
//! what cannot be trusted is refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::house::{Estop, House, PATIENCE, until};

/// Status and text of `/readyz` at the admin port, which needs no file.
fn ready(estop: &Estop) -> (u16, String) {
    let address = estop.admin().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

fn segment(house: &House) -> PathBuf {
    house.data().join("journal/00000001.jsonl")
}

/// Puts another file in the place of one, with the same content.
fn replace(path: &Path) {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).unwrap();
    std::fs::rename(copy, path).unwrap();
}

/// A running estop whose files suffer: nothing passes, it says so, a kill still reaches it, and the next start is stopped.
fn is_noticed(what: &str, damage: impl FnOnce(&House)) {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200, "{what}");
    assert_eq!(ready(&estop).0, 200, "{what}");
    damage(&house);
    until(&format!("{what}: not ready"), || {
        let (status, said) = ready(&estop);
        status == 503 && said.contains("removed, cut or replaced")
    });
    until(&format!("{what}: the socket and a pressed button"), || {
        let status = house.estop(&["emergency", "status", "--json"]);
        let is_pressed = |status: &serde_json::Value| {
            status["note"].as_str().is_some_and(|note| note.starts_with("data lost: "))
                && status["persisted"] == true
        };
        status.code == 1 && is_pressed(&status.json())
    });
    let seen = house.model.requests();
    assert_ne!(estop.ask("a", "Hello again").unwrap().0, 200, "{what}");
    assert_eq!(house.model.requests(), seen, "{what}: the model was asked");
    // Also for those who open the gate again without looking.
    house.estop(&["doctor"]).is(1, "removed, cut or replaced");
    house.estop(&["kill"]).is(0, "Everything is stopped");
    estop.kill_9();
    let estop = house.start();
    assert_ne!(estop.ask("a", "Hello").unwrap().0, 200, "{what}: the stop was lost");
    assert_eq!(house.model.requests(), seen, "{what}: the model was asked");
}

#[test]
fn ks_3_a_data_directory_that_is_removed_under_a_running_estop_loses_no_stop() {
    is_noticed("the folder removed", |house| std::fs::remove_dir_all(house.data()).unwrap());
    is_noticed("the folder moved", |house| {
        std::fs::rename(house.data(), house.folder.path().join("elsewhere")).unwrap();
    });
}

#[test]
fn ks_3_files_that_are_removed_under_a_running_estop_are_noticed() {
    for name in ["estop.db", "estop.db-wal", "estop.db-shm"] {
        is_noticed(&format!("{name} removed"), |house| {
            std::fs::remove_file(house.data().join(name)).unwrap();
        });
    }
    is_noticed("the segment removed", |house| std::fs::remove_file(segment(house)).unwrap());
}

#[test]
fn ks_3_files_that_are_cut_or_replaced_under_a_running_estop_are_noticed() {
    for name in ["estop.db", "estop.db-wal"] {
        is_noticed(&format!("{name} emptied"), |house| std::fs::write(house.data().join(name), "").unwrap());
    }
    is_noticed("the segment emptied", |house| std::fs::write(segment(house), "").unwrap());
    is_noticed("the database replaced", |house| replace(&house.data().join("estop.db")));
    is_noticed("the segment replaced", |house| replace(&segment(house)));
}

/// Nothing is lost with the lock, the socket and the latch: the button is pressed, they are made anew, and after that estop
/// can go on.
#[test]
fn ks_3_the_lock_the_socket_and_the_latch_are_missed_and_made_anew() {
    for name in ["estop.db.lock", "estop.sock", "estop.latch"] {
        let house = House::new("");
        let estop = house.start();
        assert_eq!(estop.ask("a", "Hello").unwrap().0, 200, "{name}");
        std::fs::remove_file(house.data().join(name)).unwrap();
        let mut nth = 0;
        until(&format!("{name}: nothing passes"), || {
            nth += 1;
            // One that is on its way when the button is pressed is cut off and has no status.
            estop.ask(&format!("b{nth}"), "Hello").is_none_or(|(status, _)| status != 200)
        });
        until(&format!("{name}: there again"), || house.data().join(name).exists());
        house.until_pressed();
        let (_, status) = house.owner("GET", "/api/emergency/status", "");
        assert!(status.contains("\"source\":\"data_files\"") && status.contains("was removed"), "{status}");
        house.estop(&["kill"]).is(0, "Everything is stopped");
        house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
        house.estop(&["emergency", "clear"]).is(0, "RUNNING");
        assert_eq!(estop.ask("c", "Hello").unwrap().0, 200, "{name}");
        start_is_refused(&house, "is in use by another estop");
        estop.end();
    }
}

/// Starts and must end by itself, with this said.
fn start_is_refused(house: &House, said: &str) {
    let ran = Command::new("timeout")
        .args(["30", env!("CARGO_BIN_EXE_estop"), "serve", "--config", "estop.yaml", "--data-dir", "data"])
        .current_dir(house.folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(2) && told.contains(said), "wanted `{said}`: {ran:?}");
}

#[test]
fn st_1_a_second_estop_is_kept_out_though_the_lock_was_removed() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    std::fs::remove_file(house.data().join("estop.db.lock")).unwrap();
    start_is_refused(&house, "is in use by another estop");
    house.estop(&["restore", "copy.db"]).is(1, "");
    drop(estop);
    let estop = house.start();
    estop.end();
}

#[test]
fn st_1_a_pipe_or_a_link_in_the_place_of_a_file_is_refused_at_once() {
    let names =
        ["estop.db", "estop.db-wal", "estop.db.lock", "estop.latch", "background.json", "admin-token"];
    let journal = ["journal/00000001.jsonl", "journal/mark", "journal/manifest.jsonl"];
    for name in names.into_iter().chain(journal) {
        let house = House::new("");
        house.start().end();
        let path = house.data().join(name);
        let _ = std::fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg("-m").arg("600").arg(&path).status().unwrap().success());
        start_is_refused(&house, "is a named pipe (FIFO)");
        for command in ["doctor", "backup copy.db", "journal verify", "kill"] {
            let args: Vec<&str> = command.split(' ').collect();
            let ran = Command::new("timeout")
                .args(["30", env!("CARGO_BIN_EXE_estop")])
                .args(&args)
                .args(["--data-dir", "data"])
                .current_dir(house.folder.path())
                .output()
                .unwrap();
            assert_ne!(ran.status.code(), Some(124), "{name}: {command} hangs");
        }
        std::fs::remove_file(&path).unwrap();
        symlink(house.folder.path().join("estop.yaml"), &path).unwrap();
        start_is_refused(&house, "is a symbolic link");
    }
}

#[test]
fn st_1_a_data_directory_that_others_can_write_is_refused_with_the_fix() {
    let house = House::new("");
    house.start().end();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for folder in [house.data(), house.data().join("journal")] {
        for shared in [0o777, 0o770] {
            mode(&folder, shared);
            start_is_refused(&house, "chmod 700");
        }
        mode(&folder, 0o700);
    }
    mode(&segment(&house), 0o666);
    start_is_refused(&house, "chmod 600");
    mode(&segment(&house), 0o600);
    house.start().end();
}

#[test]
fn ks_5_a_client_of_the_socket_sees_its_answer_and_can_still_send_its_body() {
    let house = House::new("");
    let estop = house.start();
    assert_eq!(estop.ask("a", "Hello").unwrap().0, 200);
    let mut stream = UnixStream::connect(house.data().join("estop.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut ask = |head: &str, body: &str| {
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut some = [0; 4096];
            let read = stream.read(&mut some).unwrap();
            assert!(read > 0, "closed after {}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&some[..read]);
        }
        // The answer is here, and the body is not sent yet.
        stream.write_all(body.as_bytes()).unwrap();
        String::from_utf8(answer).unwrap()
    };
    let host = "host: localhost\r\ncontent-type: application/json\r\n";
    let stopped =
        ask(&format!("POST /api/agents/a/deactivate HTTP/1.1\r\n{host}content-length: 2\r\n\r\n"), "{}");
    assert!(stopped.starts_with("HTTP/1.1 200"), "{stopped}");
    let again = ask(&format!("GET /api/emergency/status HTTP/1.1\r\n{host}\r\n"), "");
    assert!(again.starts_with("HTTP/1.1 200"), "the connection goes on: {again}");
    assert_ne!(estop.ask("a", "Hello").unwrap().0, 200);
}
