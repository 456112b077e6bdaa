import { readFileSync } from "node:fs";
import { Socket } from "node:net";

import type { Attack } from "./attack-job.ts";
import { addressOf, ended, rampUp } from "./attack-line.ts";

const ESTABLISHED = "01";

/** Requests over many connections, of whose answers nothing is read. Counts as `held` what is open at the end. */
export async function unread(attack: Attack): Promise<void> {
  const { job, signal, request, tally, underWay } = attack;
  const bytes = Buffer.concat(Array.from({ length: job.pipelined }, () => request));
  const sockets: Socket[] = [];
  const ports = new Set<number>();
  await rampUp(attack, (index) => {
    // Paused before it connects: it never reads a byte.
    const socket = new Socket().pause();
    const localAddress = addressOf(job, index);
    socket.on("connect", () => {
      if (socket.localPort !== undefined) ports.add(socket.localPort);
      socket.write(bytes);
    });
    socket.on("error", () => tally("refused"));
    socket.connect({ host: "127.0.0.1", port: job.port, localAddress });
    sockets.push(socket);
  });
  underWay();
  await ended(signal);
  const held = countEstablished(ports);
  tally("held", held);
  tally("closed", ports.size - held);
  for (const socket of sockets) socket.destroy();
}

/** Who does not read is not told by Node that a connection was closed; the kernel knows. */
function countEstablished(ports: ReadonlySet<number>): number {
  const lines = readFileSync("/proc/net/tcp", "latin1").split("\n").slice(1);
  return lines.filter((line) => {
    const [, local = "", , state] = line.trim().split(/\s+/);
    return state === ESTABLISHED && ports.has(Number.parseInt(local.split(":")[1] ?? "", 16));
  }).length;
}
