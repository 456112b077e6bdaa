import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const INSIDE = fileURLToPath(new URL("private-network.ts", import.meta.url));

// Addresses of the loopback interface of the namespace: packets to them stay in it.
const ADDRESSES = [
  ...["10.99.0.1/32", "172.31.99.1/32", "192.168.77.1/32", "100.100.100.200/32"],
  ...["169.254.169.254/32", "168.63.129.16/32", "192.0.0.192/32", "198.18.0.1/32"],
  ...["203.0.113.7/32", "93.184.216.34/32", "fd00:ec2::254/128", "2001:db8::7/128"],
  "2606:2800:220:1::34/128",
];
const MAKE_NETWORK = [
  "ip link set lo up",
  // A machine without IPv6 skips the IPv6 addresses.
  ...ADDRESSES.map((each) => `ip addr add ${each} dev lo${each.includes(":") ? " || true" : ""}`),
].join(" && ");
// Addresses of two interfaces without a carrier: one is up, one is down.
const UNLISTED = [
  ["93.184.217.34/24", "cut"],
  ["93.184.218.34/24", "off"],
  ["2606:2800:221:1::34/64", "cut"],
  ["2606:2800:222:1::34/64", "off"],
] as const;
const MAKE_UNLISTED = [
  "ip link add cut type veth peer name cut-end",
  "ip link set cut up",
  "ip link add off type veth peer name off-end",
  ...UNLISTED.map(([address, link]) => {
    const isIpv6 = address.includes(":");
    return `ip addr add ${address} dev ${link}${isIpv6 ? " nodad || true" : ""}`;
  }),
].join(" && ");
const RUN_MS_MAX = 120_000;

const canMakeNetworks = worksInside("ip link set lo up");
const canMakePairs = worksInside("ip link add cut type veth peer name cut-end");
const NAMESPACE_ONLY = {
  skip: canMakeNetworks ? false : "this machine makes no network namespace (unshare -rnm, ip)",
};

test(
  "in a network with private addresses no address gets a connection",
  NAMESPACE_ONLY,
  async () => {
    const { code, output } = await runInside();

    assert.equal(code, 0, output);
    assert.match(output, /^# pass [1-9]/m, output);
  },
);

function worksInside(command: string): boolean {
  const args = ["-rnm", "sh", "-c", command];
  return spawnSync("unshare", args, { stdio: "ignore" }).status === 0;
}

/** Runs the tests of private-network.ts in a network namespace. */
function runInside(): Promise<{ readonly code: number | null; readonly output: string }> {
  const script = `${MAKE_NETWORK} ${canMakePairs ? `&& ${MAKE_UNLISTED}` : ""} && exec "$@"`;
  const args = ["-rnm", "sh", "-c", script, "sh", process.execPath, "--test-reporter=tap", INSIDE];
  // The runner's own variable would make the process inside report to it, not to its output.
  const unlisted = canMakePairs ? UNLISTED.map(([address]) => address.split("/")[0]) : [];
  const env = {
    ...process.env,
    NODE_TEST_CONTEXT: undefined,
    UNLISTED: unlisted.join(" "),
  };
  return new Promise((resolve) => {
    const child = execFile("unshare", args, { env, timeout: RUN_MS_MAX }, (_error, out, err) => {
      resolve({ code: child.exitCode, output: out + err });
    });
  });
}
