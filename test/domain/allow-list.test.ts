import assert from "node:assert/strict";
import { describe, test } from "node:test";

import fc from "fast-check";

import { parseAddress } from "../../src/domain/address/address.ts";
import {
  allowsAddress as allowsParsed,
  allowsEntry,
  allowsHost,
  parseAllowList,
  type AllowList,
} from "../../src/domain/address/allow-list.ts";
import { anyText } from "../helpers/any-text.ts";
import { addressOf } from "./special-addresses.ts";

function allowsAddress(list: AllowList, text: string, port: number): boolean {
  const address = parseAddress(text);
  return address !== null && allowsParsed(list, address, port);
}

describe("parseAllowList", () => {
  test("accepts addresses, blocks and host names, each with or without a port", () => {
    allowList(
      ...[
        ["127.0.0.1", "127.0.0.1:9000", "::1", "[::1]", "[::1]:9000", "10.1.0.0/16"],
        ["10.1.0.0/16:9000", "fd00::/8", "[fd00::/8]:9000", "0.0.0.0/0", "::/0", "8.8.8.8/32"],
        ["receiver.lan", "receiver.lan:9000", "localhost", "a_b.example", "bücher.example:65535"],
      ].flat(),
    );
  });

  test("accepts an empty list", () => {
    assert.equal(allowsAddress(allowList(), "127.0.0.1", 80), false);
  });

  test("suggests valid entries for a block with host bits", () => {
    const draw = fc.tuple(fc.bigInt(0n, (1n << 128n) - 1n), fc.boolean(), fc.nat(128));
    fc.assert(
      fc.property(draw, ([number, isIpv4, prefixSeed]) => {
        const bits = isIpv4 ? 32 : 128;
        const base = addressOf(number >> BigInt(128 - bits), bits);
        const verdict = parseAllowList([`${base}/${prefixSeed % (bits + 1)}`]);
        if (verdict.kind === "allow-list") return;
        const repairs = /write (\S+) for the block, or (\S+) for/.exec(
          verdict.problems[0]?.reason ?? "",
        );
        const [, block = "", address = ""] = repairs ?? [];
        assert.ok(allowsAddress(allowList(block), base, 80));
        assert.ok(allowsAddress(allowList(address), base, 80));
      }),
    );
  });

  test("never throws", () => {
    const piece = fc.constantFrom(
      ..."[ ] : / . 1 ::1 10.0.0.0 /8 a é % @ \\ # \ud800 \u00ad".split(" "),
    );
    const text = fc.oneof(
      anyText(),
      fc.array(piece).map((pieces) => pieces.join("")),
    );
    fc.assert(
      fc.property(fc.array(text), (entries) => {
        parseAllowList(entries);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("allowsHost", () => {
  test("compares names in lower-case Punycode", () => {
    const list = allowList("Receiver.LAN", "Bücher.example");
    assert.ok(allowsHost(list, "receiver.lan", 80));
    assert.ok(allowsHost(list, "xn--bcher-kva.example", 443));
  });

  test("excludes subdomains and parent domains", () => {
    const list = allowList("receiver.lan");
    for (const host of ["a.receiver.lan", "lan", "receiver", "xreceiver.lan", "receiver.lan."]) {
      assert.equal(allowsHost(list, host, 80), false, host);
    }
  });

  test("combines the ports of all entries for a name", () => {
    const list = allowList("a.lan:80", "a.lan:9000", "b.lan:80", "b.lan");
    assert.deepEqual(
      [80, 9000, 443].map((port) => allowsHost(list, "a.lan", port)),
      [true, true, false],
    );
    assert.ok(allowsHost(list, "b.lan", 443));
  });

  test("ignores address entries", () => {
    assert.equal(allowsHost(allowList("127.0.0.1", "::1"), "127.0.0.1", 80), false);
  });
});

test("an entry is allowed if another entry allows all its targets", () => {
  for (const [entries, entry, isAllowed] of [
    [["127.0.0.1"], "127.0.0.1:9000", true],
    [["127.0.0.1:9000"], "127.0.0.1", false],
    [["127.0.0.1:9000"], "127.0.0.1:9001", false],
    [["10.0.0.0/8"], "10.1.0.0/16:80", true],
    [["10.1.0.0/16"], "10.0.0.0/8", false],
    [["::/0"], "10.1.0.0/16", false],
    [["a.lan"], "A.lan:80", true],
    [["a.lan:80"], "a.lan", false],
    [[], "a.lan", false],
  ] as const) {
    assert.equal(
      allowsEntry(allowList(...entries), entry),
      isAllowed,
      `${entries.join()} ${entry}`,
    );
  }
});

describe("allowsAddress", () => {
  test("allows an address of a listed block on the listed port", () => {
    const list = allowList("10.1.0.0/16:9000", "[fd00::]:80", "192.168.0.7");
    const held = ["10.1.255.255 9000", "fd00:0::0 80", "192.168.0.7 1"];
    const missed = ["10.1.255.255 80", "10.2.0.0 9000", "fd00:: 81", "fd00::1 80", "192.168.0.8 1"];
    for (const each of held) assert.ok(allows(list, each), each);
    for (const each of missed) assert.ok(!allows(list, each), each);
  });

  test("judges mapped and translated addresses by their IPv4 address", () => {
    const list = allowList("127.0.0.1", "::ffff:10.0.0.0/104");
    for (const address of ["::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::7f00:1", "10.9.9.9"]) {
      assert.ok(allows(list, `${address} 80`), address);
    }
    assert.ok(!allows(list, "::127.0.0.1 80"));
  });

  test("excludes IPv4 addresses from an IPv6 block, also from ::/0", () => {
    const list = allowList("::/0");
    assert.ok(allows(list, "fd00::1 80"));
    assert.ok(!allows(list, "127.0.0.1 80"));
    assert.ok(!allows(list, "::ffff:127.0.0.1 80"));
  });

  test("refuses addresses with a zone and other text", () => {
    const list = allowList("::/0", "0.0.0.0/0");
    for (const text of ["fe80::1%eth0", "127.1", "localhost", ""]) {
      assert.equal(allowsAddress(list, text, 80), false, text);
    }
  });
});

function allowList(...entries: readonly string[]): AllowList {
  const verdict = parseAllowList(entries);
  if (verdict.kind === "fault") assert.fail(JSON.stringify(verdict.problems));
  return verdict.list;
}

function allows(list: AllowList, addressAndPort: string): boolean {
  const [address = "", port = ""] = addressAndPort.split(" ");
  return allowsAddress(list, address, Number(port));
}
