import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { test } from "node:test";

import { OwnAddresses, parseFibTrie, parseIfInet6 } from "../../src/deliver/own-addresses.ts";
import type { AddressList } from "../../src/deliver/own-addresses.ts";
import { canonicalAddress } from "../../src/domain/address/address.ts";
import type { LogFacts } from "../../src/domain/log.ts";

// A table of Linux 6 without custom rules. "Local:" has the same lines.
const FIB_TRIE = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 93.184.0.0/14 2 0 2
        |-- 93.184.217.0
           /24 link UNICAST
        |-- 93.184.217.34
           /32 universe UNICAST
           /32 host LOCAL
        |-- 93.184.217.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        +-- 127.0.0.0/31 1 0 0
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
        |-- 127.255.255.255
           /32 link BROADCAST
`;

const IF_INET6 = `26062800022100010000000000000034 05 40 00 82     cut
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
`;

/** The list, and its lines of the log. */
function setUp(reads: (() => readonly string[])[]) {
  const lists = reads.map((read, i): AddressList => ({
    name: `list ${i}`,
    remedy: "mend it",
    read,
  }));
  const told: (readonly [LogFacts, string])[] = [];
  const log = { warn: (facts: LogFacts, message: string) => void told.push([facts, message]) };
  return { own: new OwnAddresses({ lists, log }), told };
}

function failWith(error: object): never {
  throw Object.assign(new Error("failed"), error);
}

test("the routing table of Linux yields the addresses of this machine", () => {
  assert.deepEqual(parseFibTrie(FIB_TRIE), ["93.184.217.34", "127.0.0.1"]);
});

test("the list of IPv6 interfaces yields their addresses", () => {
  assert.deepEqual(parseIfInet6(IF_INET6), [
    "2606:2800:0221:0001:0000:0000:0000:0034",
    "fe80:0000:0000:0000:00fc:00ff:fe00:0001",
    "0000:0000:0000:0000:0000:0000:0000:0001",
  ]);
});

for (const text of ["", "Main:\nLocal:\n", "|-- \n   /32 host LOCAL", "\0\n".repeat(1000)]) {
  test(`${JSON.stringify(text.slice(0, 30))} yields no address`, () => {
    assert.deepEqual([...parseFibTrie(text), ...parseIfInet6(text)], []);
  });
}

test("the public addresses of all lists are returned once, in canonical text", () => {
  const { own, told } = setUp([
    () => ["93.184.216.34", "127.0.0.1", "10.0.0.1", "fe80::1"],
    () => parseFibTrie(FIB_TRIE),
    () => ["93.184.216.34", ...parseIfInet6(IF_INET6), "no address"],
  ]);

  assert.deepEqual(own.read(), ["93.184.216.34", "93.184.217.34", "2606:2800:221:1::34"]);
  assert.deepEqual(told, []);
});

test("a failed list does not affect the others, and logs its error and remedy once", () => {
  const { own, told } = setUp([() => failWith({ errno: 97 }), () => ["93.184.216.34"]]);

  assert.deepEqual([own.read(), own.read()], [["93.184.216.34"], ["93.184.216.34"]]);

  assert.equal(told.length, 1);
  assert.deepEqual(told[0]?.[0], { list: "list 0", error: "EAFNOSUPPORT" });
  assert.match(told[0]?.[1] ?? "", /; mend it$/);
});

test("a list that fails later keeps its last addresses", () => {
  const answers = [["93.184.216.34"], null, ["93.184.216.35"]];
  const { own, told } = setUp([() => answers.shift() ?? failWith({ code: "EMFILE", errno: -24 })]);

  assert.deepEqual(own.read(), ["93.184.216.34"]);
  assert.deepEqual(own.read(), ["93.184.216.34"]);
  assert.deepEqual(own.read(), ["93.184.216.35"]);
  assert.equal(told[0]?.[0]["error"], "EMFILE");
});

test(
  "the tables of this machine hold every address that Node lists",
  { skip: existsSync("/proc/net/fib_trie") ? false : "this system has no /proc/net/fib_trie" },
  () => {
    const read = (path: string): string => (existsSync(path) ? readFileSync(path, "utf8") : "");
    const found = new Set(
      [
        ...parseFibTrie(read("/proc/net/fib_trie")),
        ...parseIfInet6(read("/proc/net/if_inet6")),
      ].map(canonicalAddress),
    );

    const listed = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
    assert.notEqual(listed.length, 0);
    for (const { address } of listed) assert.ok(found.has(canonicalAddress(address)), address);
  },
);
