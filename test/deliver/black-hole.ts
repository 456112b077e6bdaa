import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import type { TestContext } from "node:test";

const LISTEN = `require("node:net").createServer()
  .listen({ host: process.argv[1], port: Number(process.argv[2]), backlog: 1 }, () => console.log("listening"))`;

// The kernel accepts one connection more than the backlog, then drops every SYN.
const BACKLOG_ROOM = 2;

/**
 * Makes a port on a loopback address that drops packets. Its listener is a stopped process with a full queue, so that
 * connections are neither accepted nor refused. It ends after the test.
 */
export async function startBlackHole(
  t: TestContext,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> {
  const child = spawn(process.execPath, ["-e", LISTEN, host, String(port)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  await once(child.stdout, "data");
  child.kill("SIGSTOP");
  for (let room = 0; room < BACKLOG_ROOM; room++) {
    const filler = connect({ host, port });
    filler.on("error", () => filler.destroy());
    t.after(() => filler.destroy());
    await once(filler, "connect");
  }
}
