import { createSocket } from "node:dgram";
import { once } from "node:events";

import { helperProcess } from "../../kit/helper-process.ts";

const TYPE_A = 1;
const HEADER_BYTES = 12;
const TTL_SECONDS = 60;

/** The end of names without a name server. */
export const DEAD_ZONE = "dead.test";

class Names {
  /** Returns its port on 127.0.0.1. */
  async open(): Promise<number> {
    const socket = createSocket("udp4");
    socket.on("message", (asked, from) => {
      const answer = answerTo(asked);
      if (answer !== null) socket.send(answer, from.port, from.address);
    });
    socket.bind(0, "127.0.0.1");
    await once(socket, "listening");
    return socket.address().port;
  }
}

/** The name of a host of a block. */
export function hostName(index: number, block: number): string {
  return `h${index}.${block}.test`;
}

function answerTo(asked: Buffer): Buffer | null {
  const { name, type, end } = readQuestion(asked);
  if (name.endsWith(DEAD_ZONE)) return null;
  const [, index, block] = /^h(\d+)\.(\d+)\.test$/.exec(name) ?? [];
  const isKnown = index !== undefined && type === TYPE_A;
  const header = Buffer.from(asked.subarray(0, end));
  // Response, recursion desired and available; a question, and at most one answer.
  header.writeUInt16BE(0x8180, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(isKnown ? 1 : 0, 6);
  header.writeUInt32BE(0, 8);
  if (!isKnown) return header;
  const number = Number(index);
  const address = [127, Number(block), Math.floor(number / 250), 1 + (number % 250)];
  // The name is a pointer to the question's (RFC 1035 §4.1.4); type A, class IN.
  const record = Buffer.from([0xc0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, TTL_SECONDS, 0, 4]);
  return Buffer.concat([header, record, Buffer.from(address)]);
}

function readQuestion(asked: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let offset = HEADER_BYTES;
  for (let length = asked.readUInt8(offset); length > 0; length = asked.readUInt8(offset)) {
    labels.push(asked.toString("latin1", offset + 1, offset + 1 + length));
    offset += 1 + length;
  }
  const type = asked.readUInt16BE(offset + 1);
  return { name: labels.join(".").toLowerCase(), type, end: offset + 5 };
}

/**
 * A name server, in a process of its own. `h17.3.test` is 127.3.0.18: the zone's number is the block of loopback addresses
 * of the host. Names in {@link DEAD_ZONE} get no response.
 */
export class NameServer extends helperProcess(import.meta, Names) {}
