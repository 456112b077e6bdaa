import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import type { RemoteInfo, Socket } from "node:dgram";
import { once } from "node:events";
import { isIPv4, isIPv6 } from "node:net";
import type { TestContext } from "node:test";

/** Questions of other types get no records. */
type DnsType = "A" | "AAAA";

export type DnsAnswer =
  /** Addresses or CNAMEs in this order. May be empty. */
  | { readonly kind: "records"; readonly records: readonly DnsRecord[] }
  | { readonly kind: "nxdomain" | "servfail" | "refused" | "silence" | "garbage" }
  /** Waits for `until`, then gives `answer`. */
  | { readonly kind: "held"; readonly until: Promise<unknown>; readonly answer: DnsAnswer };

/** `name` is by default the name of the question. */
interface DnsRecord {
  readonly type: DnsType | "CNAME";
  readonly value: string;
  readonly name?: string;
  readonly ttl?: number;
}

/** The replies for one name. A list has one answer for each question and repeats the last. */
export type DnsScript = { readonly [type in DnsType]?: DnsAnswer | readonly DnsAnswer[] };

interface DnsQuestion {
  readonly name: string;
  readonly type: DnsType | "other";
}

export interface DnsServer {
  /** For `new Resolver({ servers })`. */
  readonly servers: readonly string[];
  /** Every question so far, repeated ones included, oldest first. */
  readonly questions: readonly DnsQuestion[];
  /** Sets the answers for `name`. Unknown names do not exist, and an absent type is empty. */
  script(name: string, answers: DnsScript): void;
  /** Resolves at `count` questions. */
  waitFor(count: number): Promise<void>;
}

/** Addresses of one family as an answer. */
export function addresses(...values: readonly string[]): DnsAnswer {
  return {
    kind: "records",
    records: values.map((value) => ({ type: isIPv4(value) ? "A" : "AAAA", value })),
  };
}

const TYPE_CODES = { A: 1, CNAME: 5, AAAA: 28 } as const;
const RESULT_CODES = { records: 0, servfail: 2, nxdomain: 3, refused: 5 } as const;
const CLASS_IN = 1;
const TTL_SECONDS = 300;
const WAIT_MS_MAX = 30_000;

/** Starts a scripted DNS server (UDP, loopback, a free port). It is closed after the test. */
export async function startDnsServer(t: TestContext): Promise<DnsServer> {
  const socket = createSocket("udp4");
  t.after(() => socket.close());
  const server = new ScriptedDnsServer(socket);
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return server;
}

class ScriptedDnsServer implements DnsServer {
  readonly questions: DnsQuestion[] = [];
  readonly #socket: Socket;
  readonly #answers = new Map<string, DnsAnswer[]>();
  readonly #watches = new Set<() => void>();

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("message", (message, from) => void this.#serve(message, from));
  }

  get servers(): readonly string[] {
    return [`127.0.0.1:${this.#socket.address().port}`];
  }

  script(name: string, answers: DnsScript): void {
    for (const type of ["A", "AAAA"] as const) {
      const answer = answers[type] ?? addresses();
      this.#answers.set(`${name} ${type}`, isList(answer) ? [...answer] : [answer]);
    }
  }

  waitFor(count: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const watch = (): void => {
        if (this.questions.length < count) return;
        this.#watches.delete(watch);
        clearTimeout(timeout);
        resolve();
      };
      const timeout = setTimeout(() => {
        this.#watches.delete(watch);
        reject(new Error(`${count} questions were expected, ${this.questions.length} came`));
      }, WAIT_MS_MAX);
      this.#watches.add(watch);
      watch();
    });
  }

  async #serve(message: Buffer, from: RemoteInfo): Promise<void> {
    const { question, end } = readQuestion(message);
    this.questions.push(question);
    for (const watch of this.#watches) watch();
    let answer = this.#answerTo(question);
    while (answer.kind === "held") {
      await answer.until;
      answer = answer.answer;
    }
    if (answer.kind === "silence") return;
    const reply =
      answer.kind === "garbage"
        ? Buffer.concat([message.subarray(0, 2), Buffer.from("\xff\xffgarbage", "latin1")])
        : writeReply(message.subarray(0, end), {
            question,
            resultCode: RESULT_CODES[answer.kind],
            records: answer.kind === "records" ? answer.records : [],
          });
    this.#send(reply, from);
  }

  #answerTo({ name, type }: DnsQuestion): DnsAnswer {
    const answers = this.#answers.get(`${name} ${type}`);
    if (answers === undefined) return { kind: "nxdomain" };
    const [first] = answers.length > 1 ? answers.splice(0, 1) : answers;
    assert(first !== undefined, "an empty list of answers");
    return first;
  }

  #send(reply: Buffer, from: RemoteInfo): void {
    try {
      this.#socket.send(reply, from.port, from.address);
    } catch {
      // The socket was closed before a held answer.
    }
  }
}

function isList(answer: DnsAnswer | readonly DnsAnswer[]): answer is readonly DnsAnswer[] {
  return Array.isArray(answer);
}

// RFC 1035 §4.1: a header of 12 bytes, then the name in length-prefixed labels, then type and class.
function readQuestion(message: Buffer): { question: DnsQuestion; end: number } {
  const labels: string[] = [];
  let offset = 12;
  for (let length = message.readUInt8(offset); length > 0; length = message.readUInt8(offset)) {
    labels.push(message.toString("latin1", offset + 1, offset + 1 + length));
    offset += 1 + length;
  }
  const code = message.readUInt16BE(offset + 1);
  const type = code === TYPE_CODES.A ? "A" : code === TYPE_CODES.AAAA ? "AAAA" : "other";
  return { question: { name: labels.join(".").toLowerCase(), type }, end: offset + 5 };
}

function writeReply(
  asked: Buffer,
  reply: {
    readonly question: DnsQuestion;
    readonly resultCode: number;
    readonly records: readonly DnsRecord[];
  },
): Buffer {
  const header = Buffer.from(asked);
  // Response, recursion desired and available; one question, no authority, no additional records.
  header.writeUInt16BE(0x8180 | reply.resultCode, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(reply.records.length, 6);
  header.writeUInt32BE(0, 8);
  const records = reply.records.map((record) => writeRecord(record, reply.question.name));
  return Buffer.concat([header, ...records]);
}

function writeRecord(record: DnsRecord, asked: string): Buffer {
  const data = writeData(record);
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(TYPE_CODES[record.type], 0);
  fixed.writeUInt16BE(CLASS_IN, 2);
  fixed.writeUInt32BE(record.ttl ?? TTL_SECONDS, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([writeName(record.name ?? asked), fixed, data]);
}

function writeData({ type, value }: DnsRecord): Buffer {
  switch (type) {
    case "A":
      return Buffer.from(value.split(".").map(Number));
    case "AAAA":
      return writeIpv6(value);
    case "CNAME":
      return writeName(value);
  }
}

function writeName(name: string): Buffer {
  const labels = name.split(".").filter((label) => label !== "");
  const parts = labels.map((label) =>
    Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]),
  );
  return Buffer.concat([...parts, Buffer.from([0])]);
}

function writeIpv6(value: string): Buffer {
  assert(isIPv6(value) && !value.includes("."), `${value} is no IPv6 address in hexadecimal`);
  const [head = "", tail = ""] = value.split("::");
  const groups = (text: string): string[] => (text === "" ? [] : text.split(":"));
  const zeros = 8 - groups(head).length - groups(tail).length;
  const all = [...groups(head), ...Array<string>(zeros).fill("0"), ...groups(tail)];
  return Buffer.from(all.map((group) => group.padStart(4, "0")).join(""), "hex");
}
