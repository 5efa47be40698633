//! Objects of the program, and the bodies of conditions, which belong to graphs.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

use super::nodes::{INVALID_VALUE, row};
use crate::support::{bytes, h200};

/// `CUgraphNodeParams` of a node with a condition.
#[repr(C, align(8))]
struct Conditional {
    kind: u32,
    reserved: [u32; 3],
    handle: u64,
    type_: u32,
    size: u32,
    graphs: *const usize,
    rest: [u64; 27],
}

static ENDED: AtomicU32 = AtomicU32::new(0);

extern "C" fn end(_: *mut c_void) {
    ENDED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn an_object_lives_as_long_as_a_graph_that_holds_it() {
    let cuda = h200();
    let (graph, mut object) = (cuda.graph(), 0);
    let ended = || ENDED.load(Ordering::SeqCst);
    done!(cuda, cuUserObjectCreate(
        &mut object => *mut usize, 0 => usize, end => extern "C" fn(*mut c_void), 1 => u32, 1 => u32
    ));
    done!(cuda, cuGraphRetainUserObject(graph => usize, object => usize, 1 => u32, 1 => u32));
    cuda.empty(graph, &[]);
    let exec = cuda.executable(graph).unwrap();
    done!(cuda, cuGraphDestroy(graph => usize));
    let pause = cuda.sim.pause();
    done!(cuda, cuGraphLaunch(exec => usize, 0 => usize));
    assert_eq!(
        (driver!(cuda, cuGraphExecDestroy(exec => usize)), ended()),
        (0, 0)
    );
    drop(pause);
    assert_eq!((driver!(cuda, cuCtxSynchronize()), ended()), (0, 1));
    assert_eq!(
        driver!(cuda, cuUserObjectRelease(object => usize, 1 => u32)),
        INVALID_VALUE
    );
}

#[test]
fn a_condition_chooses_a_body_and_has_a_default() {
    let cuda = h200();
    let (graph, data, mut node) = (cuda.graph(), cuda.managed(4), 0);
    let mut add = |graph: usize, type_: u32, size: u32, default: u32| {
        let mut params = Conditional {
            kind: 13,
            reserved: [0; 3],
            handle: 0,
            type_,
            size,
            graphs: null(),
            rest: [0; 27],
        };
        done!(cuda, cudaGraphConditionalHandleCreate(
            &mut params.handle => *mut u64, graph => usize, default => u32, 1 => u32
        ));
        // A node of no graph before it, and then none.
        let wrong = driver!(cuda, cuGraphAddNode(
            &mut node => *mut usize, graph => usize, &1 => *const usize, 1 => usize, &mut params => *mut Conditional
        ));
        assert_eq!(wrong, INVALID_VALUE);
        done!(cuda, cuGraphAddNode(
            &mut node => *mut usize, graph => usize, null() => *const usize, 0 => usize, &mut params => *mut Conditional
        ));
        // SAFETY: an array of as many graphs, which lives as long as the node.
        (0..size as usize)
            .map(|at| unsafe { params.graphs.add(at).read() })
            .collect::<Vec<_>>()
    };
    let (switch, or_else) = (add(graph, 2, 3, 2), add(graph, 0, 2, 0));
    for (at, body) in switch.iter().enumerate() {
        cuda.set_node(*body, &[], row(data, 10 + at as u32, 1));
    }
    for (at, body) in or_else.iter().enumerate() {
        cuda.set_node(*body, &[], row(data.wrapping_add(1), 20 + at as u32, 1));
    }
    // A condition in a body.
    let inner = add(or_else[1], 0, 1, 1);
    cuda.set_node(inner[0], &[], row(data.wrapping_add(2), 30, 1));
    let exec = cuda.executable(graph).unwrap();
    for _ in 0..2 {
        bytes(data, 4).fill(0);
        assert_eq!(cuda.run_exec(exec), 0);
        assert_eq!(bytes(data, 4), [12, 21, 30, 0]);
    }
}
