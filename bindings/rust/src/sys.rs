// SPDX-License-Identifier: BSD-3-Clause
//! The functions of fur.h, fur_map.h and fur_ship.h that this crate calls.

#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_int, c_void};

pub enum fur_heap {}
pub enum fur_thread {}
pub enum fur_ro {}
pub enum fur_update {}
pub enum fur_map {}
pub enum fur_snapshot {}
pub enum fur_follower {}

#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct fur_ticket {
    pub source: u64,
    pub number: u64,
}

pub const FUR_OPEN_OR_CREATE: c_int = 1;

pub const FUR_MAP_HASH: c_int = 1;
pub const FUR_MAP_ORDERED: c_int = 2;

pub const FUR_MAP_FIRST: c_int = 0;
pub const FUR_MAP_LAST: c_int = 1;
pub const FUR_MAP_AT: c_int = 2;
pub const FUR_MAP_FROM: c_int = 3;
pub const FUR_MAP_BEHIND: c_int = 4;

#[repr(C)]
#[derive(Clone)]
pub struct fur_options {
    pub size: usize,
    pub heap_bytes: u64,
    pub log_bytes: u64,
    pub ring_slots: u64,
    pub max_threads: u32,
    pub address: u64,
    pub isolation: c_int,
    pub htm: c_int,
    pub pm: c_int,
    pub open: c_int,
    pub phase_times: bool,
    pub reader_report_ns: u64,
    pub reader_report: *mut c_void,
    pub reader_report_arg: *mut c_void,
    pub dram_bytes: u64,
    pub file_mode: u32,
    pub log: *mut c_void,
    pub log_arg: *mut c_void,
    pub async_ms: u32,
    pub max_bytes: u64,
    pub debug: u64,
    pub snapshot_bytes: u64,
    pub ack: c_int,
    pub ack_patience_ms: u32,
}

#[repr(C)]
pub struct fur_info {
    pub size: usize,
    pub htm: c_int,
    pub isolation: c_int,
    pub pm: c_int,
    pub htm_reason: [c_char; 160],
    pub pm_reason: [c_char; 160],
    pub heap_bytes: u64,
}

#[repr(C)]
#[derive(Clone)]
pub struct fur_map_iterator {
    pub opaque: [u64; 128],
}

#[repr(C)]
pub struct fur_map_bytes {
    pub at: *const c_void,
    pub bytes: usize,
}

#[repr(C)]
pub struct fur_map_range {
    pub first: *const u8,
    pub first_bytes: usize,
    pub last: *const u8,
    pub last_bytes: usize,
}

#[repr(C)]
pub struct fur_map_lookup {
    pub key: *const u8,
    pub key_bytes: usize,
    pub value: *mut u8,
    pub room: usize,
    pub bytes: usize,
    pub found: c_int,
}

#[repr(C)]
pub struct fur_follow_options {
    pub size: usize,
    pub settings: *const *const c_char,
    pub log: *mut c_void,
    pub log_arg: *mut c_void,
    pub patience_ms: u32,
}

#[repr(C)]
pub struct fur_follow_state {
    pub size: usize,
    pub lineage: u64,
    pub durts: u64,
    pub term: u64,
    pub frame: u64,
    pub node: u64,
    pub own_node: u64,
    pub unread: u64,
    pub caught_up_ns: u64,
    pub heard_ns: u64,
    pub silent_ns: u64,
    pub heir: u64,
    pub follows: bool,
    pub promoted: bool,
    pub error: c_int,
    pub message: [c_char; 256],
}

#[repr(C)]
pub struct fur_token {
    pub lineage: u64,
    pub durts: u64,
}

type Out<T> = *mut *mut T;
/// The predicate of a removal.
pub type Which = unsafe extern "C" fn(*const fur_map_iterator, *mut c_void) -> c_int;

extern "C" {
    pub fn fur_version() -> *const c_char;
    pub fn fur_strerror(error: c_int) -> *const c_char;
    pub fn fur_errormsg() -> *const c_char;
    pub fn fur_create(
        path: *const c_char,
        options: *const fur_options,
        heap: Out<fur_heap>,
    ) -> c_int;
    pub fn fur_open(path: *const c_char, options: *const fur_options, heap: Out<fur_heap>)
        -> c_int;
    pub fn fur_close(heap: *mut fur_heap) -> c_int;
    pub fn fur_backup(heap: *mut fur_heap, path: *const c_char) -> c_int;
    pub fn fur_grow(heap: *mut fur_heap, bytes: u64) -> c_int;
    pub fn fur_get_info(heap: *const fur_heap, info: *mut fur_info) -> c_int;
    pub fn fur_thread_register(
        heap: *mut fur_heap,
        name: *const c_char,
        thread: Out<fur_thread>,
    ) -> c_int;
    pub fn fur_begin_ro(thread: *mut fur_thread, ro: Out<fur_ro>) -> c_int;
    pub fn fur_end_ro(ro: *mut fur_ro, ticket: *mut fur_ticket) -> c_int;
    pub fn fur_begin_update(thread: *mut fur_thread, update: Out<fur_update>) -> c_int;
    pub fn fur_commit(update: *mut fur_update, ticket: *mut fur_ticket) -> c_int;
    pub fn fur_abort(update: *mut fur_update) -> c_int;
    pub fn fur_wait(thread: *mut fur_thread, ticket: fur_ticket) -> c_int;
    pub fn fur_sync(heap: *mut fur_heap) -> c_int;

    pub fn fur_snapshot_begin(thread: *mut fur_thread, snapshot: Out<fur_snapshot>) -> c_int;
    pub fn fur_snapshot_end(snapshot: *mut fur_snapshot) -> c_int;
    pub fn fur_map_size_at(
        thread: *mut fur_thread,
        snapshot: *mut fur_snapshot,
        map: *const fur_map,
        size: *mut u64,
    ) -> c_int;
    pub fn fur_map_get_at(
        thread: *mut fur_thread,
        snapshot: *mut fur_snapshot,
        map: *const fur_map,
        key: *const u8,
        key_bytes: usize,
        value: *mut u8,
        bytes: *mut usize,
    ) -> c_int;
    pub fn fur_map_get_many_at(
        thread: *mut fur_thread,
        snapshot: *mut fur_snapshot,
        map: *const fur_map,
        lookups: *mut fur_map_lookup,
        n: usize,
    ) -> c_int;
    pub fn fur_map_scan_at(
        thread: *mut fur_thread,
        snapshot: *mut fur_snapshot,
        map: *const fur_map,
        place: *mut u64,
        most: usize,
        entries: *mut u8,
        bytes: *mut usize,
    ) -> c_int;
    pub fn fur_map_copy_at(
        thread: *mut fur_thread,
        snapshot: *mut fur_snapshot,
        map: *const fur_map,
        place: c_int,
        key: *const u8,
        key_bytes: usize,
        entries: *mut u8,
        bytes: *mut usize,
    ) -> c_int;

    pub fn fur_follow(
        heap: *mut fur_heap,
        options: *const fur_follow_options,
        follower: Out<fur_follower>,
    ) -> c_int;
    pub fn fur_unfollow(follower: *mut fur_follower) -> c_int;
    pub fn fur_get_follow_state(
        follower: *const fur_follower,
        state: *mut fur_follow_state,
    ) -> c_int;
    pub fn fur_take_over(follower: *mut fur_follower, term: u64) -> c_int;
    pub fn fur_get_token(thread: *mut fur_thread, token: *mut fur_token) -> c_int;
    pub fn fur_wait_token(heap: *mut fur_heap, token: *const fur_token, timeout_ms: u32) -> c_int;

    pub fn fur_map_root(
        thread: *mut fur_thread,
        name: *const c_char,
        kind: c_int,
        map: Out<fur_map>,
    ) -> c_int;
    pub fn fur_map_remove_root(thread: *mut fur_thread, name: *const c_char) -> c_int;
    pub fn fur_map_destroy_root(thread: *mut fur_thread, name: *const c_char) -> c_int;
    pub fn fur_map_clear(update: *mut fur_update, map: *mut fur_map) -> c_int;
    pub fn fur_map_clear_in_parts(thread: *mut fur_thread, map: *mut fur_map) -> c_int;
    pub fn fur_map_remove_range(
        update: *mut fur_update,
        map: *mut fur_map,
        range: *const fur_map_range,
        removed: *mut u64,
    ) -> c_int;
    pub fn fur_map_remove_range_in_parts(
        thread: *mut fur_thread,
        map: *mut fur_map,
        range: *const fur_map_range,
        removed: *mut u64,
    ) -> c_int;
    pub fn fur_map_remove_if(
        update: *mut fur_update,
        map: *mut fur_map,
        which: Which,
        arg: *mut c_void,
        removed: *mut u64,
    ) -> c_int;
    pub fn fur_map_remove_if_in_parts(
        thread: *mut fur_thread,
        map: *mut fur_map,
        which: Which,
        arg: *mut c_void,
        removed: *mut u64,
    ) -> c_int;
    pub fn fur_map_put(
        update: *mut fur_update,
        map: *mut fur_map,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
    ) -> c_int;
    pub fn fur_map_insert(
        update: *mut fur_update,
        map: *mut fur_map,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
    ) -> c_int;
    pub fn fur_map_remove(
        update: *mut fur_update,
        map: *mut fur_map,
        key: *const u8,
        key_bytes: usize,
    ) -> c_int;
    pub fn fur_map_size_ro(ro: *mut fur_ro, map: *const fur_map, size: *mut u64) -> c_int;
    pub fn fur_map_size_update(
        update: *mut fur_update,
        map: *const fur_map,
        size: *mut u64,
    ) -> c_int;
    pub fn fur_map_get_many_ro(
        ro: *mut fur_ro,
        map: *const fur_map,
        lookups: *mut fur_map_lookup,
        n: usize,
    ) -> c_int;
    pub fn fur_map_get_many_update(
        update: *mut fur_update,
        map: *const fur_map,
        lookups: *mut fur_map_lookup,
        n: usize,
    ) -> c_int;
    pub fn fur_map_seek_ro(
        ro: *mut fur_ro,
        map: *const fur_map,
        place: c_int,
        key: *const u8,
        key_bytes: usize,
        it: *mut fur_map_iterator,
    ) -> c_int;
    pub fn fur_map_seek_update(
        update: *mut fur_update,
        map: *const fur_map,
        place: c_int,
        key: *const u8,
        key_bytes: usize,
        it: *mut fur_map_iterator,
    ) -> c_int;
    pub fn fur_map_scan_ro(
        ro: *mut fur_ro,
        map: *const fur_map,
        place: *mut u64,
        most: usize,
        entries: *mut u8,
        bytes: *mut usize,
    ) -> c_int;
    pub fn fur_map_scan_update(
        update: *mut fur_update,
        map: *const fur_map,
        place: *mut u64,
        most: usize,
        entries: *mut u8,
        bytes: *mut usize,
    ) -> c_int;
    pub fn fur_map_next(it: *mut fur_map_iterator) -> c_int;
    pub fn fur_map_key(it: *const fur_map_iterator, to: *mut u8, room: usize) -> usize;
    pub fn fur_map_value(it: *const fur_map_iterator, to: *mut u8, room: usize) -> usize;
    pub fn fur_map_view(
        it: *const fur_map_iterator,
        key: *mut fur_map_bytes,
        value: *mut fur_map_bytes,
    ) -> c_int;
}
