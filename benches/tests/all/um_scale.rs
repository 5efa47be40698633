//! The program for several devices, on the simulator.

use crate::program;

fn um_scale(arguments: &[&str]) -> (bool, String) {
    let ran = program("um_scale", env!("CARGO_BIN_EXE_um_scale"))
        .args(arguments)
        .output()
        .unwrap();
    let told = [ran.stdout, ran.stderr].concat();
    (
        ran.status.success(),
        String::from_utf8_lossy(&told).into_owned(),
    )
}

#[test]
fn collectives_run_and_are_checked_on_one_two_and_four_devices() {
    for devices in ["1", "2", "4"] {
        let (works, told) = um_scale(&["collectives", "--quick", "--sim", devices]);
        assert!(works, "{told}");
        let rows = |memory: &str| {
            let rows = told.lines().filter(|it| it.starts_with(memory));
            rows.count()
        };
        let found = (rows("| device |"), rows("| managed |"), rows("skipped: "));
        assert_eq!(found, (3, 3, 2), "{told}");
        assert_eq!(told.contains("1 device: "), devices == "1", "{told}");
    }
}

#[test]
fn an_unknown_section_names_those_that_there_are() {
    let (works, told) = um_scale(&["nothing"]);
    assert!(!works && told.contains("nothing: migrations, "), "{told}");
}
