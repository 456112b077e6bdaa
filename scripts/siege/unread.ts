import { readFileSync } from "node:fs";
import { Socket } from "node:net";

import type { Attack } from "./attack-job.ts";
import { addressOf, ended, rampUp } from "./attack-line.ts";

const ESTABLISHED = "01";

/**
 * Sends requests over many connections and reads nothing of their answers. Counts the connections open at the end as
 * `held`.
 */
export async function unread(attack: Attack): Promise<void> {
  const { job, signal, request, tally, underWay } = attack;
  const bytes = Buffer.concat(Array.from({ length: job.pipelined }, () => request));
  const sockets: Socket[] = [];
  const opened = new Set<string>();
  let refused = 0;
  const noteOne = (): void => {
    if (opened.size + refused === job.connections) underWay();
  };
  await rampUp(attack, (index) => {
    // Paused before it connects, so it never reads a byte.
    const socket = new Socket().pause();
    const localAddress = addressOf(job, index);
    socket.on("connect", () => {
      opened.add(`${localAddress}:${socket.localPort}`);
      socket.write(bytes);
      noteOne();
    });
    socket.on("error", () => {
      refused++;
      noteOne();
    });
    socket.connect({ host: "127.0.0.1", port: job.port, localAddress });
    sockets.push(socket);
  });
  await ended(signal);
  const held = countEstablished(opened);
  tally("held", held);
  tally("closed", opened.size - held);
  tally("refused", job.connections - opened.size);
  for (const socket of sockets) socket.destroy();
}

/** Node does not tell a socket that does not read that its connection was closed; the kernel knows. */
function countEstablished(opened: ReadonlySet<string>): number {
  const lines = readFileSync("/proc/net/tcp", "latin1").split("\n").slice(1);
  return lines.filter((line) => {
    const [, local = "", , state] = line.trim().split(/\s+/);
    return state === ESTABLISHED && opened.has(endpointText(local));
  }).length;
}

/** `0203007F:1F90`, as the kernel has it on a little-endian machine, is 127.0.3.2:8080. */
function endpointText(local: string): string {
  const [address = "", port = ""] = local.split(":");
  const bytes = Buffer.from(address, "hex").toReversed();
  return `${bytes.join(".")}:${Number.parseInt(port, 16)}`;
}
