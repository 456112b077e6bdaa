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

/** What a request is seen as whose header lines are these. */
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
  const PEERS: readonly [peer: string, address: string][] = [
    ["203.0.113.7", "203.0.113.7"],
    ["::ffff:203.0.113.7", "203.0.113.7"],
    ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
    ["fe80::1%eth0", "fe80::1%eth0"],
    ["127.0.0.1", "127.0.0.1"],
  ];
  for (const [peer, address] of PEERS) {
    test(`is the peer's own, ${address}, when ${peer} is no trusted proxy, whatever its headers say`, () => {
      assert.equal(factsOf({ peer }).address, address);
      assert.equal(factsOf({ peer, for: ["198.51.100.1"], proto: ["https"] }).address, address);
      assert.equal(factsOf({ peer, for: [PROXY, "10.0.0.2"] }).address, address);
    });
  }

  const FORWARDED: readonly [lines: readonly string[], address: string, why: string][] = [
    [[], PROXY, "the proxy names nobody"],
    [[""], PROXY, "the header is empty"],
    [[" , ,, "], PROXY, "the list has empty elements only"],
    [[CLIENT], CLIENT, "it is the only one"],
    [["  203.0.113.7\t"], CLIENT, "white space is around it"],
    [["198.51.100.1, 203.0.113.7"], CLIENT, "what is left of it the client made up"],
    [["198.51.100.1", "203.0.113.7"], CLIENT, "lines are one list"],
    [["203.0.113.7", "198.51.100.1"], "198.51.100.1", "lines are a list in their order"],
    [["127.0.0.1, 203.0.113.7"], CLIENT, "a client claims to be this machine"],
    [["10.9.9.9, 203.0.113.7"], CLIENT, "a client claims to be a trusted proxy"],
    [["203.0.113.7, 10.0.0.2, 192.0.2.1"], CLIENT, "proxies to its right are trusted"],
    [["203.0.113.7, 10.0.0.2", "fd00::2"], CLIENT, "proxies of both families are trusted"],
    [["203.0.113.7, 192.0.2.2"], "192.0.2.2", "a proxy that is not trusted is the client"],
    [["10.0.0.3, 10.0.0.2"], "10.0.0.3", "all are trusted: the left-most"],
    [["203.0.113.7,,10.0.0.2,"], CLIENT, "empty elements are none"],
    [["203.0.113.7:5678"], CLIENT, "a port goes with it"],
    [["203.0.113.7:0"], CLIENT, "port 0 goes with it"],
    [["203.0.113.7, 10.0.0.2:443"], CLIENT, "a trusted proxy has a port"],
    [["2001:db8::1"], "2001:db8::1", "it is IPv6"],
    [["2001:DB8:0::1"], "2001:db8::1", "IPv6 has one spelling"],
    [["[2001:db8::1]"], "2001:db8::1", "it is in brackets"],
    [["[2001:db8::1]:99"], "2001:db8::1", "brackets have a port"],
    [["::ffff:203.0.113.7"], CLIENT, "IPv4 is mapped"],
    [["[::ffff:203.0.113.7]:99"], CLIENT, "IPv4 is mapped, in brackets"],
    [["203.0.113.7, ::ffff:10.0.0.2"], CLIENT, "a trusted proxy is mapped"],
  ];
  for (const [lines, address, why] of FORWARDED) {
    test(`is ${address} behind a trusted proxy for ${JSON.stringify(lines)}: ${why}`, () => {
      assert.equal(factsOf({ for: lines }).address, address);
    });
  }

  const RUBBISH: readonly string[] = [
    "unknown",
    "_hidden",
    "localhost",
    "203.0.113.7:",
    "203.0.113.7:99999",
    "203.0.113.7:123456",
    "203.0.113.7:-1",
    "203.0.113.7:80:80",
    "203.0.113.7/32",
    "203.0.113.7 198.51.100.1",
    "203.0.113.7;10.0.0.2",
    "203.0.113.256",
    "203.0.113",
    "3405803783",
    "0xcb.0.113.7",
    "203.0.113.07",
    "[203.0.113.7]",
    "[203.0.113.7]:80",
    "[2001:db8::1",
    "2001:db8::1]",
    "[2001:db8::1]]",
    "[]",
    "[]:80",
    "[2001:db8::1]80",
    "[2001:db8::1]:",
    "[2001:db8::1]:65536",
    "2001:db8::1%eth0",
    "[fe80::1%25eth0]",
    "2001:db8::1::2",
    '"203.0.113.7"',
    '"[2001:db8::1]:99"',
    "for=203.0.113.7",
    "http://203.0.113.7",
    "203.0.113.7\u0000",
    "\u00ff",
    "٢٠٣.0.113.7",
    "' OR 1=1 --",
    "1".repeat(8000),
    "[".repeat(8000),
    ":".repeat(8000),
    " ".repeat(4000) + "x" + "\t".repeat(4000) + "y",
  ];
  for (const entry of RUBBISH) {
    test(`is the last good one before the rubbish ${JSON.stringify(entry.slice(0, 30))}`, () => {
      assert.equal(factsOf({ for: [entry] }).address, PROXY);
      assert.equal(factsOf({ for: [`203.0.113.7, ${entry}`] }).address, PROXY);
      assert.equal(factsOf({ for: [`${entry}, 10.0.0.2`] }).address, "10.0.0.2");
      assert.equal(factsOf({ for: [`${entry}, 203.0.113.7, 10.0.0.2`] }).address, CLIENT);
    });
  }

  test("is found in a header as long as a request may be, without delay", async () => {
    const long = Array.from({ length: 8000 }, () => "1").join(",");

    const ms = await cpuMsOf(() => {
      assert.equal(factsOf({ for: [`${long}, 10.0.0.2`] }).address, "10.0.0.2");
      assert.equal(factsOf({ for: [`${"10.0.0.2,".repeat(1800)}`] }).address, "10.0.0.2");
    });

    assert(ms < 1000, `${ms} ms`);
  });

  test("is found behind a proxy that connects over mapped IPv4", () => {
    assert.equal(factsOf({ peer: "::ffff:10.0.0.1", for: [CLIENT] }).address, CLIENT);
  });

  test("is the peer's when no proxy is trusted", () => {
    const policy = toProxyPolicy({ trustedProxies: [], servesTls: false, insecureHttp: false });

    assert.equal(factsOf({ peer: PROXY, for: [CLIENT] }, policy).address, PROXY);
  });

  test("is empty for a connection that is gone", () => {
    assert.equal(factsOf({ peer: undefined, for: [CLIENT] }).address, "");
  });
});

describe("plain HTTP", () => {
  const PROTOS: readonly [lines: readonly string[], isPlainHttp: boolean][] = [
    [[], false],
    [[""], false],
    [[" , "], false],
    [["https"], false],
    [["HTTPS"], false],
    [[" https "], false],
    [["http"], true],
    [["HTTP"], true],
    [["https, http"], true],
    [["http, https"], false],
    [["https", "http"], true],
    [["http", "https"], false],
    [["http,https,"], false],
    [["httpss"], true],
    [["https;q=1"], true],
    [['"https"'], true],
    [["on"], true],
    [["wss"], true],
  ];
  for (const [lines, isPlainHttp] of PROTOS) {
    const verdict = isPlainHttp ? "was used" : "was not used";
    test(`${verdict} when a trusted proxy says ${JSON.stringify(lines)}`, () => {
      assert.equal(factsOf({ proto: lines }).isPlainHttp, isPlainHttp);
      assert.equal(
        factsOf({ proto: lines }, { ...POLICY, servesTls: true }).isPlainHttp,
        isPlainHttp,
      );
      assert.equal(
        factsOf({ proto: lines }, { ...POLICY, insecureHttp: true }).isPlainHttp,
        isPlainHttp,
      );
    });
  }

  test("was used by whoever goes around the proxies, whatever it says", () => {
    for (const peer of [CLIENT, "::ffff:203.0.113.7", "2001:db8::1", "172.16.0.1", undefined]) {
      assert.equal(factsOf({ peer }).isPlainHttp, true, peer);
      assert.equal(factsOf({ peer, proto: ["https"] }).isPlainHttp, true, peer);
    }
  });

  test("is fine from this machine, which nobody listens in on", () => {
    for (const peer of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]) {
      assert.equal(factsOf({ peer }).isPlainHttp, false, peer);
      assert.equal(factsOf({ peer, proto: ["http"] }).isPlainHttp, false, peer);
    }
  });

  test("is fine where the operator accepts it, serves HTTPS or trusts no proxy", () => {
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
  for (const [address, key] of KEYS) {
    test(`of ${JSON.stringify(address)} is ${JSON.stringify(key)}`, () => {
      assert.equal(addressKey(address), key);
    });
  }
});
