//! Pictures are well-formed for any names, and show every record.

use crate::support::{Builder, DEVICE, model};
use cuda_um_trace::{Cause, MigrationReport, OperationKind, Place, Trace, html, perfetto};
use serde_json::Value;

const HOSTILE: &str = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\"'`&amp;\u{0}\u{1b}[31m\u{2028}";

fn hostile() -> Trace {
    let mut builder = Builder::new();
    let buffer = builder.buffer(HOSTILE, 3 << 20);
    builder.trace.source.name = HOSTILE.into();
    builder.trace.source.cuda = HOSTILE.into();
    builder.trace.devices[0].name = HOSTILE.into();
    builder.trace.buffers[0].site = Some(HOSTILE.into());
    builder.trace.dropped_records = 3;
    builder.advise(buffer, HOSTILE);
    let name = HOSTILE.to_owned();
    builder.operation(OperationKind::Other { name }, &[(buffer, true)]);
    builder.launch_faulting(HOSTILE, &[(buffer, true)]);
    builder.host_faulting(buffer, false);
    builder.migration(5, 4096, DEVICE, Cause::Unknown);
    builder.finish()
}

fn report(trace: &Trace) -> MigrationReport {
    MigrationReport::of(trace, &model())
}

fn page(trace: &Trace) -> String {
    html(trace, &report(trace))
}

/// The data that the page's script reads.
fn embedded(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn names_cannot_break_out_of_the_page() {
    let page = page(&hostile());
    let tags = |tag: &str| page.to_lowercase().matches(tag).count();
    assert_eq!((tags("<script"), tags("</script>")), (2, 2));
    assert_eq!((tags("<img"), tags("<!--")), (0, 0));
    assert!(!page.contains('\u{1b}') && !page.contains('\u{0}'));
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
    assert!(page.contains("3 records dropped, so the numbers below are too low"));
    let names = embedded(&page)["maps"][0]["name"].clone();
    assert_eq!(names, HOSTILE, "the script gets the name as it is");
}

#[test]
fn the_page_asks_for_nothing() {
    let page = page(&Builder::new().finish());
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"));
    for request in [
        "http://", "https://", " src=", " href=", "url(", "@import", "fetch(", "XMLHttp", "import(",
    ] {
        assert!(!page.contains(request), "{request}");
    }
}

#[test]
fn the_page_has_every_record_at_its_time() {
    let mut builder = Builder::new();
    let buffer = builder.buffer("targets", 1 << 20);
    builder.launch_faulting("cosine", &[(buffer, true)]);
    builder.host_faulting(buffer, false);
    let trace = builder.finish();
    let data = embedded(&page(&trace));
    let lanes = data["lanes"].as_array().unwrap();
    let mut starts: Vec<u64> = Vec::new();
    for lane in lanes {
        let mut at = 0;
        for difference in lane["starts"].as_array().unwrap() {
            at += difference.as_u64().unwrap();
            starts.push(at);
        }
        for column in ["lengths", "labels", "details", "amounts", "colours"] {
            let length = lane[column].as_array().unwrap().len();
            assert_eq!(length, lane["starts"].as_array().unwrap().len(), "{column}");
        }
    }
    let records = trace.records.iter().map(|one| one.start);
    let kernels = trace.kernels.iter().map(|one| one.start);
    let operations = trace.operations.iter().map(|one| one.start);
    let mut expected: Vec<u64> = records
        .chain(kernels)
        .chain(operations)
        .map(|start| start - trace.start)
        .collect();
    expected.sort_unstable();
    starts.sort_unstable();
    assert_eq!(starts, expected);
}

#[test]
fn blocks_are_where_the_records_took_them() {
    let mut builder = Builder::new();
    let targets = builder.buffer("targets", 256 * 1024);
    let copies = builder.buffer("copies", 64 * 1024);
    let fresh = builder.buffer("fresh", 64 * 1024);
    let base = builder.get(targets).address;
    builder.migration(base, 65_536, DEVICE, Cause::User);
    builder.migration(base + 65_536, 32_768, DEVICE, Cause::User);
    builder.migration(base, 65_536, Place::Host, Cause::Coherence);
    builder.advise(copies, "SetReadMostly");
    builder.prefetch(copies, DEVICE);
    let address = builder.get(fresh).address;
    builder.gpu_fault(address, 1);
    let data = embedded(&page(&builder.finish()));
    let map = |index: usize, column: &str| data["maps"][index][column].clone();
    // 0: host, 100: device, 101: both, 102: not known.
    assert_eq!(map(0, "first"), serde_json::json!([0, 0, 102, 102]));
    assert_eq!(map(0, "blocks"), serde_json::json!([0, 1, 0]));
    assert_eq!(map(0, "states"), serde_json::json!([100, 50, 0]));
    assert_eq!(map(1, "states"), serde_json::json!([101]));
    assert_eq!(
        (map(2, "first"), map(2, "states")),
        (serde_json::json!([102]), serde_json::json!([100]))
    );
}

#[test]
fn perfetto_gets_every_event() {
    let trace = hostile();
    let json: Value = serde_json::from_str(&perfetto(&trace)).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    let slices = trace.operations.len() + trace.kernels.len() + trace.records.len();
    assert_eq!(of("X"), slices);
    let tracks: Vec<_> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| (event["pid"].clone(), event["tid"].clone()))
        .collect();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() >= 0.0);
        assert!(
            tracks.contains(&(event["pid"].clone(), event["tid"].clone())),
            "{event}"
        );
    }
    // Three MiB moved to the device and back, then a page without a buffer.
    let last = events.iter().rfind(|event| event["ph"] == "C").unwrap();
    assert_eq!(last["args"]["bytes moved to GPU 0"], 4096.0);
}

#[test]
fn an_empty_trace_has_pictures_too() {
    let trace = Trace::default();
    assert!(page(&trace).contains("Nothing: no migration"));
    assert!(perfetto(&trace).contains("\"traceEvents\":[]"));
}
