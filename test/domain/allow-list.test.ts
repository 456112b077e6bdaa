import assert from "node:assert/strict";
import { describe, test } from "node:test";

import fc from "fast-check";

import { parseAddress } from "../../src/domain/address/address.ts";
import {
  allowsAddress as allowsParsed,
  allowsHost,
  parseAllowList,
  type AllowList,
} from "../../src/domain/address/allow-list.ts";
import { addressOf } from "./special-addresses.ts";

function allowsAddress(list: AllowList, text: string, port: number): boolean {
  const address = parseAddress(text);
  return address !== null && allowsParsed(list, address, port);
}

describe("parseAllowList", () => {
  test("takes addresses, blocks and host names, each with or without a port", () => {
    allowList(
      ...[
        ["127.0.0.1", "127.0.0.1:9000", "::1", "[::1]", "[::1]:9000", "10.1.0.0/16"],
        ["10.1.0.0/16:9000", "fd00::/8", "[fd00::/8]:9000", "0.0.0.0/0", "::/0", "8.8.8.8/32"],
        ["receiver.lan", "receiver.lan:9000", "localhost", "a_b.example", "bücher.example:65535"],
      ].flat(),
    );
  });

  test("takes no entries at all", () => {
    assert.equal(allowsAddress(allowList(), "127.0.0.1", 80), false);
  });

  test("says of each faulty entry how to mend it, all at once", () => {
    const faults = [
      ["", /is empty/],
      [" receiver.lan", /white space/],
      ["a.example, b.example", /white space/],
      ["10.1.2.3/16", /write 10\.1\.0\.0\/16 for the block, or 10\.1\.2\.3 for the address/],
      ["fd00::1/8", /write fd00::\/8 for the block, or fd00::1 for the address/],
      ["[10.0.0.1]:80", /\[::1\]:9000/],
      ["[receiver.lan]", /\[::1\]:9000/],
      ["[::1]9000", /\[::1\]:9000/],
      ["::1::9000", /\[::1\]:9000/],
      ["receiver.lan:", /from 1 to 65535/],
      ["receiver.lan:0", /from 1 to 65535/],
      ["receiver.lan:080", /from 1 to 65535/],
      ["receiver.lan:65536", /from 1 to 65535/],
      ["receiver.lan:http", /from 1 to 65535/],
      ["10.0.0.0/33", /10\.1\.0\.0\/16 for a block/],
      ["10/8", /10\.1\.0\.0\/16 for a block/],
      ["receiver.lan/path", /without a path/],
      ["http://receiver.lan/", /is a URL/],
      ["user@receiver.lan", /credentials/],
      ["*.lan", /wildcard/],
      ["fe80::1%eth0", /zones/],
      ["127.1", /write 127\.0\.0\.1/],
      ["0x7f000001", /write 127\.0\.0\.1/],
      ["127.0.0.1.", /write 127\.0\.0\.1/],
      ["receiver.lan.", /empty host label/],
      ["a..b", /empty host label/],
      [`${"a".repeat(64)}.example`, /over 63/],
      ["a!b.example", /characters/],
      ["a^b.example", /correct it/],
      ["1.2.3.4.5", /correct it/],
    ] as const;
    const verdict = parseAllowList(faults.map(([entry]) => entry));
    assert.ok(verdict.kind === "fault");
    assert.deepEqual(
      verdict.problems.map(({ entry }) => entry),
      faults.map(([entry]) => entry),
    );
    for (const [index, [, repair]] of faults.entries()) {
      assert.match(verdict.problems[index]?.reason ?? "", repair);
    }
  });

  test("gives for host bits a repair that is itself accepted", () => {
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
      fc.string({ unit: "binary" }),
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
  test("compares names in lower-case punycode", () => {
    const list = allowList("Receiver.LAN", "Bücher.example");
    assert.ok(allowsHost(list, "receiver.lan", 80));
    assert.ok(allowsHost(list, "xn--bcher-kva.example", 443));
  });

  test("holds the name alone, neither what is below nor above it", () => {
    const list = allowList("receiver.lan");
    for (const host of ["a.receiver.lan", "lan", "receiver", "xreceiver.lan", "receiver.lan."]) {
      assert.equal(allowsHost(list, host, 80), false, host);
    }
  });

  test("holds the ports of all entries for the name, or every port", () => {
    const list = allowList("a.lan:80", "a.lan:9000", "b.lan:80", "b.lan");
    assert.deepEqual(
      [80, 9000, 443].map((port) => allowsHost(list, "a.lan", port)),
      [true, true, false],
    );
    assert.ok(allowsHost(list, "b.lan", 443));
  });

  test("takes no address entry for a name", () => {
    assert.equal(allowsHost(allowList("127.0.0.1", "::1"), "127.0.0.1", 80), false);
  });
});

describe("allowsAddress", () => {
  test("holds an address in a listed block, on the listed port", () => {
    const list = allowList("10.1.0.0/16:9000", "[fd00::]:80", "192.168.0.7");
    const held = ["10.1.255.255 9000", "fd00:0::0 80", "192.168.0.7 1"];
    const missed = ["10.1.255.255 80", "10.2.0.0 9000", "fd00:: 81", "fd00::1 80", "192.168.0.8 1"];
    for (const each of held) assert.ok(allows(list, each), each);
    for (const each of missed) assert.ok(!allows(list, each), each);
  });

  test("holds mapped and translated forms by the IPv4 address inside, either way round", () => {
    const list = allowList("127.0.0.1", "::ffff:10.0.0.0/104");
    for (const address of ["::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::7f00:1", "10.9.9.9"]) {
      assert.ok(allows(list, `${address} 80`), address);
    }
    assert.ok(!allows(list, "::127.0.0.1 80"));
  });

  test("takes an IPv6 block, ::/0 too, to say nothing about IPv4", () => {
    const list = allowList("::/0");
    assert.ok(allows(list, "fd00::1 80"));
    assert.ok(!allows(list, "127.0.0.1 80"));
    assert.ok(!allows(list, "::ffff:127.0.0.1 80"));
  });

  test("holds no address with a zone and no text that is none", () => {
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
