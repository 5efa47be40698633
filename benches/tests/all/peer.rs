//! The pipe to other libraries, with a script in the place of a peer.

use serde_json::json;
use std::path::{Path, PathBuf};
use um_benches::peer::{COMPILED, CUDA_CPP, CUDARC, CUPY, Peer, Peers, TORCH, find, seconds};

/// The folder of the scripts: in the bundle, or in the repository.
fn scripts() -> PathBuf {
    match std::env::var_os("CUDA_UM_PEERS_DIR") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("peers"),
    }
}

fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("stand_in.py");
    let import = format!("import sys\nsys.path.insert(0, {:?})\n", scripts());
    std::fs::write(&path, import + "from peer import *\n" + text).unwrap();
    path
}

#[test]
fn asks_and_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
def work(request):
    print("this is no answer")
    return {"seconds": time_each(3, lambda: None, lambda: None), "verified": request["round"] == 7}

serve({"work": work}, "stand-in 1.0")
"#;
    let (mut peer, hello) = Peer::start(&script(folder.path(), text)).unwrap();
    assert_eq!(hello["version"], "stand-in 1.0");
    let answer = peer.ask(&json!({"do": "work", "round": 7})).unwrap();
    assert!(answer["verified"] == true && answer["seconds"].as_f64().unwrap() >= 0.0);
    let error = peer.ask(&json!({"do": "work"})).unwrap_err();
    assert!(error.to_string().contains("KeyError"), "{error}");
    assert!(peer.ask(&json!({"do": "work", "round": 7})).is_ok());
}

#[test]
fn one_that_cannot_serve_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(folder.path(), "refuse('no such library')\n");
    let error = Peer::start(&path).err().unwrap();
    assert!(error.to_string().contains("no such library"), "{error}");
}

#[test]
fn the_last_words_of_one_that_ends_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(folder.path(), "sys.exit('no such library')\n");
    let error = Peer::start(&path).err().unwrap();
    assert!(error.to_string().contains("no such library"), "{error}");
}

/// A line without an end would take all memory, and some numbers are not valid times.
#[test]
fn answers_that_no_peer_gives_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(
        folder.path(),
        "sys.stdout.write('x' * (3 << 20)); sys.stdout.flush()\nsys.stdin.read()\n",
    );
    let error = Peer::start(&path).err().unwrap();
    assert_eq!(error.to_string().len(), 1 << 20, "the first part of it");
    for wrong in [-1.0, 1e300] {
        assert!(seconds(&json!({"seconds": wrong})).is_err());
    }
    assert_eq!(seconds(&json!({"seconds": 0.5})).unwrap().as_millis(), 500);
    assert!(seconds(&json!({})).unwrap().is_zero());
}

#[test]
fn a_program_needs_no_interpreter() {
    // It ends at once, without an answer.
    let error = Peer::start(Path::new("/bin/false")).err().unwrap();
    assert!(error.to_string().contains("ended"), "{error}");
    assert!(Peer::start(Path::new("/nowhere/peer")).is_err());
}

/// If they are not installed, or there is no GPU, they are skipped with a reason.
#[test]
fn real_peers_serve_or_say_why_not() {
    let peers = Peers::new(false);
    for name in [TORCH, CUPY].into_iter().chain(COMPILED) {
        if let Err(why) = peers.get(name) {
            let named = ["no ", "GPU", "not built"];
            assert!(named.iter().any(|words| why.contains(words)), "{why}");
        }
    }
    assert_eq!(peers.found().len(), 2 + COMPILED.len());
    assert!(Peers::new(true).get(TORCH).is_err());
}

/// The peers from `cargo xtask bench-peers`: without a GPU they start and name the missing part, with a GPU they measure.
#[test]
fn compiled_peers_answer() {
    for name in COMPILED {
        let Some(path) = find(name) else {
            eprintln!("SKIPPED: {name} is not built (cargo xtask bench-peers)");
            continue;
        };
        let (mut peer, hello) = match Peer::start(&path) {
            Ok(started) => started,
            Err(why) => {
                let why = format!("{why:#}");
                assert!(why.contains("finds no GPU: "), "{name}: {why}");
                eprintln!("SKIPPED: {why}");
                continue;
            }
        };
        assert!(hello["version"].is_string(), "{name}: {hello}");
        let mut request = json!({"do": "allocate", "bytes": 65536, "repeats": 3, "round": 7});
        for memory in ["managed", "pool", "async"] {
            request["memory"] = memory.into();
            let answer = peer.ask(&request).unwrap();
            assert!(answer["verified"] == true, "{name}, {memory}: {answer}");
            assert!(
                answer["seconds"].as_f64().unwrap() > 0.0,
                "{name}: {answer}"
            );
        }
        if [CUDA_CPP, CUDARC].contains(&name) {
            let plan = "a 0 1024 c 1 4096 k 0 0 k 1 0 k 1 0 r 1 0 f 1 0 f 0 0";
            let mut step = json!({"do": "step", "plan": plan, "steps": 3, "factor": 4, "round": 7});
            assert!(peer.ask(&step).unwrap()["verified"] == true, "{name}");
            step["factor"] = 8.into();
            let wrong = peer.ask(&step).unwrap_err();
            assert!(wrong.to_string().contains("WRONG RESULT"), "{wrong}");
        }
        let error = peer.ask(&json!({"do": "nonsense"})).unwrap_err();
        assert!(error.to_string().contains("nonsense"), "{name}: {error}");
    }
}
