import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";

/** A process that holds a connection until its end. */
export interface HeldProcess {
  readonly socket: Socket;
  /** Its next line; rejects if it ends before. */
  line(): Promise<string>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<unknown>;
}

/** The socket to which processes of test/fixtures/commands connect. */
export interface HeldProcesses {
  readonly socketPath: string;
  /** The next process that connects. */
  next(): Promise<HeldProcess>;
}

/** Opens a Unix socket that shows the start and the end of processes. */
export async function openHeldProcesses(t: TestContext): Promise<HeldProcesses> {
  const folder = await mkdtemp(join(tmpdir(), "postbackd-held-"));
  const socketPath = join(folder, "socket");
  const server = createServer();
  const waiting: HeldProcess[] = [];
  const wanted: ((process: HeldProcess) => void)[] = [];
  server.on("connection", (socket) => {
    const held = toHeldProcess(socket);
    const want = wanted.shift();
    if (want === undefined) waiting.push(held);
    else want(held);
  });
  server.listen(socketPath);
  await once(server, "listening");
  t.after(async () => {
    server.close();
    await rm(folder, { recursive: true });
  });
  return {
    socketPath,
    next: async () => waiting.shift() ?? new Promise((resolve) => wanted.push(resolve)),
  };
}

function toHeldProcess(socket: Socket): HeldProcess {
  // A killed process may reset its connection: that is an end too.
  socket.on("error", () => {});
  const ended = new Promise((resolve) => socket.once("close", resolve));
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  return {
    socket,
    ended,
    async line() {
      const next = await lines.next();
      if (next.done === true) throw new Error("The process ended without another line.");
      return next.value;
    },
  };
}
