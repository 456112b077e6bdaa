import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import type { TestContext } from "node:test";

const LISTEN = `require("node:net").createServer()
  .listen({ host: process.argv[1], port: Number(process.argv[2]), backlog: 1 }, () => console.log("listening"))`;

// The kernel takes one connection more than the backlog asks for, and then drops every SYN.
const BACKLOG_ROOM = 2;

/**
 * Makes a port on a loopback address that swallows packets: its listener is a stopped process whose
 * queue is full, so that connections to it are neither accepted nor refused. Gone after the test.
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
