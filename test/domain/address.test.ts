import assert from "node:assert/strict";
import { isIP } from "node:net";
import { describe, test } from "node:test";
import { inspect } from "node:util";

import fc from "fast-check";

import {
  blockText,
  canonicalAddress,
  classifyAddress,
  hasHostBits,
  isWithin,
  parseAddress,
  parseBlock,
} from "../../src/domain/address/address.ts";
import { parseServerUrl, type ServerUrl } from "../../src/domain/address/server-url.ts";
import { anyText } from "../helpers/any-text.ts";
import {
  addressNumber,
  addressOf,
  ipv6Texts,
  isPublicByReference,
  registryRanges,
} from "./special-addresses.ts";

const PUBLIC = [
  ["IPv4", "1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 223.255.255.255"],
  ["next to shared space", "100.63.255.255 100.128.0.0"],
  ["next to loopback and link-local", "126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0"],
  ["next to private use", "172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0"],
  ["next to protocol blocks", "191.255.255.255 192.0.1.0 192.0.3.0 192.88.98.255 192.88.100.0"],
  ["next to benchmarking and documentation", "198.17.255.255 198.20.0.0 198.51.99.255 203.0.114.0"],
  ["next to Azure's address", "168.63.129.15 168.63.129.17"],
  ["IPv6", "2000:: 2001:200:: 2606:4700::1111 2a00:1450:4001:81b::200e 3fff:1000::"],
  [
    "next to special IPv6",
    "2001:db7:ffff:: 2001:db9:: 2001:ffff:: 2003:: 2620:4f:7fff:: 3ffe:ffff::",
  ],
  ["mapped and translated public IPv4", "::ffff:8.8.8.8 ::ffff:808:808 64:ff9b::8.8.8.8"],
  ["ISATAP with a public IPv4", "2606:4700::5efe:808:808 2606:4700::200:5efe:8.8.8.8"],
] as const;

const REFUSED = [
  ["0.0.0.0", "this network (RFC 791)"],
  ["10.0.0.5", "private-use (RFC 1918)"],
  ["100.100.100.200", "shared address space (RFC 6598)"],
  ["127.0.0.1", "loopback (RFC 1122)"],
  ["168.63.129.16", "Azure platform address"],
  ["169.254.169.254", "link-local (RFC 3927)"],
  ["192.0.0.192", "IETF protocol assignments (RFC 6890)"],
  ["203.0.113.7", "documentation (RFC 5737)"],
  ["224.0.0.251", "multicast (RFC 5771)"],
  ["240.0.0.1", "reserved (RFC 1112)"],
  ["255.255.255.255", "limited broadcast (RFC 919)"],
  ["::", "unspecified address (RFC 4291)"],
  ["::1", "loopback (RFC 4291)"],
  ["::ffff:127.0.0.1", "loopback (RFC 1122)"],
  ["::FFFF:A00:1", "private-use (RFC 1918)"],
  ["::127.0.0.1", "IPv4-compatible (RFC 4291)"],
  ["::8.8.8.8", "IPv4-compatible (RFC 4291)"],
  ["::ffff:0:8.8.8.8", "IPv4-translated (RFC 2765)"],
  ["64:ff9b::10.0.0.1", "private-use (RFC 1918), behind NAT64 (RFC 6052)"],
  ["64:ff9b::a9fe:a9fe", "link-local (RFC 3927), behind NAT64 (RFC 6052)"],
  ["64:ff9b::1:808:808", "outside global unicast 2000::/3 (RFC 4291)"],
  ["::fffe:808:808", "outside global unicast 2000::/3 (RFC 4291)"],
  ["::1:ffff:808:808", "outside global unicast 2000::/3 (RFC 4291)"],
  ["64:ff9b:1::8.8.8.8", "local-use translation (RFC 8215)"],
  ["2001:0:808:808::1", "Teredo (RFC 4380)"],
  ["2002:808:808::1", "6to4 (RFC 3056)"],
  ["2606:4700::5efe:7f00:1", "loopback (RFC 1122), by ISATAP (RFC 5214)"],
  ["2606:4700::200:5efe:10.1.2.3", "private-use (RFC 1918), by ISATAP (RFC 5214)"],
  ["fd00:ec2::254", "unique-local (RFC 4193)"],
  ["fe80::1", "link-local (RFC 4291)"],
  ["fec0::1", "site-local (RFC 3879)"],
  ["ff02::1", "multicast (RFC 4291)"],
  ["4000::1", "outside global unicast 2000::/3 (RFC 4291)"],
  ["fe80::1%eth0", "scoped by a zone (RFC 4007)"],
  ["2606:4700::1%1", "scoped by a zone (RFC 4007)"],
  ["::ffff:8.8.8.8%lo", "scoped by a zone (RFC 4007)"],
] as const;

const NO_ADDRESS = [
  ..."localhost example.com [::1] 8.8.8.8:80 8.8.8.8. 8.8.8 8.8 8 134744072 0x08080808".split(" "),
  ..."0x8.8.8.8 010.8.8.8 8.8.8.08 00.0.0.0 8.8.8.256 8.8.8.8.8 8..8.8 .8.8.8 +8.8.8.8".split(" "),
  ..."8.8.8.-8 8.8.8.8e0 8.8.8.８ : ::: ::1:: 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 ::12345 ::g".split(
    " ",
  ),
  ..."1::2:3:4:5:6:7:8 1:2:3:4:5:6:7:1.2.3.4 ::1.2.3 ::01.2.3.4 1.2.3.4:: ::1.2.3.4:5".split(" "),
  ..."2606:4700::1% 8.8.8.8%lo 2606:4700::1/64".split(" "),
  ...["", " ", "8.8.8.8 ", " 8.8.8.8", "::1%a b", "::1%\u0000", "8.8.8.8\u0000", "::1\n"],
];

describe("classifyAddress", () => {
  test("returns public for public addresses, also next to special blocks", () => {
    for (const address of PUBLIC.flatMap(([, addresses]) => addresses.split(" "))) {
      assert.deepEqual(classifyAddress(address), { kind: "public" }, address);
    }
  });

  test("returns the closest rule for a refused address", () => {
    for (const [address, rule] of REFUSED) {
      assert.deepEqual(classifyAddress(address), { kind: "refused", rule }, address);
    }
  });

  test("refuses text that is not exactly one address", () => {
    for (const text of NO_ADDRESS) {
      assert.deepEqual(classifyAddress(text), { kind: "refused", rule: "not an address" }, text);
    }
  });

  test("refuses both ends of each registered block, and agrees with the reference next to it", () => {
    for (const { first, last, bits } of registryRanges()) {
      for (const value of [first, last]) {
        assert.equal(classifyAddress(addressOf(value, bits)).kind, "refused");
      }
      for (const value of [first - 1n, last + 1n]) {
        if (value >= 0n && value < 1n << BigInt(bits)) assertAsReference(value, bits);
      }
    }
  });

  test("returns one verdict for every text of an address", () => {
    for (const { first, last, bits } of registryRanges()) {
      for (const value of [first - 1n, first, last, last + 1n]) {
        if (value < 0n || value >= 1n << BigInt(bits)) continue;
        const kind = isPublicByReference(value, bits) ? "public" : "refused";
        for (const text of bits === 128 ? ipv6Texts(value) : mappedTexts(value)) {
          assert.equal(classifyAddress(text).kind, kind, text);
          assert.equal(classifyAddress(text.toUpperCase()).kind, kind, text);
        }
      }
    }
  });

  test("agrees with the reference for any IPv4 address, also mapped and translated", () => {
    fc.assert(
      fc.property(ipv4Number(), (value) => {
        assertAsReference(value, 32);
        assertAsReference(value | (0xffffn << 32n), 128);
        assertAsReference(value | (0x64_ff9bn << 96n), 128);
      }),
      { numRuns: 2000 },
    );
  });

  test("agrees with the reference for any IPv6 address", () => {
    fc.assert(
      fc.property(ipv6Number(), (value) => assertAsReference(value, 128)),
      { numRuns: 4000 },
    );
  });
});

describe("parseAddress", () => {
  test("accepts the same text as net.isIP, with at most one zone", () => {
    const piece = fc.constantFrom(
      ..."0 1 9 25 255 256 01 a f ffff : : :: . . %eth0 % g".split(" "),
    );
    const text = fc.array(piece, { maxLength: 16 }).map((pieces) => pieces.join(""));
    fc.assert(
      fc.property(fc.oneof(text, fc.ipV4(), fc.ipV6(), fc.ipV4Extended()), (candidate) => {
        // No socket accepts a zone with a percent sign.
        if (candidate.split("%").length > 2) return;
        assert.equal(parseAddress(candidate) !== null, isIP(candidate) !== 0, candidate);
      }),
      { numRuns: 5000 },
    );
  });

  test("never throws", () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        parseAddress(text);
        classifyAddress(text);
        canonicalAddress(text);
        parseBlock(text);
      }),
    );
  });
});

describe("canonicalAddress", () => {
  test("writes IPv6 as RFC 5952 and IPv4-mapped as IPv4", () => {
    const texts = {
      "2001:DB8:0:0:1:0:0:1": "2001:db8::1:0:0:1",
      "2001:0db8:0:0:0:0:2:1": "2001:db8::2:1",
      "2001:db8:0:1:1:1:1:1": "2001:db8:0:1:1:1:1:1",
      ...{ "0:0:0:0:0:0:0:0": "::", "1:0:0:0:0:0:0:0": "1::", "::ffff:7f00:1": "127.0.0.1" },
      ...{ "::FFFF:127.0.0.1": "127.0.0.1", "FE80::1%eth0": "fe80::1%eth0" },
    };
    for (const [text, canonical] of Object.entries(texts))
      assert.equal(canonicalAddress(text), canonical);
    assert.equal(canonicalAddress("127.1"), null);
  });

  test("writes IPv6 as the URL parser does", () => {
    fc.assert(
      fc.property(ipv6Number(), (value) => {
        const text = addressOf(value, 128);
        const canonical = canonicalAddress(text) ?? "";
        if (canonical.includes(".")) return;
        assert.equal(`[${canonical}]`, new URL(`http://[${text}]/`).hostname);
        assert.equal(addressNumber(canonical), value);
      }),
    );
  });
});

describe("parseBlock", () => {
  test("refuses text that is not a CIDR block", () => {
    const texts =
      "10.0.0.0/33 ::/129 10.0.0.0/ 10.0.0.0/08 10.0.0.0/-1 /8 10/8 10.0.0.0/8/8 ::1%lo/64";
    for (const text of texts.split(" ")) assert.equal(parseBlock(text), null, text);
  });

  test("detects host bits and writes the block without them", () => {
    const texts = [
      ["10.1.2.3/16", true, "10.1.0.0/16"],
      ["10.1.0.0/16", false, "10.1.0.0/16"],
      ["10.0.0.1/31", true, "10.0.0.0/31"],
      ["0.0.0.0/0", false, "0.0.0.0/0"],
      ["1.2.3.4", false, "1.2.3.4/32"],
      ["fd00::1/8", true, "fd00::/8"],
      ["::ffff:10.1.2.3/104", true, "10.0.0.0/8"],
      ["::ffff:0:0/96", false, "0.0.0.0/0"],
    ] as const;
    for (const [text, isUnclean, repaired] of texts) {
      const block = parseBlock(text) ?? assert.fail(text);
      assert.equal(hasHostBits(block), isUnclean, text);
      assert.equal(blockText(block), repaired);
    }
  });

  test("contains exactly the addresses of its range", () => {
    const bits = fc.constantFrom<32 | 128>(32, 128);
    const draw = fc.tuple(bits, fc.bigInt(0n, (1n << 128n) - 1n), fc.nat(128), fc.nat(128));
    fc.assert(
      fc.property(draw, ([size, number, prefixSeed, flip]) => {
        const base = number >> BigInt(128 - size);
        const prefix = prefixSeed % (size + 1);
        const other = base ^ (1n << BigInt(flip % size));
        const block = parseBlock(`${addressOf(base, size)}/${prefix}`) ?? assert.fail();
        const address = parseAddress(addressOf(other, size)) ?? assert.fail();
        if (address.bytes.length !== block.bytes.length) return;
        const shift = BigInt(size - prefix);
        assert.equal(isWithin(address.bytes, block), base >> shift === other >> shift);
      }),
      { numRuns: 1000 },
    );
  });
});

function mappedTexts(value: bigint): readonly string[] {
  const mapped = ipv6Texts(value | (0xffffn << 32n));
  return [addressOf(value, 32), ...mapped, ...ipv6Texts(value | (0x64_ff9bn << 96n))];
}

function assertAsReference(value: bigint, bits: 32 | 128): void {
  const text = addressOf(value, bits);
  const expected = isPublicByReference(value, bits) ? "public" : "refused";
  assert.equal(classifyAddress(text).kind, expected, text);
  const canonical = canonicalAddress(text) ?? assert.fail(text);
  assert.equal(classifyAddress(canonical).kind, expected, canonical);
}

// Half of the numbers lie close to the edge of a special block, where off-by-one faults are.
function ipv4Number(): fc.Arbitrary<bigint> {
  return fc.oneof(fc.bigInt(0n, (1n << 32n) - 1n), nearEdge(32));
}

function ipv6Number(): fc.Arbitrary<bigint> {
  const any = fc.bigInt(0n, (1n << 128n) - 1n);
  const global = any.map((value) => (value >> 3n) | (1n << 125n));
  const isatap = fc
    .tuple(global, ipv4Number(), fc.boolean())
    .map(
      ([base, ipv4, isLocal]) =>
        ((base >> 64n) << 64n) | (isLocal ? 0x5efen << 32n : 0x0200_5efen << 32n) | ipv4,
    );
  return fc.oneof(any, global, isatap, nearEdge(128));
}

function nearEdge(bits: 32 | 128): fc.Arbitrary<bigint> {
  const edges = registryRanges()
    .filter((range) => range.bits === bits)
    .flatMap(({ first, last }) => [first, last]);
  return fc
    .tuple(fc.constantFrom(...edges), fc.bigInt(-3n, 3n))
    .map(([edge, step]) => BigInt.asUintN(bits, edge + step));
}

const SECRET = "s3cr3t";

function refusal(text: string): string {
  const parsed = parseServerUrl(text);
  assert.equal(parsed.kind, "fault", text);
  return parsed.kind === "fault" ? parsed.reason : assert.fail();
}

function taken(text: string): ServerUrl {
  const parsed = parseServerUrl(text);
  assert.equal(parsed.kind, "value", inspect(parsed));
  return parsed.kind === "value" ? parsed.value : assert.fail();
}

test("a fault does not contain the password, also if it is not percent-encoded", () => {
  const urls = [
    ...["postgres://app:S@S@db/x", "postgres://app:S/S@db/x", "postgres://app:S?S=S@db/x"],
    ...["postgres://app:x?S@db/x", "postgres://app:S#S@db/x", "postgres://app:x#S@db/x"],
    ...["postgres://app:S @db/x", "postgres://app:S\n@db/x", "postgres://app:S%zz@db/x"],
    ...["postgres://app:S%ff@db/x", "postgres://app:S%00@db/x", "postgres://app:S@/x"],
    ...["postgres://app:S@db", "postgres://app:S@db:99999/x", "postgres://app:S@db/x?nope=1"],
    ...["postgres://app@db/x?password=S", "postgres://app@db/x?sslpassword=S"],
    ...["postgres://:S@db/x", "mysql://app:S@db/x", "https://app:S@db/x"],
  ];
  const hostile = urls.map((url) => url.replaceAll("S", SECRET));

  for (const text of hostile) assert.doesNotMatch(refusal(text), new RegExp(SECRET), text);
});

test("a parsed URL is printed without its password", () => {
  const url = taken(`postgres://app:${SECRET}%40%2F@a:5432,b/x?sslmode=require`);

  assert.equal(url.password?.(), `${SECRET}@/`);
  assert.equal(url.shown, "postgres://app@a:5432,b/x?sslmode=require");
  assert.doesNotMatch(inspect(url) + JSON.stringify(url), new RegExp(SECRET));
});

test("a host beyond this machine needs a verified certificate unless sslmode changes it", () => {
  const modes = (text: string): readonly string[] => taken(text).hosts.map(({ tls }) => tls);

  assert.deepEqual(modes("postgres://app@db.example.com/x"), ["verify-full"]);
  assert.deepEqual(modes("postgres://app@10.0.0.5,localhost,127.0.0.1,[::1]/x"), [
    ...["verify-full", "disable", "disable", "disable"],
  ]);
  assert.deepEqual(modes("postgres://app@localhost/x?sslmode=verify-ca"), ["verify-ca"]);
  assert.deepEqual(modes("postgres://app@/x?host=/run/postgresql&sslmode=verify-full"), [
    "disable",
  ]);
});

test("several hosts each have a port, and the session needs a writable one", () => {
  const url = taken("postgresql://app@a:6432,[2001:db8::1]:5433,b/x");

  assert.deepEqual(
    url.hosts.map(({ host, port }) => [host, port]),
    [
      ["a", 6432],
      ["2001:db8::1", 5433],
      ["b", 5432],
    ],
  );
  assert.equal(url.targetSession, "read-write");
  assert.equal(taken("postgres://app@a/x").targetSession, "any");
  assert.equal(taken("postgres://app@a,b/x?target_session_attrs=any").targetSession, "any");
});

test("a Unix socket's folder is a parameter or the host", () => {
  const socket = { host: "/run/postgresql", port: 5433, tls: "disable" };

  assert.deepEqual(taken("postgres://app@/x?host=/run/postgresql&port=5433").hosts, [socket]);
  assert.deepEqual(taken("postgres://app@%2Frun%2Fpostgresql:5433/x").hosts, [socket]);
});

test("every known parameter is parsed", () => {
  const parameters = [
    ...["sslmode=verify-ca", "sslrootcert=/ca.pem", "sslcert=/c.pem", "sslkey=/k.pem"],
    ...["application_name=jobs", "connect_timeout=9", "options=-c%20search_path%3Djobs"],
  ];
  const url = taken(`POSTGRES://app@db/x%20y?${parameters.join("&")}`);

  assert.equal(url.database, "x y");
  assert.deepEqual(url.tlsFiles, { rootCert: "/ca.pem", cert: "/c.pem", key: "/k.pem" });
  assert.equal(url.applicationName, "jobs");
  assert.equal(url.connectTimeoutMs, 9000);
  assert.equal(url.searchPath, "jobs");
  assert.equal(url.password, null);
});
