/** A request of an attack, as it goes over the wire. */
export interface AttackRequest {
  /** Request line and headers, without Content-Length and without the empty line. ASCII. */
  readonly head: string;
  /** Null: no body. */
  readonly body: AttackBody | null;
}

/** `start`, then `element` as often as `bytes` have room for, then `end`. ASCII. */
export interface AttackBody {
  readonly start: string;
  readonly element: string;
  readonly end: string;
  readonly bytes: number;
}

/** What an attacker's process is to do. */
export interface AttackJob {
  /** What is done with the request: the file of that name says. */
  readonly shape: "repeat" | "burst" | "unread" | "hold" | "endless" | "chunks" | "post";
  /** Of the daemon, on 127.0.0.1. */
  readonly port: number;
  /** The addresses that its connections come from, in turn. */
  readonly from: readonly [string, ...string[]];
  readonly connections: number;
  readonly request: AttackRequest;
  /** Requests a second over all connections; null: the next one follows each answer. */
  readonly perSecond: number | null;
  /** How often the request is written at once. */
  readonly pipelined: number;
  /** Of the shape `post`: the bodies that are sent with the request's head, each once. */
  readonly bodies: readonly string[];
}

/** How often an attacker got each status code, and how often it was `refused` or `closed` without one. */
export type AttackTally = Readonly<Record<string, number>>;

/** An attack under way, in a process of its own. */
export interface Attack {
  readonly job: AttackJob;
  /** The whole request; of the shape `endless` and `burst` all of it, the last byte too. */
  readonly request: Buffer;
  readonly tally: (what: string, times?: number) => void;
  /** Aborted when the attack is to end. */
  readonly signal: AbortSignal;
  /** To be called when all that it holds or has posted is in place. */
  readonly underWay: () => void;
}

/** The request with its length, as it goes over the wire. */
export function requestBytes({ head, body }: AttackRequest, given?: string): Buffer {
  const text = given ?? (body === null ? "" : bodyText(body));
  const length = text === "" ? "" : `\r\nContent-Length: ${text.length}`;
  return Buffer.from(`${head}${length}\r\n\r\n${text}`, "latin1");
}

/** The body alone. */
export function bodyText(body: AttackBody): string {
  const room = body.bytes - body.start.length - body.end.length;
  return body.start + body.element.repeat(Math.floor(room / body.element.length)) + body.end;
}
