import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { addressKey, clientFacts, toProxyPolicy } from "../../src/http/guard/client.ts";
import { cpuMsOf } from "../helpers/cpu-time.ts";

const PROXY = "10.0.0.1";
const CLIENT = "203.0.113.7";

const POLICY = toProxyPolicy({
  trustedProxies: ["10.0.0.0/8", "192.0.2.1", "fd00::/8"],
  servesTls: false,
  insecureHttp: false,
});

/** The facts of a request with these header lines. */
function factsOf(
  given: {
    readonly peer?: string | undefined;
    readonly for?: readonly string[];
    readonly proto?: readonly string[];
  },
  policy = POLICY,
) {
  const lines = [
    ...(given.for ?? []).map((value) => ["X-Forwarded-For", value]),
    ...(given.proto ?? []).map((value) => ["x-forwarded-PROTO", value]),
  ];
  const remoteAddress = "peer" in given ? given.peer : PROXY;
  return clientFacts({ rawHeaders: lines.flat(), socket: { remoteAddress } }, policy);
}

describe("the address of a client", () => {
  test("is the peer's own if the peer is not a trusted proxy", () => {
    for (const [peer, address] of [
      ["203.0.113.7", "203.0.113.7"],
      ["::ffff:203.0.113.7", "203.0.113.7"],
      ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
      ["fe80::1%eth0", "fe80::1%eth0"],
      ["127.0.0.1", "127.0.0.1"],
    ] as const) {
      assert.equal(factsOf({ peer }).address, address);
      assert.equal(factsOf({ peer, for: ["198.51.100.1"], proto: ["https"] }).address, address);
      assert.equal(factsOf({ peer, for: [PROXY, "10.0.0.2"] }).address, address);
    }
  });

  test("is the right-most address of X-Forwarded-For that is not a trusted proxy", () => {
    const forwarded: readonly (readonly [lines: readonly string[], address: string])[] = [
      [[], PROXY],
      [[""], PROXY],
      [[" , ,, "], PROXY],
      [[CLIENT], CLIENT],
      [["  203.0.113.7\t"], CLIENT],
      [["198.51.100.1, 203.0.113.7"], CLIENT],
      [["198.51.100.1", "203.0.113.7"], CLIENT],
      [["203.0.113.7", "198.51.100.1"], "198.51.100.1"],
      [["127.0.0.1, 203.0.113.7"], CLIENT],
      [["10.9.9.9, 203.0.113.7"], CLIENT],
      [["203.0.113.7, 10.0.0.2, 192.0.2.1"], CLIENT],
      [["203.0.113.7, 10.0.0.2", "fd00::2"], CLIENT],
      [["203.0.113.7, 192.0.2.2"], "192.0.2.2"],
      [["10.0.0.3, 10.0.0.2"], "10.0.0.3"],
      [["203.0.113.7,,10.0.0.2,"], CLIENT],
      [["203.0.113.7:5678"], CLIENT],
      [["203.0.113.7:0"], CLIENT],
      [["203.0.113.7, 10.0.0.2:443"], CLIENT],
      [["2001:db8::1"], "2001:db8::1"],
      [["2001:DB8:0::1"], "2001:db8::1"],
      [["[2001:db8::1]"], "2001:db8::1"],
      [["[2001:db8::1]:99"], "2001:db8::1"],
      [["::ffff:203.0.113.7"], CLIENT],
      [["[::ffff:203.0.113.7]:99"], CLIENT],
      [["203.0.113.7, ::ffff:10.0.0.2"], CLIENT],
    ];
    for (const [lines, address] of forwarded) {
      assert.equal(factsOf({ for: lines }).address, address, lines.join("|"));
    }
  });

  test("is the last good address before a malformed one", () => {
    const malformed = [
      ["unknown", "_hidden", "localhost", "203.0.113.7:", "203.0.113.7:99999"],
      ["203.0.113.7:123456", "203.0.113.7:-1", "203.0.113.7:80:80", "203.0.113.7/32"],
      ["203.0.113.7 198.51.100.1", "203.0.113.7;10.0.0.2", "203.0.113.256", "203.0.113"],
      ["3405803783", "0xcb.0.113.7", "203.0.113.07", "[203.0.113.7]", "[203.0.113.7]:80"],
      ["[2001:db8::1", "2001:db8::1]", "[2001:db8::1]]", "[]", "[]:80", "[2001:db8::1]80"],
      ["[2001:db8::1]:", "[2001:db8::1]:65536", "2001:db8::1%eth0", "[fe80::1%25eth0]"],
      ["2001:db8::1::2", '"203.0.113.7"', '"[2001:db8::1]:99"', "for=203.0.113.7"],
      ["http://203.0.113.7", "203.0.113.7\u0000", "\u00ff", "٢٠٣.0.113.7", "' OR 1=1 --"],
      ["1".repeat(8000), "[".repeat(8000), ":".repeat(8000)],
      [" ".repeat(4000) + "x" + "\t".repeat(4000) + "y"],
    ].flat();
    for (const entry of malformed) {
      const shown = entry.slice(0, 30);
      assert.equal(factsOf({ for: [entry] }).address, PROXY, shown);
      assert.equal(factsOf({ for: [`203.0.113.7, ${entry}`] }).address, PROXY, shown);
      assert.equal(factsOf({ for: [`${entry}, 10.0.0.2`] }).address, "10.0.0.2", shown);
      assert.equal(factsOf({ for: [`${entry}, 203.0.113.7, 10.0.0.2`] }).address, CLIENT, shown);
    }
  });

  test("is found in a header of the largest size in linear time", async () => {
    const long = Array.from({ length: 8000 }, () => "1").join(",");

    const ms = await cpuMsOf(() => {
      assert.equal(factsOf({ for: [`${long}, 10.0.0.2`] }).address, "10.0.0.2");
      assert.equal(factsOf({ for: [`${"10.0.0.2,".repeat(1800)}`] }).address, "10.0.0.2");
    });

    assert(ms < 1000, `${ms} ms`);
  });

  test("is found behind a proxy with a mapped IPv4 address", () => {
    assert.equal(factsOf({ peer: "::ffff:10.0.0.1", for: [CLIENT] }).address, CLIENT);
  });

  test("is the peer's if no proxy is trusted", () => {
    const policy = toProxyPolicy({ trustedProxies: [], servesTls: false, insecureHttp: false });

    assert.equal(factsOf({ peer: PROXY, for: [CLIENT] }, policy).address, PROXY);
  });

  test("is empty for a closed connection", () => {
    assert.equal(factsOf({ peer: undefined, for: [CLIENT] }).address, "");
  });
});

describe("plain HTTP", () => {
  const SECURE = [
    [],
    [""],
    [" , "],
    ["https"],
    ["HTTPS"],
    [" https "],
    ["http, https"],
    ["http", "https"],
    ["http,https,"],
  ];
  const PLAIN = [
    ["http"],
    ["HTTP"],
    ["https, http"],
    ["https", "http"],
    ["httpss"],
    ["https;q=1"],
    ['"https"'],
    ["on"],
    ["wss"],
  ];

  test("was used unless the last value of X-Forwarded-Proto is https or absent", () => {
    for (const proto of [...SECURE, ...PLAIN]) {
      const expected = PLAIN.includes(proto);
      for (const more of [{}, { servesTls: true }, { insecureHttp: true }]) {
        assert.equal(
          factsOf({ proto }, { ...POLICY, ...more }).isPlainHttp,
          expected,
          proto.join(),
        );
      }
    }
  });

  test("was used by a client that bypasses the proxies", () => {
    for (const peer of [CLIENT, "::ffff:203.0.113.7", "2001:db8::1", "172.16.0.1", undefined]) {
      assert.equal(factsOf({ peer }).isPlainHttp, true, peer);
      assert.equal(factsOf({ peer, proto: ["https"] }).isPlainHttp, true, peer);
    }
  });

  test("is allowed from this machine", () => {
    for (const peer of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]) {
      assert.equal(factsOf({ peer }).isPlainHttp, false, peer);
      assert.equal(factsOf({ peer, proto: ["http"] }).isPlainHttp, false, peer);
    }
  });

  test("is allowed if the operator accepts it, serves HTTPS or trusts no proxy", () => {
    const peer = CLIENT;
    const none = toProxyPolicy({ trustedProxies: [], servesTls: false, insecureHttp: false });

    assert.equal(factsOf({ peer }, { ...POLICY, insecureHttp: true }).isPlainHttp, false);
    assert.equal(factsOf({ peer }, { ...POLICY, servesTls: true }).isPlainHttp, false);
    assert.equal(factsOf({ peer, proto: ["http"] }, none).isPlainHttp, false);
  });
});

describe("the key of an address", () => {
  const KEYS: readonly [address: string, key: string][] = [
    ["203.0.113.7", "203.0.113.7"],
    ["::ffff:203.0.113.7", "203.0.113.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:db8:1:2::", "2001:db8:1:2::/64"],
    ["2001:db8:1:3::", "2001:db8:1:3::/64"],
    ["::1", "::/64"],
    ["fe80::1%eth0", "fe80::/64"],
    ["", ""],
    ["unknown", "unknown"],
  ];
  test("is the address, or the /64 of IPv6", () => {
    for (const [address, key] of KEYS) assert.equal(addressKey(address), key);
  });
});
