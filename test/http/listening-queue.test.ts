import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { test, type TestContext } from "node:test";

import { startRing } from "./ring.ts";

// More than the 511 that Node asks for by itself.
const COMING = 600;
// The kernel of a busy machine may be a moment behind.
const LOOKS_MAX = 200;
const ALLOWED = "/proc/sys/net/core/somaxconn";

/** How many connections of a port on 127.0.0.1 wait to be let in, as the kernel says. */
function waitingConnections(port: number): number {
  const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const lines = readFileSync("/proc/net/tcp", "latin1").split("\n");
  const listening = lines
    .map((line) => line.trim().split(/\s+/))
    .find(([, address, , state]) => address === local && state === "0A");
  return Number.parseInt(listening?.[4]?.split(":")[1] ?? "", 16);
}

const isTold = existsSync(ALLOWED) && Number(readFileSync(ALLOWED, "latin1")) >= COMING;
const skip = isTold ? false : "needs Linux, and a kernel that lets so many wait";

test(
  "six hundred simultaneous connections wait in the listening queue",
  { skip },
  async (t: TestContext) => {
    const { url } = await startRing(t);
    const port = Number(new URL(url).port);

    // Nothing is let in between: the kernel alone answers them.
    const sockets = Array.from({ length: COMING }, () => connect({ host: "127.0.0.1", port }));
    // Node connects each at the end of this step.
    await new Promise<void>((resolve) => process.nextTick(resolve));
    let waiting = waitingConnections(port);
    for (let looks = 1; waiting < COMING && looks < LOOKS_MAX; looks++) {
      waiting = waitingConnections(port);
    }
    for (const socket of sockets) socket.destroy();

    assert.equal(waiting, COMING);
  },
);
