import { readFileSync } from "node:fs";
import { Socket } from "node:net";

import { ended, placeOf, rampUp, type UnderWay } from "./connection.ts";

const ESTABLISHED = "01";

/**
 * Sends requests over many connections and reads nothing of their answers. Counts the connections open at the end as
 * `held`.
 */
export async function unread(way: UnderWay): Promise<void> {
  const { attack, signal, request, tally, inPlace } = way;
  const bytes = Buffer.concat(Array.from({ length: attack.pipelined ?? 1 }, () => request));
  const sockets: Socket[] = [];
  const opened = new Set<string>();
  let refused = 0;
  const noteOne = (): void => {
    if (opened.size + refused === attack.connections) inPlace();
  };
  await rampUp(way, (index) => {
    // Paused before it connects, so it never reads a byte.
    const socket = new Socket().pause();
    const place = placeOf(way, index);
    socket.on("connect", () => {
      opened.add(`${place.localAddress}:${socket.localPort}`);
      socket.write(bytes);
      noteOne();
    });
    socket.on("error", () => {
      refused++;
      noteOne();
    });
    socket.connect(place);
    sockets.push(socket);
  });
  await ended(signal);
  const held = countEstablished(opened);
  tally("held", held);
  tally("closed", opened.size - held);
  tally("refused", attack.connections - opened.size);
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
